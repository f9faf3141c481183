/*
 * barrier.c - barriers one after the other, and a lock right behind each.
 *
 * Shared: of each worker the last round it came to (a plain block). A round is a barrier. In some
 * rounds everybody writes its number before, and looks at all after: nobody may have left before all
 * came. With --lock 1, behind each barrier the first worker and the last take lock 0 in turn: it was
 * the other's last, so the lock must come from there, and there everybody waits already.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>

enum { PROBED = 4 };

static long rounds = 2000, locking = 0;
static uint64_t *came;         /* of each worker */
static double *waits_us[2];    /* private: of the first worker's locks and of the last one's */
static double *last_median_us; /* shared: the last worker's */

static const struct app_option options[] = {
    {"rounds", "barriers", &rounds, PROBED, 1L << 30},
    {"lock", "1: a lock behind each", &locking, 0, 1},
    {0},
};

static const struct app app = {
    .name = "barrier",
    .about = "barriers, and a lock behind each",
    .options = options,
};

/* A barrier that says if somebody left it too early. */
static void probe(int worker, long round)
{
    came[worker] = (uint64_t)round + 1;
    shm_barrier();
    for (int w = 0; w < shm_workers(); w++)
        if (came[w] != (uint64_t)round + 1)
            die("worker %d left barrier %ld before worker %d came", worker, round, w);
    shm_barrier();
}

static void take_lock(double *wait_us)
{
    double asked_ms = now_ms();

    shm_lock(0);
    *wait_us = (now_ms() - asked_ms) * 1e3;
    shm_unlock(0);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *values, long count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return count > 0 ? values[count / 2] : 0;
}

static void work(int worker)
{
    int last = shm_workers() - 1;

    bench_start(worker);
    for (long round = 0; round < rounds; round++) {
        if (round % (rounds / PROBED) == 0)
            probe(worker, round);
        shm_barrier();
        if (locking && worker == (round % 2 == 0 ? 0 : last))
            take_lock(&waits_us[round % 2][round / 2]);
    }
    bench_stop(worker);
    if (worker == last)
        *last_median_us = median(waits_us[1], rounds / 2);
    shm_barrier();
}

int main(int argc, char **argv)
{
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    bytes = (size_t)shm_workers() * sizeof *came;
    came = shm_plain("barrier.came", bytes);
    last_median_us = shm_plain("barrier.median", sizeof *last_median_us);
    for (int w = 0; w < 2; w++)
        waits_us[w] = private_alloc((size_t)(rounds / 2 + 1) * sizeof *waits_us[w]);
    shm_run(work);
    if (shm_node() == 0) {
        app_figure("barrier_us", bench_ms() * 1e3 / (double)rounds);
        if (locking) {
            double first_us = median(waits_us[0], (rounds + 1) / 2);

            app_figure("first_lock_us", first_us);
            app_figure("last_lock_us", *last_median_us);
            app_figure("lock_us", first_us > *last_median_us ? first_us : *last_median_us);
        }
    }
    snprintf(input, sizeof input, "%ld barriers%s", rounds, locking ? ", a lock behind each" : "");
    return app_finish(input, "default", bytes);
}
