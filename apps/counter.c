/*
 * counter.c - one counter under one lock, handed over from node to node: what a critical section
 * costs whose data was last written elsewhere.
 *
 * Shared: the counter (a plain block of one page); lock 0. Everybody takes the lock again and again,
 * and counts only if the last to count was another node (another worker, on one node): so the
 * hand-overs are forced to alternate, and are what is counted.
 *
 * A chain over the counter's values, of which each depends on the one before, says that no count was
 * lost and none doubled.
 */
#include "contention.h"

#include <stdio.h>

static long hand_overs = 5000;

static struct counter {
    uint64_t count;
    uint64_t last; /* who counted last */
    uint64_t chain;
} *counter;

static const struct app_option options[] = {
    {"handovers", "hand-overs of the counter", &hand_overs, 1, 1L << 30},
    {0},
};

static const struct app app = {
    .name = "counter",
    .about = "one counter under one lock, handed over between nodes",
    .options = options,
};

static uint64_t chained(uint64_t chain, uint64_t count)
{
    return scramble(chain ^ count);
}

/* Counts if it is this one's turn; false when all is counted. */
static bool pass(uint64_t me, struct share *mine, double *waiting_since_ms)
{
    bool more;

    shm_lock(0);
    more = counter->count < (uint64_t)hand_overs;
    if (more && (shm_workers() == 1 || counter->last != me)) {
        double now = now_ms();

        counter->count++;
        counter->last = me;
        counter->chain = chained(counter->chain, counter->count);
        share_add(mine, (now - *waiting_since_ms) * 1e3);
        *waiting_since_ms = now;
    }
    shm_unlock(0);
    return more;
}

static void work(int worker)
{
    uint64_t me = (uint64_t)(shm_nodes() > 1 ? shm_node() : worker);
    struct share mine = {0};
    double waiting_since_ms;

    if (worker == 0)
        *counter = (struct counter){.last = (uint64_t)shm_workers()};
    bench_start(worker);
    waiting_since_ms = now_ms();
    while (pass(me, &mine, &waiting_since_ms))
        mine.sum++;
    bench_stop(worker);
    share_report(worker, &mine);
    shm_barrier();
}

static void check(void)
{
    uint64_t had = 0, chain = 0;

    for (int w = 0; w < shm_workers(); w++)
        had += share_of(w)->had;
    for (long i = 1; i <= hand_overs; i++)
        chain = chained(chain, (uint64_t)i);
    if (had != (uint64_t)hand_overs || counter->count != had || counter->chain != chain)
        check_failed("%llu hand-overs made, %llu counted, of %ld; the chain ends in %#llx, not %#llx",
                     (unsigned long long)had, (unsigned long long)counter->count, hand_overs,
                     (unsigned long long)counter->chain, (unsigned long long)chain);
}

/* How often the lock was taken for nothing, for each time that it was not. */
static double vain_passes(void)
{
    uint64_t passes = 0;

    for (int w = 0; w < shm_workers(); w++)
        passes += share_of(w)->sum;
    return (double)passes / (double)hand_overs - 1;
}

int main(int argc, char **argv)
{
    char input[64];

    app_begin(&app, &argc, &argv);
    counter = shm_plain("counter", APP_PAGE_BYTES);
    shares_begin();
    shm_run(work);
    if (check_wanted())
        check();
    if (shm_node() == 0) {
        shares_print("hand-overs");
        app_figure("hand_over_us", bench_ms() * 1e3 / (double)hand_overs);
        app_figure("vain_passes", vain_passes());
    }
    snprintf(input, sizeof input, "%ld hand-overs", hand_overs);
    return app_finish(input, "default", APP_PAGE_BYTES);
}
