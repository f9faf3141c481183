/*
 * pattern.h - what EachN, UptoN and RandN (MIRAGE+, section 5.2) have in common: zeroed pages, of
 * which some bytes are written with values that do not compress. They differ in which bytes.
 *
 * A round has two halves. In the first one process, each in its turn, writes all of the pattern, and
 * the others read it. In the second all write at once, each byte by one of them: false sharing. Every
 * process keeps a private image of what must be there, and compares all pages after each half.
 */
#ifndef SYSV_PATTERN_H
#define SYSV_PATTERN_H

#include "common.h"

/* The index-th place to write in a page this round; false when there are no more. */
typedef bool (*place_of)(uint64_t seed, long n, long index, long *offset);

static inline unsigned char value_at(uint64_t seed, long page, long offset)
{
    return (unsigned char)(scramble(seed ^ ((uint64_t)page << 12 | (uint64_t)offset)) | 1);
}

/* Writes the pattern into `pages`: all of it, or the bytes that belong to `rank`. */
static inline void write_pattern(volatile unsigned char *pages, long count, place_of place, uint64_t seed,
                                 long n, int rank)
{
    for (long page = 0; page < count; page++) {
        uint64_t of_page = scramble(seed + (uint64_t)page);
        long offset;

        for (long i = 0; place(of_page, n, i, &offset); i++)
            if (rank < 0 || (int)(scramble((uint64_t)offset) % (uint64_t)job.all) == rank)
                pages[page * PAGE + offset] = value_at(seed, page, offset);
    }
}

static inline void compare(const unsigned char *pages, const unsigned char *image, long count, long round,
                           const char *half)
{
    for (long at = 0; at < count * PAGE; at++)
        if (pages[at] != image[at])
            fail("round %ld, %s: page %ld, byte %ld is %#x, must be %#x", round, half, at / PAGE, at % PAGE,
                 pages[at], image[at]);
}

static inline int run_pattern(int argc, char **argv, const char *what, long n, place_of place)
{
    long count = 8, rounds = 8;
    uint64_t seed = 1;
    unsigned char *pages, *image;
    double began;
    int option;

    job_name(argv[0]);
    while ((option = getopt(argc, argv, JOB_OPTIONS "N:n:r:s:")) != -1) {
        switch (option) {
        case 'N': count = number(optarg, 1); break;
        case 'n': n = number(optarg, 1); break;
        case 'r': rounds = number(optarg, 1); break;
        case 's': seed = (uint64_t)number(optarg, 0); break;
        default:
            if (!job_option(option))
                usage("[-N PAGES] [-n N] [-r ROUNDS] [-s SEED]");
        }
    }
    if (n > PAGE)
        usage("[-N PAGES] [-n N, at most 4096] [-r ROUNDS] [-s SEED]");
    meet(1, (size_t)count * PAGE, 0, NULL);
    pages = job.data;
    image = calloc((size_t)count, PAGE);
    if (image == NULL)
        fail_errno("calloc");
    compare(pages, image, count, -1, "before the first");
    barrier();
    began = now_s();
    for (long round = 0; round < rounds; round++) {
        uint64_t first = scramble(seed + 2 * (uint64_t)round), second = scramble(seed + 2 * (uint64_t)round + 1);

        if (round % job.all == job.rank)
            write_pattern(pages, count, place, first, n, -1);
        barrier();
        write_pattern(image, count, place, first, n, -1);
        compare(pages, image, count, round, "one writes");
        barrier();
        write_pattern(pages, count, place, second, n, job.rank);
        barrier();
        write_pattern(image, count, place, second, n, -1);
        compare(pages, image, count, round, "all write");
        barrier();
    }
    began = now_s() - began;
    compare(pages, image, count, rounds, "at the end");
    barrier();
    if (job.rank == 0)
        printf("%s: %s %ld, %d processes, %ld pages, %ld rounds, %.2f ms a round: ok\n", job.name, what, n,
               job.all, count, rounds, began * 1e3 / (double)rounds);
    free(image);
    return part();
}

#endif
