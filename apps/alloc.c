/*
 * alloc.c - the rate of malloc and free: nothing is shared, and everything is shared memory.
 *
 * Each worker keeps --keep allocations of --bytes, and frees the oldest before it makes the next. It
 * writes its mark to both ends of each, and looks at it before it frees: an allocation that was
 * given out twice loses its mark.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>

static long bytes = 64, keep = 64, allocations = 200000;

static const struct app_option options[] = {
    {"bytes", "bytes of an allocation", &bytes, 8, 1L << 30},
    {"keep", "allocations that a worker keeps", &keep, 1, 1 << 20},
    {"count", "allocations of each worker", &allocations, 1, 1L << 40},
    {0},
};

static const struct app app = {
    .name = "alloc",
    .about = "allocation and freeing of shared memory",
    .options = options,
};

static uint64_t *last_word(uint64_t *p)
{
    return p + (size_t)bytes / sizeof *p - 1;
}

static void give_back(uint64_t *p, uint64_t mark)
{
    if (*p != mark || *last_word(p) != mark)
        die("an allocation of %ld bytes holds %#llx and %#llx, not its mark %#llx", bytes,
            (unsigned long long)*p, (unsigned long long)*last_word(p), (unsigned long long)mark);
    shm_free(p);
}

static uint64_t mark_of(int worker, long i)
{
    return (uint64_t)worker << 48 | (uint64_t)i;
}

static void work(int worker)
{
    uint64_t **kept = private_alloc((size_t)keep * sizeof *kept);

    bench_start(worker);
    for (long i = 0; i < allocations + keep; i++) {
        long at = i % keep;

        if (i >= keep && i - keep < allocations)
            give_back(kept[at], mark_of(worker, i - keep));
        if (i < allocations) {
            kept[at] = shm_alloc((size_t)bytes);
            *kept[at] = *last_word(kept[at]) = mark_of(worker, i);
        }
    }
    bench_stop(worker);
    free(kept);
}

int main(int argc, char **argv)
{
    char input[64];
    double all;

    app_begin(&app, &argc, &argv);
    shm_run(work);
    if (shm_node() == 0) {
        all = (double)allocations * shm_workers();
        app_figure("m_s", all / 1e3 / bench_ms());
    }
    snprintf(input, sizeof input, "%ld of %ld bytes each", allocations, bytes);
    return app_finish(input, "default", (size_t)(keep * bytes));
}
