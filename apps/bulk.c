/*
 * bulk.c - much memory moved at once, in the four ways that programs do it without knowing.
 *
 * Shared: a plain block of --mib, or as many elements of --element bytes, each by itself. The first
 * worker (the giver) allocated it, and the last one (the taker, of another node if there is one) goes
 * through it from beginning to end in the part that is timed:
 *   --what 0  first read: of what the giver wrote
 *   --what 1  read again: the giver wrote all of it once more since
 *   --what 2  remote write: of what the giver wrote, which has the only copy
 *   --what 3  fresh write: nobody wrote it yet
 * Every word that is read is checked, and at the end the giver checks what the taker wrote.
 */
#include "app.h"

#include <stdio.h>

enum { FIRST_READ, READ_AGAIN, REMOTE_WRITE, FRESH_WRITE, KINDS };

static const char *const kinds[KINDS] = {"first read", "read again", "remote write", "fresh write"};

static long mib = 64, what = FIRST_READ, element = 0;
static size_t pieces, piece_words; /* the block, or its elements */
static uint64_t **piece;           /* this node's table of their addresses */

static const struct app_option options[] = {
    {"mib", "size of the block, MiB", &mib, 1, 1 << 16},
    {"what", "0: first read, 1: read again, 2: remote write, 3: fresh write", &what, 0, KINDS - 1},
    {"element", "bytes of an element, a multiple of 8; 0: one block", &element, 0, 1 << 20},
    {0},
};

static const struct app app = {
    .name = "bulk",
    .about = "a large block read or written by a node that has nothing of it",
    .options = options,
};

/* What a word is after so many writings of the block. */
static uint64_t word_value(size_t i, uint64_t writings)
{
    return (uint64_t)i * 0x9e3779b97f4a7c15u + writings;
}

static void write_all(uint64_t writings)
{
    for (size_t p = 0; p < pieces; p++)
        for (size_t i = 0; i < piece_words; i++)
            piece[p][i] = word_value(p * piece_words + i, writings);
}

static void read_all(uint64_t writings)
{
    uint64_t wrong = 0;

    for (size_t p = 0; p < pieces; p++)
        for (size_t i = 0; i < piece_words; i++)
            wrong |= piece[p][i] ^ word_value(p * piece_words + i, writings);
    if (wrong != 0)
        die("%s: a word is not what was written", kinds[what]);
}

static void prepare(bool gives, bool takes)
{
    if (gives && what != FRESH_WRITE)
        write_all(1);
    shm_barrier();
    if (what == READ_AGAIN) {
        if (takes)
            read_all(1);
        shm_barrier();
        if (gives)
            write_all(2);
    }
}

static void work(int worker)
{
    bool gives = worker == 0, takes = worker == shm_workers() - 1;

    prepare(gives, takes);
    bench_start(worker);
    if (takes && what <= READ_AGAIN)
        read_all(what == READ_AGAIN ? 2 : 1);
    if (takes && what >= REMOTE_WRITE)
        write_all(3);
    bench_stop(worker);
}

static void check(void)
{
    if (what >= REMOTE_WRITE)
        read_all(3);
}

static void allocate(size_t bytes)
{
    size_t piece_bytes = element > 0 ? (size_t)element : bytes;

    pieces = bytes / piece_bytes;
    piece_words = piece_bytes / sizeof **piece;
    piece = private_alloc(pieces * sizeof *piece);
    if (element > 0)
        shm_array("bulk", pieces, piece_bytes, 1, (void **)piece);
    else
        piece[0] = shm_plain("bulk", bytes);
}

int main(int argc, char **argv)
{
    char input[64], grain[64] = "default";
    size_t bytes;

    app_begin(&app, &argc, &argv);
    if (element % (long)sizeof **piece != 0)
        app_usage("--element %ld: not a multiple of %zu", element, sizeof **piece);
    bytes = (size_t)mib << 20;
    allocate(bytes);
    shm_run(work);
    if (check_wanted())
        check();
    if (shm_node() == 0)
        app_figure("mb_s", (double)bytes / 1e3 / bench_ms());
    snprintf(input, sizeof input, "%ld MiB, %s", mib, kinds[what]);
    if (element > 0)
        snprintf(grain, sizeof grain, "an element, %ld bytes", element);
    return app_finish(input, grain, bytes);
}
