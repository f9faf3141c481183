/* A thread starts with a function of a library that the program loads: before mg_init, or too late. */
#include "check.h"

#include <dlfcn.h>

#ifdef PLUGIN

void *seven(void *arg);
void *seven(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)(mg_node() + 7);
}

#else

typedef void *function(void *);

static function *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW), *symbol;
    function *start;

    if (library == NULL)
        FAIL("%s", dlerror());
    symbol = dlsym(library, "seven");
    CHECK(symbol != NULL);
    memcpy(&start, &symbol, sizeof start);
    return start;
}

/* Node 1 has not loaded it. */
static int missing(const char *path)
{
    function *start = atoi(getenv("MULTIGRAIN_RANK")) == 1 ? NULL : load(path);
    mg_thread thread;

    OK(mg_init(NULL, NULL));
    if (start != NULL) {
        CODE(mg_thread_create(&thread, 1, start, NULL), MG_ESYS);
        printf("%s\n", mg_strerror(MG_ESYS));
    }
    OK(mg_barrier(0, (uint32_t)mg_nodes()));
    OK(mg_finalize());
    return 0;
}

int main(int argc, char **argv)
{
    char command[4096], copy[4096];
    function *start, *late;
    mg_thread thread;
    void *result;

    CHECK(argc >= 2);
    if (argc == 3)
        return missing(argv[1]);
    start = load(argv[1]);
    OK(mg_init(&argc, &argv));
    for (int node = 0; node < mg_nodes(); node++) {
        OK(mg_thread_create(&thread, node, start, NULL));
        OK(mg_thread_join(thread, &result));
        CHECK((intptr_t)result == node + 7);
    }
    snprintf(copy, sizeof copy, "%s.%d", argv[1], mg_node());
    snprintf(command, sizeof command, "cp %.2000s %.2000s", argv[1], copy);
    CHECK(system(command) == 0);
    late = load(copy);
    CHECK(late != start);
    CODE(mg_thread_create(&thread, mg_node(), late, NULL), MG_EINVAL);
    CHECK(remove(copy) == 0);
    OK(mg_barrier(0, (uint32_t)mg_nodes()));
    OK(mg_finalize());
    return 0;
}

#endif
