/* Of the calls for locks, those count as remote for which something was sent. */
#include "check.h"

#include <pthread.h>

#define CALLS 200
#define LOCK 60 /* node 0 manages it, of 1 to 6 nodes */

static volatile int *held;

static void *compete(void *arg)
{
    for (int i = 0; i < CALLS; i++) {
        OK(mg_lock(LOCK));
        *held += 1;
        if (i % 10 == 0)
            usleep(100); /* the other thread waits meanwhile */
        OK(mg_unlock(LOCK));
    }
    return arg;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    struct mg_stats stats;
    int me;

    OK(mg_init(&argc, &argv));
    me = mg_node();
    if (me == 0) {
        held = MUST(mg_calloc(1, sizeof *held));
        CHECK(pthread_create(&thread, NULL, compete, NULL) == 0);
        compete(NULL);
        CHECK(pthread_join(thread, NULL) == 0 && *held == 2 * CALLS);
        stats = stats_now();
        if (stats.locks != 2 * CALLS || stats.lock_messages != 0)
            FAIL("%lu of %lu are remote", (unsigned long)stats.lock_messages, (unsigned long)stats.locks);
    }
    OK(mg_barrier(0, 0));
    for (int node = 1; node < mg_nodes(); node++) {
        if (me == node) {
            for (int again = 0; again < 3; again++) {
                OK(mg_lock(LOCK));
                OK(mg_unlock(LOCK));
            }
            stats = stats_now();
            CHECK(stats.locks == 3 && stats.lock_messages == 1);
        }
        OK(mg_barrier(0, 0));
    }
    if (me == 0) { /* the last node has it */
        OK(mg_lock(LOCK));
        OK(mg_unlock(LOCK));
        CHECK(stats_now().lock_messages == (mg_nodes() > 1));
    }
    return mg_finalize();
}
