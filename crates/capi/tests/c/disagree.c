/* Nodes disagree about a barrier of node 1: the job must end with a line that says so. */
#include "check.h"

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    if (mg_node() == 0)
        usleep(200000);
    mg_barrier(1, mg_node() == 0 ? 3 : 2);
    return mg_finalize();
}
