/*
 * jacobi.c - Jacobi iteration on a square of doubles; not in Millipage's suite, but the kernel that
 * other DSM systems are measured by (default placement, no hints).
 *
 * Shared: two matrices, each one block cut into minipages of 8 KiB, which is a row of 1024 doubles.
 * Worker 0 allocates them; every worker initializes and updates a block of consecutive rows, and
 * reads one row on either side. An iteration writes one matrix from the other and ends with a
 * barrier, after which the two change places.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN_BYTES = 8192 };

static long size = 1024, iterations = 50;
static double *shared[2];

static const struct app_option options[] = {
    {"size", "rows and columns", &size, 3, 65536},
    {"iterations", "iterations", &iterations, 1, 1000000},
    {0},
};

static const struct app app = {
    .name = "jacobi",
    .about = "Jacobi iteration on a square of doubles",
    .options = options,
};

/* The inside starts at random; the edge, which stays, must stand in both matrices. */
static void init_row(double *matrix, long i)
{
    for (long j = 0; j < size; j++)
        matrix[i * size + j] = scramble_unit((uint64_t)(i * size + j));
}

static void relax_row(const double *from, double *to, long i)
{
    const double *above = from + (i - 1) * size;
    const double *level = from + i * size;
    const double *below = from + (i + 1) * size;
    double *restrict out = to + i * size;

    for (long j = 1; j < size - 1; j++)
        out[j] = 0.25 * ((above[j] + below[j]) + (level[j - 1] + level[j + 1]));
}

static void relax(double *const matrix[2], struct span own, long it)
{
    long begin = own.begin > 1 ? own.begin : 1;
    long end = own.end < size - 1 ? own.end : size - 1;

    for (long i = begin; i < end; i++)
        relax_row(matrix[it % 2], matrix[(it + 1) % 2], i);
}

static void work(int worker)
{
    struct span own = span_of(size, worker, shm_workers());

    for (long i = own.begin; i < own.end; i++) {
        init_row(shared[0], i);
        init_row(shared[1], i);
    }
    bench_start(worker);
    for (long it = 0; it < iterations; it++) {
        relax(shared, own, it);
        shm_barrier();
        if (worker == 0)
            shm_progress((uint64_t)it + 1, (uint64_t)iterations);
    }
    bench_stop(worker);
}

/* The same iterations by one thread in private memory; every bit must agree. */
static void check(void)
{
    size_t bytes = (size_t)(size * size) * sizeof(double);
    double *expected[2] = {private_alloc(bytes), private_alloc(bytes)};

    for (long i = 0; i < size; i++) {
        init_row(expected[0], i);
        init_row(expected[1], i);
    }
    for (long it = 0; it < iterations; it++)
        relax(expected, (struct span){0, size}, it);
    for (int m = 0; m < 2; m++)
        for (long k = 0; k < size * size; k++)
            if (memcmp(&shared[m][k], &expected[m][k], sizeof(double)) != 0)
                check_failed("matrix %d, row %ld, column %ld is %.17g, sequentially %.17g", m,
                             k / size, k % size, shared[m][k], expected[m][k]);
    free(expected[0]);
    free(expected[1]);
}

int main(int argc, char **argv)
{
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    bytes = (size_t)(size * size) * sizeof(double);
    shared[0] = shm_block("jacobi.even", bytes, GRAIN_BYTES);
    shared[1] = shm_block("jacobi.odd", bytes, GRAIN_BYTES);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "%ldx%ld doubles, %ld iterations", size, size, iterations);
    return app_finish(input, "8192 bytes", 2 * bytes);
}
