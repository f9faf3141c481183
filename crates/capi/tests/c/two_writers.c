/*
 * Two nodes write their own halves of pages, other pages in each interval, and read them of all: what a barrier takes from a
 * node, and it has needed again each time, comes together and without a fault of its own (ADR 60).
 */
#include "check.h"

#define PAGES 128
#define WORDS 512
#define ROUNDS 80
/* From then on all pages have been taken often. */
#define LEARNT 40

static int is_written(int page, int node, int round)
{
    return (page * 7919u + (unsigned)node * 104729u + (unsigned)round * 1299709u) % 31 % 5 < 2;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int64_t *shared = SHARE("shared", 0, mg_malloc((size_t)PAGES * WORDS * sizeof *shared));
    int node = mg_node();
    int64_t expected[PAGES] = {0};
    struct mg_stats before, after;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == LEARNT)
            OK(mg_get_stats(&before, sizeof before));
        for (int page = 0; page < PAGES; page++) {
            int64_t *half = shared + (page * 2 + node) * (WORDS / 2);
            CHECK(half[9] == expected[page]);
            if (is_written(page, node, round))
                half[9] = expected[page] = round + page + node;
        }
        OK(mg_barrier(0, 0));
    }
    OK(mg_get_stats(&after, sizeof after));
    uint64_t most = (ROUNDS - LEARNT) * PAGES / 20, reads = after.read_faults - before.read_faults;
    if (reads > most)
        FAIL("%llu read faults in %d intervals", (unsigned long long)reads, ROUNDS - LEARNT);
    OK(mg_barrier(0, 0));
    for (int page = 0; page < PAGES; page++)
        CHECK(shared[(page * 2 + node) * (WORDS / 2) + 9] == expected[page]);
    OK(mg_finalize());
    return 0;
}
