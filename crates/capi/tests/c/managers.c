/*
 * What node 0 allocates for all, each works on its part and its neighbours read of it. Of the messages of a large job node
 * 0 receives at most as many percent as the first argument says, and at least as many as the second (ADR 62). With a third
 * argument each node allocates its part itself.
 */
#include "check.h"

#include <stdlib.h>

enum { PAGES = 16, PAGE = 4096, ROUNDS = 12, WARM = 2 };

/* The part of a node, of one allocation or of its own. */
static volatile char *part(int node, int is_own)
{
    static volatile char *all;
    char name[16];

    if (!is_own) {
        if (all == NULL)
            all = SHARE("all", 0, mg_malloc((size_t)mg_nodes() * PAGES * PAGE));
        return all + (size_t)node * PAGES * PAGE;
    }
    snprintf(name, sizeof name, "part %d", node);
    return SHARE(name, node, mg_malloc((size_t)PAGES * PAGE));
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int me = mg_node(), nodes = mg_nodes();
    volatile char *parts[64];
    uint64_t before = 0, received, total;

    for (int node = 0; node < nodes; node++)
        parts[node] = part(node, argc > 3);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == WARM)
            before = stats_now().messages_received;
        for (int page = 0; page < PAGES; page++)
            parts[me][page * PAGE] = (char)(round + page);
        OK(mg_barrier(0, 0));
        for (int other = me - 1; other <= me + 1; other += 2)
            for (int page = 0; page < PAGES && 0 <= other && other < nodes; page++)
                CHECK(parts[other][page * PAGE] == (char)(round + page));
        OK(mg_barrier(0, 0));
    }
    received = stats_now().messages_received - before;
    OK(mg_allreduce(0, 0, (uint32_t)me, &received, &total, 1, MG_UINT64, MG_SUM));
    double percent = 100.0 * (double)received / (double)total;
    if (me == 0 && (percent > atof(argv[1]) || percent < atof(argv[2])))
        FAIL("node 0 of %d receives %.1f %% of %llu messages", nodes, percent, (unsigned long long)total);
    return mg_finalize();
}
