/*
 * All nodes of a job whose links are made when they are first used close what they have not opened, again and again, while
 * links are made.
 */
#define _DEFAULT_SOURCE
#include "check.h"

#include <unistd.h>

enum { PAGE = 4096, TIMES = 50 };

static void close_all(void)
{
    for (int i = 0; i < TIMES; i++)
        if (i % 2)
            closefrom(3);
        else
            for (int descriptor = 3; descriptor < 64; descriptor++)
                close(descriptor);
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int me = mg_node(), nodes = mg_nodes();

    close_all();
    char *pages = SHARE("pages", 0, mg_calloc((size_t)nodes, PAGE));
    for (int i = 0; i < nodes; i++) {
        const int page = (me + i) % nodes;

        OK(mg_lock((uint32_t)page));
        pages[page * PAGE]++;
        OK(mg_unlock((uint32_t)page));
        close_all();
    }
    OK(mg_barrier(0, 0));
    int sum = 0;
    for (int i = 0; i < nodes; i++)
        sum += pages[i * PAGE];
    CHECK(sum == nodes * nodes);
    return mg_finalize();
}
