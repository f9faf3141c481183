/*
 * Pairs of threads of two nodes, all of which share pages: in turn one of a pair writes its words of half of the pages, in no
 * order, while the other reads the rest, and after a barrier of the two the other reads all. Of the threads of a node some release
 * what they wrote while others acquire what they need: no write may be lost to any of them.
 */
#include "check.h"

#include <pthread.h>

#define PAGES 600
#define WORDS 512
#define ROUNDS 60
#define MOST_THREADS 16

static uint64_t *shared;

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccd;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53;
    return x ^ x >> 33;
}

static void shuffle(int *pages, uint64_t seed)
{
    for (int i = 0; i < PAGES; i++)
        pages[i] = i;
    for (int i = PAGES; i > 1; i--) {
        int j = (int)(mixed(seed + (uint64_t)i) % (uint64_t)i), page = pages[i - 1];

        pages[i - 1] = pages[j];
        pages[j] = page;
    }
}

static int is_written(int page, int pair, int round)
{
    return mixed((uint64_t)page * 77 + (uint64_t)round * 5 + (uint64_t)pair) % 8 < 4;
}

static void *play(void *arg)
{
    int pair = (int)(intptr_t)arg, side = mg_node(), pages[PAGES];
    uint64_t expected[PAGES] = {0};

    for (int round = 1; round <= ROUNDS; round++) {
        int writes = round % 2 == side;

        shuffle(pages, mixed((uint64_t)(round * 100 + pair * 2 + side)));
        for (int i = 0; i < PAGES; i++) {
            int page = pages[i];
            uint64_t *word = &shared[page * WORDS + pair];

            if (!is_written(page, pair, round)) {
                CHECK(writes || *word == expected[page]);
                continue;
            }
            expected[page] = (uint64_t)(round * 1000 + page);
            if (writes)
                *word = expected[page];
        }
        OK(mg_barrier(100 + (uint32_t)pair, 2));
        for (int i = 0; i < PAGES && !writes; i++)
            if (shared[pages[i] * WORDS + pair] != expected[pages[i]])
                FAIL("pair %d, round %d, page %d: %llu, not %llu", pair, round, pages[i],
                     (unsigned long long)shared[pages[i] * WORDS + pair], (unsigned long long)expected[pages[i]]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    pthread_t threads[MOST_THREADS];
    int count = mg_threads();

    CHECK(mg_nodes() == 2 && count <= MOST_THREADS);
    shared = SHARE("shared", 0, mg_calloc(PAGES * WORDS, sizeof *shared));
    OK(mg_barrier(0, 2));
    for (int i = 1; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, play, (void *)(intptr_t)i) == 0);
    play(0);
    for (int i = 1; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(mg_barrier(0, 2));
    OK(mg_finalize());
    return 0;
}
