/*
 * A node writes more than it may have twins of, which another node has written before, and then all of it once more, before
 * any of them meets: it has few twins at a time, and all is what was written last (ADR 67).
 */
#include "check.h"

#define MIB ((size_t)1 << 20)
#define WORDS (40 * MIB / sizeof(uint64_t))
/* What a node may have, and what a run of minipages adds that are opened together. */
#define MOST (33 * MIB)

static void write_all(uint64_t *words, uint64_t round)
{
    for (size_t i = 0; i < WORDS; i++)
        words[i] = i * 0x9e3779b97f4a7c15u + round;
}

static void read_all(const uint64_t *words, uint64_t round)
{
    for (size_t i = 0; i < WORDS; i++)
        if (words[i] != i * 0x9e3779b97f4a7c15u + round)
            FAIL("word %zu is %llx in round %d", i, (unsigned long long)words[i], (int)round);
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    uint64_t *words = SHARE("words", 0, mg_malloc(WORDS * sizeof *words));
    if (mg_node() == 0)
        write_all(words, 1);
    OK(mg_barrier(0, 0));
    if (mg_node() == 1) {
        struct mg_stats stats;
        for (uint64_t round = 2; round < 4; round++) {
            write_all(words, round);
            OK(mg_get_stats(&stats, sizeof stats));
            if (stats.twin_bytes > MOST)
                FAIL("%llu bytes of twins", (unsigned long long)stats.twin_bytes);
        }
    }
    OK(mg_barrier(0, 0));
    read_all(words, 3);
    OK(mg_barrier(0, 0));
    OK(mg_finalize());
    return 0;
}
