/*
 * Counters whose lock was forgotten. With an argument the job does not end by itself.
 */
#include "check.h"

#include <unistd.h>

#define COUNTERS 16
/* Far enough apart to be races of their own. */
#define STRIDE 16

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int *counters = SHARE("counters", 0, mg_calloc(COUNTERS * STRIDE, sizeof *counters));
    OK(mg_barrier(1, 0));
    for (int i = 0; i < COUNTERS; i++)
        counters[i * STRIDE] += 1 + mg_node();
    OK(mg_barrier(1, 0));
    while (argc > 1)
        pause();
    OK(mg_finalize());
    return 0;
}
