/*
 * sor.c - red-black successive over-relaxation (Millipage, section 4.3; TreadMarks' SOR).
 *
 * Shared: one matrix of floats, allocated row by row; a row of 64 floats is a minipage of 256
 * bytes, 16 to a page. A worker owns a block of consecutive rows, initializes and updates them, and
 * reads of its neighbours' rows only the two beside its own. Private per node: the row pointers.
 *
 * The grid is coloured like a chessboard. A row holds its red cells first and its black ones after:
 * cell (i, j) is red if i + j is even, and stands at index j / 2 of its half. An iteration updates
 * the red cells from the black ones, waits, then the black from the red, and waits: 2 barriers.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long rows = 32768, cols = 64, iterations = 10;
static float **grid; /* this node's table of the shared rows */

static const float omega = 1.25f;

static const struct app_option options[] = {
    {"rows", "rows of the matrix", &rows, 3, 1L << 24},
    {"cols", "columns, an even number", &cols, 4, 16384},
    {"iterations", "red-black iterations", &iterations, 1, 1000000},
    {0},
};

static const struct app app = {
    .name = "sor",
    .about = "red-black successive over-relaxation",
    .options = options,
    .paper = {"32768x64 matrices", "8 MB", "16", "a row, 256 bytes", "21", "-"},
};

static void init_row(float *row, long i)
{
    long half = cols / 2;

    for (long j = 0; j < cols; j++) {
        long colour = (i + j) & 1;

        row[colour * half + j / 2] = (float)scramble_unit((uint64_t)(i * cols + j));
    }
}

/* Updates the cells of one colour in row i, from the other colour's cells around them. */
static void relax_row(float **matrix, long i, long colour)
{
    long half = cols / 2, other = half - colour * half;
    float *restrict mine = matrix[i] + colour * half;
    const float *level = matrix[i] + other;
    const float *above = matrix[i - 1] + other, *below = matrix[i + 1] + other;
    /* Cell k is column 2k or 2k + 1; its side neighbours are the other colour's k and k -+ 1. */
    long odd = (i + colour) & 1, side = odd ? 1 : -1;
    long begin = odd ? 0 : 1, end = odd ? half - 1 : half;

    for (long k = begin; k < end; k++) {
        float mean = 0.25f * ((above[k] + below[k]) + (level[k] + level[k + side]));

        mine[k] += omega * (mean - mine[k]);
    }
}

static void relax(float **matrix, struct span own, long colour)
{
    long begin = own.begin > 1 ? own.begin : 1;
    long end = own.end < rows - 1 ? own.end : rows - 1;

    for (long i = begin; i < end; i++)
        relax_row(matrix, i, colour);
}

static void work(int worker)
{
    struct span own = span_of(rows, worker, shm_workers());

    for (long i = own.begin; i < own.end; i++)
        init_row(grid[i], i);

    bench_start(worker);
    for (long it = 0; it < iterations; it++) {
        relax(grid, own, 0);
        shm_barrier();
        relax(grid, own, 1);
        shm_barrier();
        if (worker == 0)
            shm_progress((uint64_t)it + 1, (uint64_t)iterations);
    }
    bench_stop(worker);
}

/* The same iterations by one thread in private memory; every bit must agree. */
static void check(void)
{
    float *cells = private_alloc((size_t)(rows * cols) * sizeof *cells);
    float **expected = private_alloc((size_t)rows * sizeof *expected);

    for (long i = 0; i < rows; i++) {
        expected[i] = cells + i * cols;
        init_row(expected[i], i);
    }
    for (long it = 0; it < iterations; it++)
        for (long colour = 0; colour < 2; colour++)
            relax(expected, (struct span){0, rows}, colour);
    for (long i = 0; i < rows; i++)
        for (long k = 0; k < cols; k++)
            if (memcmp(&grid[i][k], &expected[i][k], sizeof(float)) != 0)
                check_failed("row %ld, cell %ld is %.9g, sequentially %.9g", i, k,
                             (double)grid[i][k], (double)expected[i][k]);
    free(expected);
    free(cells);
}

int main(int argc, char **argv)
{
    char input[64], grain[64];
    size_t row_bytes;

    app_begin(&app, &argc, &argv);
    if (cols % 2 != 0)
        app_usage("--cols %ld: not an even number", cols);
    row_bytes = (size_t)cols * sizeof(float);
    grid = private_alloc((size_t)rows * sizeof *grid);
    shm_array("sor.rows", (size_t)rows, row_bytes, 1, (void **)grid);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "%ldx%ld floats, %ld iterations", rows, cols, iterations);
    snprintf(grain, sizeof grain, "a row, %zu bytes", row_bytes);
    return app_finish(input, grain, (size_t)rows * row_bytes);
}
