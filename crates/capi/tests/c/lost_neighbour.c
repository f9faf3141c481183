/*
 * Node 1 writes elements that would lie in one page, and loses one of them before it writes the last, in the same interval.
 * Nobody synchronizes in between: node 0 waits until it has lost what node 1 writes, and node 1 for a file by the name in the argument,
 * which node 0 makes when it has written.
 */
#include "check.h"

#include <fcntl.h>

int main(int argc, char **argv)
{
    uint64_t losses;
    char *all;

    OK(mg_init(&argc, &argv));
    all = SHARE("all", 0, mg_malloc_array(64, 64));
    OK(mg_barrier(1, 0));
    losses = stats_now().invalidations;
    OK(mg_barrier(1, 0));
    if (mg_node() == 1) {
        *(char *)mg_element(all, 0) = 1;
        *(char *)mg_element(all, 1) = 1; /* the page would be here */
        OK(mg_sem_post(9, 1)); /* ends the interval */
        *(char *)mg_element(all, 2) = 1;
        while (access(argv[1], F_OK) != 0)
            usleep(1000);
        *(char *)mg_element(all, 3) = 1; /* it would have been lost as well */
    } else {
        while (stats_now().invalidations < losses + 3)
            usleep(1000);
        *(char *)mg_element(all, 0) = 2;
        OK(close(creat(argv[1], 0600)));
    }
    OK(mg_barrier(1, 0));
    return mg_finalize();
}
