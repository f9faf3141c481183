/*
 * A thread that takes a lock again and again at once, and then stays away: the lock stays free for it for a window (ADR 41), which
 * ends by itself, so that the threads of its node that wait have the lock before it comes back. It comes back when they had it.
 */
#include "check.h"

#include <pthread.h>
#include <time.h>

#define WAITERS 3
#define TURNS 50
/* Nobody waits that long for a lock that is free. */
#define MOST_SECONDS 10

static volatile int over;
static long sections;

static void *wants(void *arg)
{
    while (!over) {
        OK(mg_lock(5));
        __atomic_fetch_add(&sections, 1, __ATOMIC_RELAXED);
        OK(mg_unlock(5));
    }
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t threads[WAITERS];

    OK(mg_init(&argc, &argv));
    OK(mg_barrier(0, 0));
    for (int i = 0; i < WAITERS; i++)
        CHECK(pthread_create(&threads[i], NULL, wants, NULL) == 0);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < 500; i++) {
            OK(mg_lock(5));
            OK(mg_unlock(5));
        }
        long before = __atomic_load_n(&sections, __ATOMIC_RELAXED);
        time_t since = time(NULL);

        while (__atomic_load_n(&sections, __ATOMIC_RELAXED) == before)
            if (time(NULL) - since > MOST_SECONDS)
                FAIL("no thread has had the free lock for %d s", MOST_SECONDS);
    }
    over = 1;
    for (int i = 0; i < WAITERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(mg_finalize());
    return 0;
}
