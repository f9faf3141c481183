/* The header alone, as C11 and as C++, with every function named. Compiled, never run. */
#include <multigrain.h>

typedef void (*any_function)(void);

extern const any_function every_function[];
const any_function every_function[] = {
EVERY_FUNCTION
};

int main(int argc, char **argv)
{
    struct mg_stats stats;
    enum mg_error error = MG_EPERM;

    stats.views = MG_VERSION_MAJOR + MG_VERSION_MINOR;
    return mg_init(&argc, &argv) + (int)stats.views + (int)error + (int)sizeof(mg_thread) + MG_ANY_NODE;
}
