/*
 * Two nodes write small blocks of many sizes in turn, after both have read them, or, with "others", the other one
 * alone. With "fine" each block is a minipage, and few reads and writes trap, for those of a page are read together, though
 * each size has its own, and neighbours are opened ahead to be written (ADR 12, ADR 46). Without it blocks share pages, and
 * there is no twin for each block (ADR 66). With "locked" the writes of a round are one critical section.
 */
#include "check.h"

#define BLOCKS 4000
#define ROUNDS 8
/* That the blocks fill, at most: they have 492 KB, and a page of each size class is part-filled. */
#define PAGES 200
/* From then on all has been written by either node. */
#define LEARNT 4

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int only_others_read = 0, locked = 0, fine = 0;
    for (int i = 1; i < argc; i++) {
        only_others_read |= strcmp(argv[i], "others") == 0;
        locked |= strcmp(argv[i], "locked") == 0;
        fine |= strcmp(argv[i], "fine") == 0;
    }
    int64_t ***shared = SHARE("shared", 0, mg_malloc(sizeof *shared));
    if (mg_node() == 0) {
        int64_t **blocks = *shared = MUST(mg_malloc(BLOCKS * sizeof *blocks));
        for (int i = 0; i < BLOCKS; i++) {
            size_t bytes = 16 + (size_t)i * 37 % 200;
            blocks[i] = MUST(mg_malloc_with(bytes, fine ? bytes : 0, MG_DEFAULT));
            *blocks[i] = i;
        }
    }
    OK(mg_barrier(0, 0));
    int64_t **blocks = *shared;
    struct mg_stats before, after;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == LEARNT)
            OK(mg_get_stats(&before, sizeof before));
        int writes = mg_node() == round % 2;
        if (!writes || !only_others_read)
            for (int i = 0; i < BLOCKS; i++)
                CHECK(*blocks[i] == i + round);
        OK(mg_barrier(0, 0));
        if (writes) {
            if (locked)
                OK(mg_lock(1));
            for (int i = 0; i < BLOCKS; i++)
                *blocks[i] += 1;
            if (locked)
                OK(mg_unlock(1));
        }
        OK(mg_barrier(0, 0));
    }
    OK(mg_get_stats(&after, sizeof after));
    uint64_t most = (ROUNDS - LEARNT) / 2 * BLOCKS / 10, writes = after.write_faults - before.write_faults;
    if (writes > most)
        FAIL("%llu write faults for %d blocks, %d times", (unsigned long long)writes, BLOCKS, (ROUNDS - LEARNT) / 2);
    uint64_t reads = after.read_faults - before.read_faults;
    if (reads > most)
        FAIL("%llu read faults for %d blocks, %d times", (unsigned long long)reads, BLOCKS, (ROUNDS - LEARNT) / 2);
    uint64_t twins = after.twins - before.twins, pages = (ROUNDS - LEARNT) / 2 * PAGES;
    if (!fine && twins > pages)
        FAIL("%llu twins of pages that %d blocks fill, %d times", (unsigned long long)twins, BLOCKS, (ROUNDS - LEARNT) / 2);
    OK(mg_finalize());
    return 0;
}
