/* contention.c - the counts of contention.h. */
#include "contention.h"

#include <math.h>
#include <stdio.h>

static struct share **reported; /* this node's table of the workers' reports */

void shares_begin(void)
{
    size_t workers = (size_t)shm_workers();

    reported = private_alloc(workers * sizeof *reported);
    shm_array("app.shares", workers, sizeof **reported, 1, (void **)reported);
}

static int bucket_of(double us)
{
    double quarters = us > 0.25 ? 4 * log2(us / 0.25) : 0;

    return quarters < WAIT_BUCKETS - 1 ? (int)quarters : WAIT_BUCKETS - 1;
}

void share_add(struct share *mine, double waited_us)
{
    mine->had++;
    mine->waits[bucket_of(waited_us)]++;
    if (waited_us > mine->longest_us)
        mine->longest_us = waited_us;
}

void share_report(int worker, const struct share *mine)
{
    *reported[worker] = *mine;
}

const struct share *share_of(int worker)
{
    return reported[worker];
}

static void merge(struct share *all, const struct share *one)
{
    all->had += one->had;
    if (one->longest_us > all->longest_us)
        all->longest_us = one->longest_us;
    for (int b = 0; b < WAIT_BUCKETS; b++)
        all->waits[b] += one->waits[b];
}

/* What 99 of 100 waits did not exceed, to a quarter of an octave. */
static double ninety_nine(const struct share *share)
{
    uint64_t waits = 0;

    for (int b = 0; b < WAIT_BUCKETS; b++) {
        waits += share->waits[b];
        if (waits * 100 >= share->had * 99 && share->had > 0)
            return fmin(0.25 * exp2((b + 1) / 4.0), share->longest_us);
    }
    return share->longest_us;
}

void shares_print(const char *what)
{
    struct share all = {0};
    bool by_node = shm_nodes() > 1;
    int groups = by_node ? shm_nodes() : shm_workers();
    int each = by_node ? shm_threads() : 1;
    double least = 100;

    for (int w = 0; w < shm_workers(); w++)
        merge(&all, reported[w]);
    for (int g = 0; g < groups; g++) {
        struct share of_group = {0};
        double percent;

        for (int w = g * each; w < (g + 1) * each; w++)
            merge(&of_group, reported[w]);
        percent = 100.0 * (double)of_group.had / (double)(all.had ? all.had : 1);
        least = fmin(least, percent);
        printf("%s %d: %llu %s, %.1f %%; longest wait %.1f us, 99 %% within %.1f us\n",
               by_node ? "node" : "worker", g, (unsigned long long)of_group.had, what, percent,
               of_group.longest_us, ninety_nine(&of_group));
    }
    app_figure("share_min", least);
    app_figure("wait_p99_us", ninety_nine(&all));
    app_figure("wait_max_us", all.longest_us);
}
