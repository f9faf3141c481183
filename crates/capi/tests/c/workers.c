/*
 * One thread starts a thread on each node and joins them, as a program does that came from pthread_create: those meet in
 * barriers of as many threads as they are, and homes move to who writes (ADR 21). For lazily consistent memory.
 */
#include "check.h"

#define PAGES 8
#define PAGE 4096
/* Main threads come to mg_finalize when they do: until then they may write, and no home moves. */
#define MOST_ROUNDS 2000

struct shared {
    int nodes;
    uint8_t *pages;
};

static uint64_t diffs(void)
{
    struct mg_stats now;

    OK(mg_get_stats(&now, sizeof now));
    return now.diffs_sent;
}

static uint8_t value(int node, int page, int round)
{
    return (uint8_t)(node + page + round);
}

/* Its own pages in each round; those of the next node are read when all have written. */
static void *work(void *unused)
{
    /* The main thread of its node may not have come so far as to look it up. */
    struct shared *shared = MUST(mg_lookup("shared"));
    int me = mg_node(), next = (me + 1) % shared->nodes, steady = 0;
    uint8_t *own = shared->pages + me * PAGES * PAGE, *others = shared->pages + next * PAGES * PAGE;
    (void)unused;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        uint64_t before = diffs();
        for (int page = 0; page < PAGES; page++)
            own[page * PAGE] = value(me, page, round);
        OK(mg_barrier(1, (uint32_t)shared->nodes));
        for (int page = 0; page < PAGES; page++)
            CHECK(others[page * PAGE] == value(next, page, round));
        steady = diffs() == before ? steady + 1 : 0;
        int64_t go_on = steady < 10;
        OK(mg_allreduce(2, (uint32_t)shared->nodes, (uint32_t)me, &go_on, &go_on, 1, MG_INT64, MG_MAX));
        if (!go_on)
            return (void *)(uintptr_t)round;
    }
    FAIL("no home has moved to who writes in %d barriers", MOST_ROUNDS);
    return NULL;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    struct shared *shared = SHARE("shared", 0, mg_malloc(sizeof *shared));
    if (mg_node() == 0) {
        int nodes = shared->nodes = mg_nodes();
        mg_thread threads[64];
        CHECK(nodes <= 64);
        shared->pages = MUST(mg_malloc((size_t)nodes * PAGES * PAGE));
        for (int node = 0; node < nodes; node++)
            OK(mg_thread_create(&threads[node], node, work, NULL));
        for (int node = 0; node < nodes; node++) {
            void *last;
            OK(mg_thread_join(threads[node], &last));
            for (int page = 0; page < PAGES; page++)
                CHECK(shared->pages[(node * PAGES + page) * PAGE] == value(node, page, (int)(uintptr_t)last));
        }
    }
    OK(mg_finalize());
    return 0;
}
