/*
 * A handler that touches shared memory while its thread waits for a lock: multigrain.h forbids it.
 */
#include "check.h"

#include <signal.h>
#include <unistd.h>

static int *shared;

static void touch(int signal)
{
    ++*shared;
    (void)signal;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    shared = SHARE("shared", 0, mg_calloc(1, sizeof *shared));
    if (mg_node() == 0)
        OK(mg_lock(1));
    OK(mg_barrier(1, 0));
    while (mg_node() == 0)
        pause();
    CHECK(signal(SIGALRM, touch) != SIG_ERR);
    alarm(1);
    OK(mg_lock(1));
    return 1;
}
