/* Nodes disagree about a barrier of node 1: the job must end with a line that says so. */
#include "check.h"

static volatile long *waits; /* node 1 has come; in sequentially consistent memory */

/* On node 1: tells when its first thread, `arg`, waits at the barrier. */
static void *tell(void *arg)
{
    while (stats_now().barriers == 0)
        usleep(1000);
    wait_asleep((int)(intptr_t)arg);
    *waits = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    mg_thread thread;

    OK(mg_init(&argc, &argv));
    waits = SHARE("waits", 0, mg_malloc_with(sizeof *waits, 0, MG_SEQUENTIAL));
    if (mg_node() == 1)
        OK(mg_thread_create(&thread, 1, tell, (void *)(intptr_t)own_thread()));
    while (mg_node() == 0 && *waits == 0)
        usleep(1000);
    mg_barrier(1, mg_node() == 0 ? 3 : 2);
    return mg_finalize();
}
