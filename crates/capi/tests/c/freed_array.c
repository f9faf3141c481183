/*
 * A block, its first minipage of three pages written by other nodes from phase to phase, is freed by a node that did not
 * make it, and the job goes on: with races checked, what is freed has been written by nobody.
 */
#include "check.h"

/* More than a node keeps of what it has freed. */
#define LARGE (2 << 20)

enum { ELEMENTS = 4, BYTES = 3000, OTHERS = 5000 };

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    const int me = mg_node(), nodes = mg_nodes();
    char *array = SHARE("array", 0, mg_malloc_grain(LARGE, ELEMENTS * BYTES));

    for (int phase = 0; phase < 7; phase++) {
        for (int i = 0; i < ELEMENTS; i++)
            for (int at = 0; (i + phase) % nodes == me && at < BYTES; at++)
                array[i * BYTES + at] = (char)((at * 7 + phase * 31 + i) | 1);
        OK(mg_barrier(1, 0));
    }
    if (me == 3)
        OK(mg_free(array));
    char *other = SHARE("other", 1, mg_malloc_grain(LARGE, 2 * OTHERS));
    for (int phase = 0; phase < 4; phase++) {
        if (me < 2)
            memset(other + me * OTHERS, 9 + phase, OTHERS);
        OK(mg_barrier(1, 0));
    }
    return mg_finalize();
}
