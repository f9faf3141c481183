/* The time of a node's threads goes to computing, or to what they wait for. For 2 nodes. */
#include "check.h"

#include <time.h>

#define MS 1000000ull

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Time itself is what is tested: where the statistics say that it went. */
static void nap(void)
{
    uint64_t begin = now();

    while (now() < begin + 500 * MS)
        usleep(1000);
}

int main(int argc, char **argv)
{
    struct mg_stats stats;
    uint64_t begin = now(), joined, end;
    enum { PAGES = 64, MANY = 4096, WORDS = 4096 / sizeof(int) };
    int *words, *many;
    uint64_t called, waited;

    OK(mg_init(&argc, &argv));
    joined = now();
    if (mg_node() == 1)
        nap(); /* node 0 waits at the barrier */
    OK(mg_barrier(1, 0));
    if (mg_node() == 0)
        OK(mg_lock(1));
    OK(mg_barrier(1, 0));
    if (mg_node() == 0)
        nap(); /* node 1 waits for the lock */
    else
        OK(mg_lock(1));
    OK(mg_unlock(1));
    words = SHARE("words", 0, mg_calloc(PAGES * WORDS, sizeof *words));
    /* Node 1 waits for minipages: for one of them it need not, if another thread has received its reply
     * before it came to wait. */
    for (int i = 0; i < PAGES; i++)
        CHECK(words[i * WORDS] == 0);
    many = SHARE("many", 0, mg_calloc(MANY * WORDS, sizeof *many));
    /* A call that waits for one minipage after the other has waited no longer than it took. */
    waited = stats_now().fault_wait_ns;
    called = now();
    OK(mg_touch_read(many, MANY * WORDS * sizeof *many));
    CHECK(stats_now().fault_wait_ns - waited <= now() - called);
    if (mg_node() == 1) {
        nap(); /* node 0 waits for the post */
        OK(mg_sem_post(1, 1));
    } else {
        OK(mg_sem_wait(1));
    }
    end = now();
    stats = stats_now();

    uint64_t waits =
        stats.fault_wait_ns + stats.lock_wait_ns + stats.barrier_wait_ns + stats.other_wait_ns;
    uint64_t all = waits + stats.compute_ns;

    CHECK(all >= end - joined && all <= now() - begin);
    CHECK(stats.compute_ns >= 500 * MS);
    if (mg_node() == 0) {
        CHECK(stats.barrier_wait_ns >= 100 * MS && stats.other_wait_ns >= 100 * MS);
        CHECK(stats.lock_wait_ns < stats.barrier_wait_ns);
    } else {
        CHECK(stats.lock_wait_ns >= 100 * MS && stats.fault_wait_ns > 0);
        CHECK(stats.other_wait_ns < stats.lock_wait_ns);
    }
    CHECK(stats.barriers == 2);
    return mg_finalize();
}
