/*
 * align.c - the best alignment of two sequences, by Needleman and Wunsch: each score needs the one
 * above, the one to the left, and the one between them.
 *
 * Shared: the scores, row after row, one plain block. They are computed in blocks of --block rows and
 * columns, all blocks of a diagonal side by side; row b of blocks belongs to worker b mod P. Behind
 * each diagonal all wait. So a worker reads the last row of the block above, which another one wrote.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>

enum { GAP = -2, SAME = 3, OTHER = -1 };

static long length = 1024, block = 64;
static int32_t *shared;

static const struct app_option options[] = {
    {"length", "letters of each sequence", &length, 1, 16384},
    {"block", "rows and columns of a block", &block, 1, 4096},
    {0},
};

static const struct app app = {
    .name = "align",
    .about = "alignment of two sequences (Needleman and Wunsch), by diagonals of blocks",
    .options = options,
};

static int letter(int sequence, long at)
{
    return (int)(scramble((uint64_t)(2 * at + sequence)) & 3);
}

static long score_of(const int32_t *score, long row, long column)
{
    return score[row * (length + 1) + column];
}

static int32_t best(const int32_t *score, long row, long column)
{
    long either = score_of(score, row - 1, column - 1) +
                  (letter(0, row - 1) == letter(1, column - 1) ? SAME : OTHER);
    long above = score_of(score, row - 1, column) + GAP;
    long left = score_of(score, row, column - 1) + GAP;
    long gap = above > left ? above : left;

    return (int32_t)(either > gap ? either : gap);
}

/* The rows below `top` and the columns behind `left`, up to a block of each. */
static void fill_block(int32_t *score, long top, long left)
{
    long bottom = top + block < length ? top + block : length;
    long right = left + block < length ? left + block : length;

    for (long row = top + 1; row <= bottom; row++)
        for (long column = left + 1; column <= right; column++)
            score[row * (length + 1) + column] = best(score, row, column);
}

/* The first row and the first column. */
static void init_edges(int32_t *score)
{
    for (long i = 0; i <= length; i++)
        score[i] = score[i * (length + 1)] = (int32_t)(i * GAP);
}

static void fill(int32_t *score, int worker, int workers, void (*wait)(void))
{
    long blocks = (length + block - 1) / block;

    for (long diagonal = 0; diagonal < 2 * blocks - 1; diagonal++) {
        for (long row = worker; row < blocks; row += workers)
            if (diagonal - row >= 0 && diagonal - row < blocks)
                fill_block(score, row * block, (diagonal - row) * block);
        wait();
    }
}

static void work(int worker)
{
    if (worker == 0)
        init_edges(shared);
    bench_start(worker);
    fill(shared, worker, shm_workers(), shm_barrier);
    bench_stop(worker);
}

static void alone(void)
{
}

static void check(void)
{
    int32_t *expected = private_alloc((size_t)((length + 1) * (length + 1)) * sizeof *expected);

    init_edges(expected);
    fill(expected, 0, 1, alone);
    for (long row = 0; row <= length; row++)
        for (long column = 0; column <= length; column++)
            if (score_of(shared, row, column) != score_of(expected, row, column))
                check_failed("row %ld, column %ld is %ld, sequentially %ld", row, column,
                             score_of(shared, row, column), score_of(expected, row, column));
    free(expected);
}

int main(int argc, char **argv)
{
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    bytes = (size_t)((length + 1) * (length + 1)) * sizeof *shared;
    shared = shm_plain("align.scores", bytes);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "2 sequences of %ld", length);
    return app_finish(input, "default", bytes);
}
