/*
 * A node that takes a lock again and again, and then waits without a call for what another one writes under it: the window for
 * which the free lock stays (ADR 41) ends by itself, whenever its timer looks.
 */
#include "check.h"

#include <time.h>

#define TURNS 60
/* Nobody waits that long for a lock that is free. */
#define MOST_SECONDS 10

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* Sections until then, each of some microseconds. */
static void take_again_and_again(volatile long *count, double until_us)
{
    while (now_us() < until_us) {
        OK(mg_lock(7));
        ++*count;
        for (double begin = now_us(); now_us() < begin + 2;)
            ;
        OK(mg_unlock(7));
    }
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    volatile long *count = SHARE("count", 0, mg_calloc(1, 4096));
    volatile long *done = SHARE("done", 0, mg_calloc(1, 4096));

    for (int turn = 1; turn <= TURNS; turn++) {
        /* Another length each time. */
        double burst_us = 300 + turn * 977 % 3000;

        OK(mg_barrier(1, 0));
        if (mg_node() == 0) {
            take_again_and_again(count, now_us() + burst_us);
            for (time_t since = time(NULL); *done != turn;)
                if (time(NULL) - since > MOST_SECONDS)
                    FAIL("turn %d: nobody has had the free lock for %d s", turn, MOST_SECONDS);
        } else {
            take_again_and_again(count, now_us() + burst_us + 500);
            OK(mg_lock(7));
            *done = turn;
            OK(mg_unlock(7));
        }
    }
    return mg_finalize() == MG_OK ? 0 : 1;
}
