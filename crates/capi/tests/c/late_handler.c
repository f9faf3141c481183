/*
 * A handler that touches shared memory while its thread waits for a lock, endlessly or until a deadline: multigrain.h
 * forbids it.
 */
#include "check.h"

#include <signal.h>
#include <time.h>
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
    if (argc > 1) {
        struct timespec in_3_s;

        CHECK(clock_gettime(CLOCK_REALTIME, &in_3_s) == 0);
        in_3_s.tv_sec += 3;
        mg_timedlock(1, &in_3_s);
    } else {
        OK(mg_lock(1));
    }
    return 1;
}
