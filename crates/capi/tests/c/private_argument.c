/* A thread of node 1 gets an address: of node 0's stack or heap, or of shared memory. */
#include "check.h"

static void *nothing(void *arg)
{
    return arg;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    if (mg_node() == 0) {
        int local = 1, *block = malloc(sizeof *block), *shared = mg_malloc(sizeof *shared);
        void *result, *argument = shared;
        mg_thread thread;

        CHECK(argc > 1);
        if (strcmp(argv[1], "stack") == 0)
            argument = &local;
        else if (strcmp(argv[1], "heap") == 0)
            argument = block;
        for (int i = 0; i < 2; i++) {
            OK(mg_thread_create(&thread, 1, nothing, argument));
            OK(mg_thread_join(thread, &result));
            CHECK(result == argument);
        }
        free(block);
    }
    OK(mg_finalize());
    return 0;
}
