/*
 * is.c - integer sort by ranking, after the NAS benchmark IS (Millipage, section 4.3).
 *
 * Shared: the histogram of 2^9 values (2 KB), cut into 8 regions, each a minipage of its own (256
 * bytes, so 8 views). Private: the keys, a block of them per worker, their counts and their ranks.
 *
 * An iteration counts the own keys and then adds the counts to the histogram region by region, in
 * phases: in phase p worker w has region (p + w) mod P to itself, so no locks are needed. There
 * are P = max(8, workers) phases; a worker whose turn is 8 or more has none in that phase, so 9 or
 * 100 workers are as safe as 8. What stood in a region before worker w added to it is the number of
 * equal keys that rank before w's. Nine barriers an iteration: one per phase, one before the next.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>

enum { REGIONS = 8 };

static long keys_log2 = 23, values_log2 = 9, iterations = 10;
static uint32_t *region[REGIONS]; /* this node's table of the shared regions */

/* For the check: what each worker found about its own part, filled in after the clock stopped. */
struct finding {
    uint64_t misplaced;    /* keys ranked outside the range of their value */
    uint64_t fingerprint;  /* sum of scrambled ranks: equal sums, equal sets (but for luck) */
};
static struct finding *findings;

static const struct app_option options[] = {
    {"keys", "log2 of the number of keys", &keys_log2, 10, 28},
    {"values", "log2 of the number of values", &values_log2, 3, 16},
    {"iterations", "rankings", &iterations, 1, 500},
    {0},
};

static const struct app app = {
    .name = "is",
    .about = "integer sort by ranking, as NAS IS",
    .options = options,
    .paper = {"2^23 numbers, 2^9 values", "2 KB", "8", "256 bytes", "90", "-"},
};

struct work {
    struct span own;
    uint32_t *key, *rank;     /* of the own keys */
    uint32_t *count, *before; /* per value: own keys; other workers' that rank before them */
    uint32_t *first;          /* per value: the first rank of all keys of that value */
};

/* Bell-shaped, as NAS asks: the mean of four uniform numbers. */
static uint32_t initial_key(long i)
{
    uint64_t r = scramble((uint64_t)i);
    uint64_t sum = (r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) + (r >> 48);

    return (uint32_t)(sum << values_log2 >> 18);
}

/* NAS changes two keys before each ranking, so that no iteration repeats the one before. */
static void change_keys(uint32_t *key, struct span own, long it)
{
    uint32_t values = 1u << values_log2;
    long low = it, high = it + iterations;

    if (low >= own.begin && low < own.end)
        key[low - own.begin] = (uint32_t)it % values;
    if (high >= own.begin && high < own.end)
        key[high - own.begin] = values - 1 - (uint32_t)it % values;
}

static void count_keys(struct work *w)
{
    long n = w->own.end - w->own.begin;

    for (long v = 0; v < 1L << values_log2; v++)
        w->count[v] = 0;
    for (long i = 0; i < n; i++)
        w->count[w->key[i]]++;
}

/* The first worker to reach a region in an iteration overwrites what the last one left there. */
static void add_counts(struct work *w, int turn, bool is_first)
{
    long length = (1L << values_log2) / REGIONS, base = turn * length;
    uint32_t *shared = region[turn];

    for (long k = 0; k < length; k++) {
        uint32_t there = is_first ? 0 : shared[k];

        w->before[base + k] = there;
        shared[k] = there + w->count[base + k];
    }
}

static void rank_keys(struct work *w)
{
    long length = (1L << values_log2) / REGIONS, n = w->own.end - w->own.begin;
    uint32_t next = 0;

    for (long v = 0; v < 1L << values_log2; v++) {
        w->first[v] = next;
        w->before[v] += next;
        next += region[v / length][v % length];
    }
    for (long i = 0; i < n; i++)
        w->rank[i] = w->before[w->key[i]]++;
}

static void iterate(struct work *w, int worker, long it)
{
    int workers = shm_workers(), phases = workers > REGIONS ? workers : REGIONS;

    change_keys(w->key, w->own, it);
    count_keys(w);
    for (int p = 0; p < phases; p++) {
        int turn = (p + worker) % phases;
        /* Worker 0 .. W-1 start on turns 0 .. W-1; worker W-1 then walks ahead of the others. */
        bool is_first = p == 0 || (worker == workers - 1 && p + worker < phases);

        if (turn < REGIONS)
            add_counts(w, turn, is_first);
        shm_barrier();
    }
    rank_keys(w);
}

static struct finding inspect(const struct work *w)
{
    struct finding found = {0};
    uint32_t values = 1u << values_log2, keys = 1u << keys_log2;

    for (long i = 0; i < w->own.end - w->own.begin; i++) {
        uint32_t v = w->key[i], end = v + 1 < values ? w->first[v + 1] : keys;

        if (w->rank[i] < w->first[v] || w->rank[i] >= end)
            found.misplaced++;
        found.fingerprint += scramble(w->rank[i]);
    }
    return found;
}

static void work(int worker)
{
    struct span own = span_of(1L << keys_log2, worker, shm_workers());
    size_t n = (size_t)(own.end - own.begin), values = (size_t)1 << values_log2;
    struct work w = {
        .own = own,
        .key = private_alloc(n * sizeof(uint32_t)),
        .rank = private_alloc(n * sizeof(uint32_t)),
        .count = private_alloc(values * sizeof(uint32_t)),
        .before = private_alloc(values * sizeof(uint32_t)),
        .first = private_alloc(values * sizeof(uint32_t)),
    };

    for (long i = own.begin; i < own.end; i++)
        w.key[i - own.begin] = initial_key(i);
    for (long it = 0; it < iterations; it++) {
        if (it == 0)
            bench_start(worker);
        else
            shm_barrier();
        iterate(&w, worker, it);
        if (worker == 0)
            shm_progress((uint64_t)it + 1, (uint64_t)iterations);
    }
    bench_stop(worker);
    findings[worker] = inspect(&w);
    shm_barrier();
    free(w.key);
    free(w.rank);
    free(w.count);
    free(w.before);
    free(w.first);
}

/*
 * The histogram must equal the sequential one; every key must be ranked within its value's range
 * (so the ranking sorts); and all ranks together must be 0 .. keys - 1, each once.
 */
static void check(void)
{
    long values = 1L << values_log2, keys = 1L << keys_log2, length = values / REGIONS;
    struct span all = {0, keys};
    uint32_t *key = private_alloc((size_t)keys * sizeof *key);
    uint32_t *expected = private_alloc((size_t)values * sizeof *expected);
    uint64_t fingerprint = 0, misplaced = 0;

    for (long i = 0; i < keys; i++)
        key[i] = initial_key(i);
    for (long it = 0; it < iterations; it++)
        change_keys(key, all, it);
    for (long i = 0; i < keys; i++) {
        expected[key[i]]++;
        fingerprint -= scramble((uint64_t)i);
    }
    for (long v = 0; v < values; v++)
        if (region[v / length][v % length] != expected[v])
            check_failed("value %ld has %u keys, sequentially %u", v,
                         region[v / length][v % length], expected[v]);
    for (int w = 0; w < shm_workers(); w++) {
        misplaced += findings[w].misplaced;
        fingerprint += findings[w].fingerprint;
    }
    if (misplaced != 0)
        check_failed("%llu keys are ranked out of order", (unsigned long long)misplaced);
    if (fingerprint != 0)
        check_failed("the ranks are not a permutation");
    free(key);
    free(expected);
}

int main(int argc, char **argv)
{
    char input[64], grain[32];
    size_t region_bytes;

    app_begin(&app, &argc, &argv);
    if (2 * iterations > 1L << keys_log2)
        app_usage("--iterations %ld: too many for 2^%ld keys", iterations, keys_log2);
    region_bytes = ((size_t)1 << values_log2) / REGIONS * sizeof(uint32_t);
    shm_array("is.regions", REGIONS, region_bytes, 1, (void **)region);
    findings = shm_block("is.findings", (size_t)shm_workers() * sizeof *findings, APP_PAGE_BYTES);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "2^%ld numbers, 2^%ld values", keys_log2, values_log2);
    snprintf(grain, sizeof grain, "%zu bytes", region_bytes);
    return app_finish(input, grain, REGIONS * region_bytes);
}
