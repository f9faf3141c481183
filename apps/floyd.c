/*
 * floyd.c - shortest paths between all pairs, by Floyd and Warshall, of a plain matrix.
 *
 * Shared: the matrix of distances, row after row, one plain block. A worker writes its own rows: with
 * --deal 0 consecutive ones, with --deal 1 each rows-th in turn; with 512 columns two rows share a
 * page, which then has two writers. --apart 1 lets each row begin a page, as an allocation a row does.
 *
 * Step k: everybody reads row k, which nobody changes in this step, and shortens its own rows by it; then
 * all wait. So a page is written in each step, and read by others in one of them.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAR = 1 << 28 };

static long size = 512, apart = 0, deal = 0;
static int32_t *shared;

static const struct app_option options[] = {
    {"size", "vertices", &size, 2, 16384},
    {"apart", "1: each row begins a page", &apart, 0, 1},
    {"deal", "1: rows are dealt out in turn", &deal, 0, 1},
    {0},
};

static const struct app app = {
    .name = "floyd",
    .about = "shortest paths between all pairs (Floyd and Warshall)",
    .options = options,
};

/* Entries from a row to the next. */
static long stride(void)
{
    const long of_page = APP_PAGE_BYTES / (long)sizeof *shared;

    return apart ? (size + of_page - 1) / of_page * of_page : size;
}

/* About one edge of eight is there. */
static int32_t edge(long from, long to)
{
    uint64_t x = scramble((uint64_t)(from * size + to));

    return from == to ? 0 : x % 8 == 0 ? (int32_t)(x >> 8 & 1023) + 1 : FAR;
}

static bool is_of(long row, int worker, int workers)
{
    struct span own = span_of(size, worker, workers);

    return deal ? row % workers == worker : row >= own.begin && row < own.end;
}

static void init_rows(int32_t *d, long step, int worker, int workers)
{
    for (long i = 0; i < size; i++)
        if (is_of(i, worker, workers))
            for (long j = 0; j < size; j++)
                d[i * step + j] = edge(i, j);
}

/* Paths of row i may go through k: row[j] = min(row[j], row[k] + through[j]) */
static void shorten(int32_t *restrict row, const int32_t *restrict through, int32_t to)
{
    for (long j = 0; j < size; j++)
        row[j] = row[j] < to + through[j] ? row[j] : to + through[j];
}

static void shorten_rows(int32_t *d, long step, long k, int worker, int workers)
{
    for (long i = 0; i < size; i++)
        if (i != k && is_of(i, worker, workers))
            shorten(d + i * step, d + k * step, d[i * step + k]);
}

static void work(int worker)
{
    init_rows(shared, stride(), worker, shm_workers());
    bench_start(worker);
    for (long k = 0; k < size; k++) {
        shorten_rows(shared, stride(), k, worker, shm_workers());
        shm_barrier();
        if (worker == 0)
            shm_progress((uint64_t)k + 1, (uint64_t)size);
    }
    bench_stop(worker);
}

/* What one worker computes in private memory. */
static void check(void)
{
    int32_t *expected = private_alloc((size_t)(size * size) * sizeof *expected);

    init_rows(expected, size, 0, 1);
    for (long k = 0; k < size; k++)
        shorten_rows(expected, size, k, 0, 1);
    for (long i = 0; i < size; i++)
        for (long j = 0; j < size; j++)
            if (shared[i * stride() + j] != expected[i * size + j])
                check_failed("from %ld to %ld it is %d, sequentially %d", i, j,
                             shared[i * stride() + j], expected[i * size + j]);
    free(expected);
}

int main(int argc, char **argv)
{
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    bytes = (size_t)(size * stride()) * sizeof *shared;
    shared = shm_plain("floyd.distances", bytes);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "%ld vertices%s%s", size, apart ? ", a page a row" : "",
             deal ? ", dealt out" : "");
    return app_finish(input, "default", bytes);
}
