/*
 * Small blocks that lie mixed have an owner each, which alone writes and reads them: under release consistency they share pages
 * (ADR 36).
 */
#include "check.h"

#define BLOCKS 512
#define ROUNDS 60

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int64_t **blocks = SHARE("blocks", 0, mg_malloc(BLOCKS * sizeof *blocks));
    for (int i = 0; i < BLOCKS && mg_node() == 0; i++)
        *(blocks[i] = MUST(mg_malloc(200))) = 0;
    OK(mg_barrier(0, 0));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = mg_node(); i < BLOCKS; i += mg_nodes())
            CHECK((*blocks[i])++ == round);
        OK(mg_barrier(0, 0));
    }
    OK(mg_finalize());
    return 0;
}
