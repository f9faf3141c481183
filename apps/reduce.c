/*
 * reduce.c - a word that everybody adds to, and whose sum everybody reads: the end of an iteration
 * of many a program.
 *
 * Shared: the word. A round: every worker adds its part, all wait, every worker reads the sum, all
 * wait. --how says how it is added:
 *   0  under lock 0 (a plain block)
 *   1  by an atomic addition (sequentially consistent memory)
 *   2  by one where the word lives (the same memory)
 * The word is never set back; every sum that is read is checked.
 */
#include "app.h"

#include <stdio.h>

static long rounds = 1000, how = 0;
static uint64_t *under_lock, *atomic;

static uint64_t add_under_lock(uint64_t part)
{
    uint64_t sum;

    shm_lock(0);
    *under_lock += part;
    shm_unlock(0);
    shm_barrier();
    sum = *under_lock;
    shm_barrier();
    return sum;
}

static uint64_t add_atomically(uint64_t part)
{
    uint64_t sum;

    __atomic_fetch_add(atomic, part, __ATOMIC_RELAXED);
    shm_barrier();
    sum = __atomic_load_n(atomic, __ATOMIC_RELAXED);
    shm_barrier();
    return sum;
}

static uint64_t add_where_it_lives(uint64_t part)
{
    uint64_t sum;

    shm_add(atomic, part);
    shm_barrier();
    sum = __atomic_load_n(atomic, __ATOMIC_RELAXED);
    shm_barrier();
    return sum;
}

/* Each adds this worker's part and returns the sum of all parts so far, its barriers included. */
static const struct way {
    const char *name;
    uint64_t (*add)(uint64_t part);
} ways[] = {
    {"lock", add_under_lock},
    {"atomic", add_atomically},
    {"fetch", add_where_it_lives},
};

enum { WAYS = sizeof ways / sizeof *ways };

static const struct app_option options[] = {
    {"rounds", "additions of each worker", &rounds, 1, 1L << 40},
    {"how", "0: lock, 1: atomic, 2: where the word lives", &how, 0, WAYS - 1},
    {0},
};

static const struct app app = {
    .name = "reduce",
    .about = "one word added to by all and read by all",
    .options = options,
};

static uint64_t part_of(int worker, long round)
{
    return scramble((uint64_t)round << 16 | (uint64_t)worker);
}

static void work(int worker)
{
    uint64_t expected = 0;

    if (worker == 0)
        *under_lock = 0;
    bench_start(worker);
    for (long round = 0; round < rounds; round++) {
        uint64_t sum = ways[how].add(part_of(worker, round));

        for (int w = 0; w < shm_workers(); w++)
            expected += part_of(w, round);
        if (sum != expected)
            die("worker %d, round %ld: the sum is %#llx, not %#llx", worker, round,
                (unsigned long long)sum, (unsigned long long)expected);
    }
    bench_stop(worker);
}

int main(int argc, char **argv)
{
    char input[64];

    app_begin(&app, &argc, &argv);
    under_lock = shm_plain("reduce.word", sizeof *under_lock);
    atomic = shm_atomics("reduce.atomic", sizeof *atomic);
    shm_run(work);
    if (shm_node() == 0)
        app_figure("round_us", bench_ms() * 1e3 / (double)rounds);
    snprintf(input, sizeof input, "%ld rounds, %s", rounds, ways[how].name);
    return app_finish(input, "default", sizeof *under_lock);
}
