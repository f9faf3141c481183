/*
 * lu.c - blocked LU factorization without pivoting, contiguous blocks, after SPLASH-2's LU
 * (Millipage, section 4.3).
 *
 * Shared: the matrix as an array of blocks; a block of 32 x 32 4-byte numbers is a minipage of 4 KB,
 * so one view is enough. (Table 2 has 1024 x 1024 in 8 MB and 577 barriers, and 4 KB a block; 4 KB
 * needs 4-byte elements, which make 4 MB, and right-looking LU needs 2 barriers a step: ours are
 * 4 MB and 65 barriers.) Private per node: the table of block addresses.
 *
 * Workers form a grid, and block (I, J) belongs to worker (I mod height, J mod width), who
 * initializes it and alone writes it. Step k: the owner factors block (k, k); owners divide column
 * k and row k by it; owners update the blocks to the right and below with both. Before the update
 * a worker asks for the blocks of the column, and of the row, that it will read: two prefetches.
 */
#include "app.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long size = 1024, block = 32, prefetch = 1;
static long blocks; /* per side */
static float **shared;

static const struct app_option options[] = {
    {"size", "rows and columns, a multiple of the block", &size, 2, 32768},
    {"block", "rows and columns of a block", &block, 2, 128},
    {"prefetch", "1: prefetch the perimeter", &prefetch, 0, 1},
    {0},
};

static const struct app app = {
    .name = "lu",
    .about = "blocked LU factorization, contiguous blocks",
    .options = options,
    .paper = {"1024x1024 mat., 32x32 blocks", "8 MB", "1", "a block, 4 KB", "577", "-"},
};

/* A worker's place in the grid of workers, which is as square as their number allows. */
struct place {
    long row, column, height, width;
};

static struct place place_of(int worker, int workers)
{
    int height = 1;

    for (int h = 1; h * h <= workers; h++)
        if (workers % h == 0)
            height = h;
    return (struct place){worker % height, worker / height, height, workers / height};
}

static bool owns(const struct place *me, long i, long j)
{
    return i % me->height == me->row && j % me->width == me->column;
}

/* Diagonally dominant, so that no pivoting is needed. */
static float element(long i, long j)
{
    float x = (float)(2 * scramble_unit((uint64_t)(i * size + j)) - 1);

    return i == j ? x + (float)size : x;
}

static void init_block(float *a, long bi, long bj)
{
    for (long i = 0; i < block; i++)
        for (long j = 0; j < block; j++)
            a[i * block + j] = element(bi * block + i, bj * block + j);
}

/* ---- The four kernels; a block is stored row by row ------------------------------------------- */

/* row[0 .. n) -= factor * pivot[0 .. n) */
static void subtract(float *restrict row, const float *restrict pivot, float factor, long n)
{
    for (long j = 0; j < n; j++)
        row[j] -= factor * pivot[j];
}

/* a := L and U of a, L with a unit diagonal. */
static void factor(float *a)
{
    for (long k = 0; k < block; k++)
        for (long i = k + 1; i < block; i++) {
            float l = a[i * block + k] /= a[k * block + k];

            subtract(a + i * block + k + 1, a + k * block + k + 1, l, block - k - 1);
        }
}

/* a := a U^-1, for a block below the diagonal. */
static void divide_column(float *restrict a, const float *restrict diagonal)
{
    for (long i = 0; i < block; i++)
        for (long k = 0; k < block; k++) {
            float l = a[i * block + k] /= diagonal[k * block + k];

            subtract(a + i * block + k + 1, diagonal + k * block + k + 1, l, block - k - 1);
        }
}

/* a := L^-1 a, for a block right of the diagonal. */
static void divide_row(float *restrict a, const float *restrict diagonal)
{
    for (long k = 0; k < block; k++)
        for (long i = k + 1; i < block; i++)
            subtract(a + i * block, a + k * block, diagonal[i * block + k], block);
}

/* a := a - left above */
static void update(float *restrict a, const float *restrict left, const float *restrict above)
{
    for (long i = 0; i < block; i++)
        for (long k = 0; k < block; k++)
            subtract(a + i * block, above + k * block, left[i * block + k], block);
}

/* ---- A step, for the blocks of one worker ------------------------------------------------------ */

static void divide_perimeter(float **a, const struct place *me, long k)
{
    const float *diagonal = a[k * blocks + k];

    for (long i = k + 1; i < blocks; i++) {
        if (owns(me, i, k))
            divide_column(a[i * blocks + k], diagonal);
        if (owns(me, k, i))
            divide_row(a[k * blocks + i], diagonal);
    }
}

static void prefetch_perimeter(float **a, const struct place *me, long k)
{
    size_t bytes = (size_t)(block * block) * sizeof(float);

    for (long i = k + 1; i < blocks; i++) {
        if (i % me->height == me->row && !owns(me, i, k))
            shm_prefetch(a[i * blocks + k], bytes);
        if (i % me->width == me->column && !owns(me, k, i))
            shm_prefetch(a[k * blocks + i], bytes);
    }
}

static void update_interior(float **a, const struct place *me, long k)
{
    for (long i = k + 1; i < blocks; i++)
        for (long j = k + 1; j < blocks; j++)
            if (owns(me, i, j))
                update(a[i * blocks + j], a[i * blocks + k], a[k * blocks + j]);
}

static void work(int worker)
{
    struct place me = place_of(worker, shm_workers());

    for (long b = 0; b < blocks * blocks; b++)
        if (owns(&me, b / blocks, b % blocks))
            init_block(shared[b], b / blocks, b % blocks);

    bench_start(worker);
    for (long k = 0; k < blocks; k++) {
        if (owns(&me, k, k))
            factor(shared[k * blocks + k]);
        shm_barrier();
        divide_perimeter(shared, &me, k);
        shm_barrier();
        if (prefetch)
            prefetch_perimeter(shared, &me, k);
        update_interior(shared, &me, k);
        if (worker == 0)
            shm_progress((uint64_t)k + 1, (uint64_t)blocks);
    }
    bench_stop(worker);
}

/* ---- The check --------------------------------------------------------------------------------- */

static double at(float **a, long i, long j)
{
    return (double)a[i / block * blocks + j / block][i % block * block + j % block];
}

/* L (U x) must be A x, for an x without pattern: so the factors are right, not only repeatable. */
static void check_product(float **a)
{
    double *x = private_alloc((size_t)size * sizeof *x);
    double *ux = private_alloc((size_t)size * sizeof *ux);

    for (long i = 0; i < size; i++)
        x[i] = scramble_unit(~(uint64_t)i) - 0.5;
    for (long i = 0; i < size; i++)
        for (long j = i; j < size; j++)
            ux[i] += at(a, i, j) * x[j];
    for (long i = 0; i < size; i++) {
        double want = 0, got = ux[i];

        for (long j = 0; j < size; j++)
            want += (double)element(i, j) * x[j];
        for (long j = 0; j < i; j++)
            got += at(a, i, j) * ux[j];
        if (!(fabs(got - want) <= 1e-5 * (double)size))
            check_failed("row %ld of L U x is %.9g, of A x %.9g", i, got, want);
    }
    free(x);
    free(ux);
}

/* Every block must equal, bit by bit, what one worker computes in private memory. */
static void check(void)
{
    long area = block * block;
    float *cells = private_alloc((size_t)(size * size) * sizeof *cells);
    float **expected = private_alloc((size_t)(blocks * blocks) * sizeof *expected);
    struct place all = place_of(0, 1);

    for (long b = 0; b < blocks * blocks; b++) {
        expected[b] = cells + b * area;
        init_block(expected[b], b / blocks, b % blocks);
    }
    for (long k = 0; k < blocks; k++) {
        factor(expected[k * blocks + k]);
        divide_perimeter(expected, &all, k);
        update_interior(expected, &all, k);
    }
    for (long b = 0; b < blocks * blocks; b++)
        for (long e = 0; e < area; e++)
            if (memcmp(&shared[b][e], &expected[b][e], sizeof(float)) != 0)
                check_failed("block (%ld, %ld), element %ld is %.9g, sequentially %.9g", b / blocks,
                             b % blocks, e, (double)shared[b][e], (double)expected[b][e]);
    check_product(shared);
    free(expected);
    free(cells);
}

int main(int argc, char **argv)
{
    char input[64], grain[64];
    size_t block_bytes;

    app_begin(&app, &argc, &argv);
    if (size % block != 0)
        app_usage("--size %ld: not a multiple of the block, %ld", size, block);
    blocks = size / block;
    block_bytes = (size_t)(block * block) * sizeof(float);
    shared = private_alloc((size_t)(blocks * blocks) * sizeof *shared);
    shm_array("lu.blocks", (size_t)(blocks * blocks), block_bytes, 1, (void **)shared);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "%ldx%ld floats, %ldx%ld blocks", size, size, block, block);
    snprintf(grain, sizeof grain, "a block, %zu bytes", block_bytes);
    return app_finish(input, grain, (size_t)(size * size) * sizeof(float));
}
