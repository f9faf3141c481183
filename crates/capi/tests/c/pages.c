/* Minipages of several pages, of which a node has touched some: what it touches next is there, whoever read
 * or wrote the minipage in between. */
#include "check.h"

enum { PAGES = 8, PAGE = 4096, ROUNDS = 3 };

static char *page(char *all, int number) { return all + (size_t)number % PAGES * PAGE; }

int main(int argc, char **argv)
{
    char name[32];
    int nodes, me;

    OK(mg_init(&argc, &argv));
    nodes = mg_nodes();
    me = mg_node();
    for (int round = 0; round < ROUNDS; round++) {
        int owner = round % nodes, other = (owner + 1) % nodes;
        volatile char *all;

        snprintf(name, sizeof name, "pages %d", round);
        all = SHARE(name, owner, mg_malloc((size_t)PAGES * PAGE));
        OK(mg_barrier(0, 0));
        for (int step = 0; step < PAGES; step++) {
            /* One reads it all, then its owner writes a page that it has not touched yet; or the other way round. */
            if (me == other && *page((char *)all, step) != 0)
                FAIL("page %d is not fresh", step);
            OK(mg_barrier(0, 0));
            if (me == (step % 4 < 3 ? owner : other))
                *page((char *)all, step) += (char)(step + 1);
            OK(mg_barrier(0, 0));
        }
        for (int step = 0; step < PAGES; step++)
            if (*page((char *)all, step) != step + 1)
                FAIL("page %d holds %d", step, *page((char *)all, step));
        OK(mg_barrier(0, 0));
    }
    return mg_finalize();
}
