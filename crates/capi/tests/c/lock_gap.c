/*
 * A thread that takes a lock again and again at once, and then goes to sleep: the lock stays free for it for a window (ADR 41), which
 * ends by itself, so that the threads of its node that wait have the lock, long before it comes back.
 */
#include "check.h"

#include <pthread.h>
#include <time.h>

#define WAITERS 3
#define GAPS 4
#define GAP_US 300000

static volatile int over;
static double longest[WAITERS];

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *wants(void *arg)
{
    double *most = arg;

    while (!over) {
        double since = now();

        OK(mg_lock(5));
        double waited = now() - since;
        OK(mg_unlock(5));
        if (waited > *most)
            *most = waited;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[WAITERS];

    OK(mg_init(&argc, &argv));
    OK(mg_barrier(0, 0));
    for (int i = 0; i < WAITERS; i++)
        CHECK(pthread_create(&threads[i], NULL, wants, &longest[i]) == 0);
    for (int gap = 0; gap < GAPS; gap++) {
        for (int i = 0; i < 5000; i++) {
            OK(mg_lock(5));
            OK(mg_unlock(5));
        }
        usleep(GAP_US);
    }
    over = 1;
    for (int i = 0; i < WAITERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        if (longest[i] > GAP_US / 2 * 1e-6)
            FAIL("a thread waited for %.3f s, as long as another one slept", longest[i]);
    }
    OK(mg_finalize());
    return 0;
}
