/* What becomes of mg_init does not matter to this program; with an argument, that is its code. */
#include <multigrain.h>

int main(int argc, char **argv)
{
    const int code = mg_init(&argc, &argv);
    return code != MG_OK && argc > 1 ? 3 : 0;
}
