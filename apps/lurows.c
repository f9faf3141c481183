/*
 * lurows.c - LU factorization without pivoting of a plain matrix, its rows dealt out in turn: as a
 * textbook has it, with no thought of pages. (lu/ is the one with blocks.)
 *
 * Shared: the matrix of floats, row after row, one plain block. Row i belongs to worker i mod P,
 * which initializes it and alone writes it; with 512 columns two rows share a page, and with two
 * workers each page has two writers.
 *
 * Step k: everybody subtracts multiples of row k, which is final, from its own rows below; then all
 * wait.
 */
#include "app.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long size = 512;
static float *shared;

static const struct app_option options[] = {
    {"size", "rows and columns", &size, 2, 32768},
    {0},
};

static const struct app app = {
    .name = "lurows",
    .about = "LU factorization of a plain matrix, rows interleaved",
    .options = options,
};

/* Diagonally dominant, so that no pivoting is needed. */
static float element(long i, long j)
{
    float x = (float)(2 * scramble_unit((uint64_t)(i * size + j)) - 1);

    return i == j ? x + (float)size : x;
}

static void init_rows(float *a, int worker, int workers)
{
    for (long i = worker; i < size; i += workers)
        for (long j = 0; j < size; j++)
            a[i * size + j] = element(i, j);
}

/* row[0 .. n) -= factor * pivot[0 .. n) */
static void subtract(float *restrict row, const float *restrict pivot, float factor, long n)
{
    for (long j = 0; j < n; j++)
        row[j] -= factor * pivot[j];
}

/* Step k, for the rows below it that are this worker's. */
static void eliminate(float *a, long k, int worker, int workers)
{
    const float *pivot = a + k * size;
    long first = k + 1 + (worker + workers - (k + 1) % workers) % workers;

    for (long i = first; i < size; i += workers) {
        float *row = a + i * size;

        row[k] /= pivot[k];
        subtract(row + k + 1, pivot + k + 1, row[k], size - k - 1);
    }
}

static void work(int worker)
{
    init_rows(shared, worker, shm_workers());
    bench_start(worker);
    for (long k = 0; k < size - 1; k++) {
        eliminate(shared, k, worker, shm_workers());
        shm_barrier();
        if (worker == 0)
            shm_progress((uint64_t)k + 1, (uint64_t)size - 1);
    }
    bench_stop(worker);
}

/* L (U x) must be A x, for an x without pattern. */
static void check_product(const float *a)
{
    double *x = private_alloc((size_t)size * sizeof *x);
    double *ux = private_alloc((size_t)size * sizeof *ux);

    for (long i = 0; i < size; i++)
        x[i] = scramble_unit(~(uint64_t)i) - 0.5;
    for (long i = 0; i < size; i++)
        for (long j = i; j < size; j++)
            ux[i] += (double)a[i * size + j] * x[j];
    for (long i = 0; i < size; i++) {
        double want = 0, got = ux[i];

        for (long j = 0; j < size; j++)
            want += (double)element(i, j) * x[j];
        for (long j = 0; j < i; j++)
            got += (double)a[i * size + j] * ux[j];
        if (!(fabs(got - want) <= 1e-5 * (double)size))
            check_failed("row %ld of L U x is %.9g, of A x %.9g", i, got, want);
    }
    free(x);
    free(ux);
}

/* Every bit must be what one worker computes in private memory, and the product right. */
static void check(void)
{
    float *expected = private_alloc((size_t)(size * size) * sizeof *expected);

    init_rows(expected, 0, 1);
    for (long k = 0; k < size - 1; k++)
        eliminate(expected, k, 0, 1);
    for (long e = 0; e < size * size; e++)
        if (memcmp(&shared[e], &expected[e], sizeof(float)) != 0)
            check_failed("row %ld, column %ld is %.9g, sequentially %.9g", e / size, e % size,
                         (double)shared[e], (double)expected[e]);
    check_product(expected);
    free(expected);
}

int main(int argc, char **argv)
{
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    bytes = (size_t)(size * size) * sizeof *shared;
    shared = shm_plain("lurows.matrix", bytes);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "%ldx%ld floats", size, size);
    return app_finish(input, "default", bytes);
}
