/*
 * Memory that is all freed is to be had, by any node and for any use: what nodes keep for their own next allocations goes
 * back where the job has no room. Run with a shared size of 64 MiB, of which eight nodes could keep all.
 */
#include "check.h"

#define MOST 4000

static void *blocks[MOST];

/* Blocks of that size until there is no room, or so many, all of them freed again: how many. */
static int take_and_free(size_t bytes, int most)
{
    int taken = 0;

    while (taken < most && (blocks[taken] = mg_malloc(bytes)) != NULL)
        taken++;
    if (taken < most)
        CODE(mg_last_error(), MG_ENOMEM);
    for (int i = 0; i < taken; i++)
        OK(mg_free(blocks[i]));
    return taken;
}

/* What other nodes have had copies of is reclaimed before it is free, and of many sizes. */
static void take_touch_and_free(uint32_t round)
{
    static const size_t sizes[] = {8, 100, 2000, 4096, 9000, 70000, 300000};
    size_t count = sizeof sizes / sizeof *sizes;
    char **shared = SHARE("shared", 0, mg_calloc(mg_nodes() * count, sizeof(char *)));
    char **mine = shared + (size_t)mg_node() * count;

    for (size_t i = 0; i < count; i++) {
        mine[i] = MUST(mg_malloc(sizes[i]));
        mine[i][0] = (char)mg_node();
    }
    OK(mg_barrier(1, 0));
    for (int node = 0; node < mg_nodes(); node++)
        for (size_t i = 0; i < count; i++)
            CHECK(shared[(size_t)node * count + i][0] == (char)node);
    OK(mg_barrier(1, 0));
    for (size_t i = round % 2; i < count; i++)
        OK(mg_free(shared[(size_t)((mg_node() + 1) % mg_nodes()) * count + i]));
    OK(mg_barrier(1, 0));
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {64, 5000, 262144, 1 << 20, 16 << 20, 40 << 20};

    OK(mg_init(&argc, &argv));
    for (int turn = 0; turn < mg_nodes(); turn++) {
        if (turn == mg_node()) {
            int taken = take_and_free(262144, 40);

            if (taken != 40)
                FAIL("%d blocks of 40, of memory that is free", taken);
        }
        OK(mg_barrier(1, 0));
    }
    /* All of the job's memory in small ones, by one node after the other, and in large ones. */
    take_touch_and_free(0);
    for (int turn = 0; turn < mg_nodes(); turn++) {
        if (turn == mg_node())
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                int least = (int)((40 << 20) / sizes[i]), most = least < MOST ? least : MOST;
                int taken = take_and_free(sizes[i], most);

                if (taken < most)
                    FAIL("%d blocks of %d, of %zu bytes", taken, most, sizes[i]);
            }
        OK(mg_barrier(1, 0));
    }
    /* All at once: whoever is left without has asked all the others. */
    for (int round = 0; round < 20; round++)
        take_and_free((size_t)1 << (12 + (round + mg_node()) % 9), 200);
    OK(mg_barrier(1, 0));
    if (mg_node() == mg_nodes() - 1)
        OK(mg_free(MUST(mg_malloc(40 << 20))));
    OK(mg_finalize());
    return 0;
}
