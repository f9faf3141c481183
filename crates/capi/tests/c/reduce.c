/* A reduction by atomics, in memory of the job's consistency: right if that is sequential. */
#include "check.h"

int main(int argc, char **argv)
{
    unsigned *sum;

    OK(mg_init(&argc, &argv));
    sum = SHARE("sum", 0, mg_calloc(1, sizeof *sum));
    for (int round = 0; round < 5; round++) {
        OK(mg_barrier(0, 0));
        __atomic_fetch_add(sum, 1, __ATOMIC_SEQ_CST); /* the line that is named */
    }
    OK(mg_barrier(0, 0));
    return mg_finalize();
}
