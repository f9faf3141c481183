/*
 * radix.c - radix sort, least significant digit first: every pass writes each key to where it
 * belongs, all over the other array.
 *
 * Shared: two arrays of keys, and of each worker the histogram of its keys; plain blocks all. A pass
 * over one digit: a worker counts the digits of its part of the keys; then, from the histograms of
 * all, finds where its first key of each digit goes; then copies its keys there, in order. A barrier
 * after each; the arrays change places.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>

static long keys_log2 = 18, digit_bits = 8, key_bits = 32;
static size_t keys;
static uint32_t *shared[2];
static uint32_t *histograms; /* of worker 0, then of worker 1 ... */

static const struct app_option options[] = {
    {"keys", "log2 of the number of keys", &keys_log2, 1, 28},
    {"digit", "bits of a digit", &digit_bits, 1, 16},
    {"bits", "bits of a key", &key_bits, 1, 32},
    {0},
};

static const struct app app = {
    .name = "radix",
    .about = "radix sort with scattered writes",
    .options = options,
};

static uint32_t key_at(long i)
{
    return (uint32_t)(scramble((uint64_t)i) >> (64 - key_bits));
}

static uint32_t digit_of(uint32_t key, long shift)
{
    return key >> shift & (uint32_t)((1 << digit_bits) - 1);
}

static void count_digits(const uint32_t *from, struct span own, long shift, uint32_t *histogram)
{
    for (long d = 0; d < 1 << digit_bits; d++)
        histogram[d] = 0;
    for (long i = own.begin; i < own.end; i++)
        histogram[digit_of(from[i], shift)]++;
}

/* places[d] := where the first of this worker's keys with digit d goes. */
static void find_places(const uint32_t *of_all, int worker, int workers, uint32_t *places)
{
    long digits = 1 << digit_bits;
    uint32_t before = 0;

    for (long d = 0; d < digits; d++)
        for (int w = 0; w < workers; w++) {
            if (w == worker)
                places[d] = before;
            before += of_all[w * digits + d];
        }
}

static void scatter(const uint32_t *from, uint32_t *to, struct span own, long shift,
                    uint32_t *places)
{
    for (long i = own.begin; i < own.end; i++)
        to[places[digit_of(from[i], shift)]++] = from[i];
}

static void work(int worker)
{
    int workers = shm_workers();
    struct span own = span_of((long)keys, worker, workers);
    uint32_t *counts = private_alloc(sizeof *counts << digit_bits);
    uint32_t *places = private_alloc(sizeof *places << digit_bits);
    uint32_t *from = shared[0], *to = shared[1];

    for (long i = own.begin; i < own.end; i++)
        from[i] = key_at(i);
    bench_start(worker);
    for (long shift = 0; shift < key_bits; shift += digit_bits) {
        uint32_t *sorted = to;

        count_digits(from, own, shift, counts);
        for (long d = 0; d < 1 << digit_bits; d++)
            histograms[((long)worker << digit_bits) + d] = counts[d];
        shm_barrier();
        find_places(histograms, worker, workers, places);
        scatter(from, to, own, shift, places);
        shm_barrier();
        to = from;
        from = sorted;
        if (worker == 0)
            shm_progress((uint64_t)shift, (uint64_t)key_bits);
    }
    bench_stop(worker);
    free(places);
    free(counts);
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

/* The same keys, sorted by libc. */
static void check(void)
{
    uint32_t *expected = private_alloc(keys * sizeof *expected);
    long passes = (key_bits + digit_bits - 1) / digit_bits;
    const uint32_t *sorted = shared[passes % 2];

    for (size_t i = 0; i < keys; i++)
        expected[i] = key_at((long)i);
    qsort(expected, keys, sizeof *expected, compare);
    for (size_t i = 0; i < keys; i++)
        if (sorted[i] != expected[i])
            check_failed("key %zu is %#x, not %#x", i, sorted[i], expected[i]);
    free(expected);
}

int main(int argc, char **argv)
{
    char input[64];
    size_t key_bytes, histogram_bytes;

    app_begin(&app, &argc, &argv);
    keys = (size_t)1 << keys_log2;
    key_bytes = keys * sizeof(uint32_t);
    histogram_bytes = ((size_t)shm_workers() << digit_bits) * sizeof *histograms;
    shared[0] = shm_plain("radix.even", key_bytes);
    shared[1] = shm_plain("radix.odd", key_bytes);
    histograms = shm_plain("radix.histograms", histogram_bytes);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "2^%ld keys of %ld bits, digits of %ld", keys_log2, key_bits,
             digit_bits);
    return app_finish(input, "default", 2 * key_bytes + histogram_bytes);
}
