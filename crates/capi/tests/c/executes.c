/* Node 1 executes another program, in its main thread or in another one: the arguments say where, and which. */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

static char **program;

static void *executes(void *unused)
{
    execvp(program[0], program);
    CHECK(!"execvp");
    return unused;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    program = argv + 2;
    if (mg_node() == 1) {
        pthread_t thread;
        if (strcmp(argv[1], "main") == 0)
            executes(NULL);
        CHECK(pthread_create(&thread, NULL, executes, NULL) == 0);
        for (;;)
            pause();
    }
    OK(mg_barrier(0, 0));
    return 0;
}
