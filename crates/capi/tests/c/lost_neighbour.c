/*
 * Node 1 writes elements that would lie in one page, and loses one of them before it writes the last, in the same interval.
 * Nobody synchronizes in between: each waits until it has lost what the other writes.
 */
#include "check.h"

static void await_losses(uint64_t losses)
{
    while (stats_now().invalidations < losses)
        usleep(1000);
}

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
        await_losses(losses + 1);
        *(char *)mg_element(all, 3) = 1; /* it would have been lost as well */
    } else {
        await_losses(losses + 3);
        *(char *)mg_element(all, 0) = 2;
    }
    OK(mg_barrier(1, 0));
    return mg_finalize();
}
