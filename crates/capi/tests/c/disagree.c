/* Nodes disagree about a barrier of node 1: the job must end with a line that says so. */
#include "check.h"

int main(int argc, char **argv)
{
    struct waiting own = {.thread = own_thread()};
    mg_thread thread;

    OK(mg_init(&argc, &argv));
    own.told = SHARE("told", 0, mg_malloc_with(sizeof *own.told, 0, MG_SEQUENTIAL));
    if (mg_node() == 1)
        OK(mg_thread_create(&thread, 1, tell_when_it_waits, &own));
    while (mg_node() == 0 && *own.told == 0)
        usleep(1000);
    mg_barrier(1, mg_node() == 0 ? 3 : 2);
    return mg_finalize();
}
