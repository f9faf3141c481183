/*
 * falseshare.c - the worst case for pages: many writers of each, of different words of it; not in
 * Millipage's suite, but the pattern that multiple-writer protocols (MGS, ParADE) are made for.
 *
 * Shared: a block of pages, each a minipage. Word w of every page belongs to worker w mod P. In an
 * iteration every worker writes its words of all pages; after a barrier every worker sums all words
 * of each page, and after another the next iteration begins. With --read 0 nobody reads before the
 * end, and an iteration has one barrier.
 *
 * In iteration i (from 1) word w is i times a fixed odd number, modulo 2^64: a page's sum is i times
 * a fixed number, and one word of another iteration spoils it.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAGE_WORDS = APP_PAGE_BYTES / sizeof(uint64_t) };

static long pages = 64, iterations = 20, reading = 1;
static uint64_t *shared;
static uint64_t *page_sums; /* private: what each page adds up to in iteration 1 */

static const struct app_option options[] = {
    {"pages", "pages", &pages, 1, 1 << 20},
    {"iterations", "iterations", &iterations, 1, 1000000},
    {"read", "1: all read all words in between, 0: nobody does", &reading, 0, 1},
    {0},
};

static const struct app app = {
    .name = "falseshare",
    .about = "every page written by everybody, each a few words of it",
    .options = options,
};

static uint64_t word_value(long it, long word)
{
    return (uint64_t)it * (scramble((uint64_t)word) | 1);
}

static void sum_pages_alone(void)
{
    page_sums = private_alloc((size_t)pages * sizeof *page_sums);
    for (long page = 0; page < pages; page++)
        for (long w = 0; w < PAGE_WORDS; w++)
            page_sums[page] += word_value(1, page * PAGE_WORDS + w);
}

static void write_own(int worker, long it)
{
    for (long page = 0; page < pages; page++)
        for (long w = worker; w < PAGE_WORDS; w += shm_workers())
            shared[page * PAGE_WORDS + w] = word_value(it, page * PAGE_WORDS + w);
}

static void read_all(int worker, long it)
{
    for (long page = 0; page < pages; page++) {
        uint64_t sum = 0;

        for (long w = 0; w < PAGE_WORDS; w++)
            sum += shared[page * PAGE_WORDS + w];
        if (sum != (uint64_t)it * page_sums[page])
            die("worker %d, iteration %ld: page %ld adds up to %#llx, not %#llx", worker, it, page,
                (unsigned long long)sum, (unsigned long long)((uint64_t)it * page_sums[page]));
    }
}

static void work(int worker)
{
    bench_start(worker);
    for (long it = 1; it <= iterations; it++) {
        write_own(worker, it);
        shm_barrier();
        if (reading) {
            read_all(worker, it);
            shm_barrier();
        }
        if (worker == 0)
            shm_progress((uint64_t)it, (uint64_t)iterations);
    }
    bench_stop(worker);
}

/* The sums were checked on the way; at the end every word is. */
static void check(void)
{
    for (long k = 0; k < pages * PAGE_WORDS; k++)
        if (shared[k] != word_value(iterations, k))
            check_failed("page %ld, word %ld is %#llx, not %#llx", k / PAGE_WORDS, k % PAGE_WORDS,
                         (unsigned long long)shared[k],
                         (unsigned long long)word_value(iterations, k));
}

int main(int argc, char **argv)
{
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    if (shm_workers() > PAGE_WORDS)
        app_usage("a page has words for %d workers, not %d", (int)PAGE_WORDS, shm_workers());
    bytes = (size_t)pages * APP_PAGE_BYTES;
    shared = shm_block("falseshare.pages", bytes, APP_PAGE_BYTES);
    sum_pages_alone();
    shm_run(work);
    if (check_wanted())
        check();
    free(page_sums);
    snprintf(input, sizeof input, "%ld pages, %ld iterations%s", pages, iterations,
             reading ? "" : ", unread");
    return app_finish(input, "4096 bytes", bytes);
}
