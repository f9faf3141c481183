/*
 * One node writes all small blocks of a page in turn with another, which reads one of them each time: it gets that one,
 * for reading one block again and again is no scan (ADR 12).
 */
#include "check.h"

#define BLOCKS 60
#define WORDS 8
#define TURNS 100

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int64_t ***shared = SHARE("shared", 0, mg_malloc(sizeof *shared));
    if (mg_node() == 0) {
        int64_t **blocks = *shared = MUST(mg_malloc(BLOCKS * sizeof *blocks));
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = MUST(mg_malloc_with(WORDS * sizeof **blocks, WORDS * sizeof **blocks, MG_AUTO));
    }
    OK(mg_barrier(0, 0));
    int64_t **blocks = *shared;
    struct mg_stats before, after;
    OK(mg_get_stats(&before, sizeof before));
    for (int turn = 1; turn <= TURNS; turn++) {
        if (mg_node() == 0) {
            for (int i = 0; i < BLOCKS; i++)
                for (int word = 0; word < WORDS; word++)
                    blocks[i][word] = (int64_t)turn * 1000003 * (i + word + 1);
            OK(mg_sem_post(0, 1));
            OK(mg_sem_wait(1));
        } else {
            OK(mg_sem_wait(0));
            CHECK(blocks[7][3] == (int64_t)turn * 1000003 * 11);
            OK(mg_sem_post(1, 1));
        }
    }
    OK(mg_get_stats(&after, sizeof after));
    uint64_t received = after.bytes_received - before.bytes_received, most = TURNS * BLOCKS * WORDS * sizeof(int64_t) / 4;
    if (mg_node() == 1 && received > most)
        FAIL("%llu bytes received for %d reads of one block", (unsigned long long)received, TURNS);
    OK(mg_finalize());
    return 0;
}
