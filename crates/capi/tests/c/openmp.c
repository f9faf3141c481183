/*
 * Threads that the compiler's runtime makes share memory with other nodes like any: each node takes its part of the rows, its
 * threads divide that, and sums of nodes are summed (docs/PORTING.md).
 */
#include "check.h"

#include <omp.h>

#define ROWS 96
#define COLUMNS 512
#define ROUNDS 8

int main(int argc, char **argv)
{
    double(*cells)[COLUMNS];

    OK(mg_init(&argc, &argv));
    omp_set_num_threads(3);
    cells = SHARE("cells", 0, mg_malloc(ROWS * sizeof *cells));
    int from = ROWS * mg_node() / mg_nodes(), to = ROWS * (mg_node() + 1) / mg_nodes(), most = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        double sum = 0, all = 0;

#pragma omp parallel for reduction(max : most)
        for (int row = from; row < to; row++) {
            for (int column = 0; column < COLUMNS; column++)
                cells[row][column] += round;
            most = omp_get_num_threads() > most ? omp_get_num_threads() : most;
        }
        OK(mg_barrier(0, 0));
#pragma omp parallel for reduction(+ : sum)
        for (int row = from; row < to; row++)
            for (int column = 0; column < COLUMNS; column++)
                sum += cells[ROWS - 1 - row][column];
        OK(mg_allreduce(0, mg_nodes(), mg_node(), &sum, &all, 1, MG_DOUBLE, MG_SUM));
        CHECK(all == (double)ROWS * COLUMNS * round * (round + 1) / 2);
        OK(mg_barrier(0, 0));
    }
    CHECK(most == 3);
    OK(mg_finalize());
    return 0;
}
