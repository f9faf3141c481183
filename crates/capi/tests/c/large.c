/*
 * A job of more than 8 nodes: it begins with the links of a tree with 8 children a node, barriers and collective operations
 * of all threads need no other, and those that are made later are the node's as the first are: a program
 * that closes all descriptors does not close them.
 */
#define _DEFAULT_SOURCE
#include "check.h"

#include <dirent.h>
#include <unistd.h>

enum { CHILDREN = 8, ROUNDS = 10 };

/* Open sockets of this process. */
static int sockets(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = 0;

    CHECK(all);
    for (struct dirent *one = readdir(all); one; one = readdir(all)) {
        char path[64], target[64] = "";

        snprintf(path, sizeof path, "/proc/self/fd/%.20s", one->d_name);
        count += readlink(path, target, sizeof target - 1) > 0 && !strncmp(target, "socket:", 7);
    }
    closedir(all);
    return count;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int me = mg_node(), nodes = mg_nodes();
    int first = CHILDREN * me + 1, last = first + CHILDREN < nodes ? first + CHILDREN : nodes;
    int near = (me > 0) + (last > first ? last - first : 0);
    int before = sockets();

    CHECK(nodes > CHILDREN + 1);
    /* Beside its links: the launcher's, and where it listens. */
    if (before < near || before > near + 3)
        FAIL("%d sockets, and %d neighbours", before, near);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t mine = me + round, sum = 0;

        OK(mg_barrier(0, 0));
        OK(mg_allreduce(3, 0, (uint32_t)me, &mine, &sum, 1, MG_INT64, MG_SUM));
        CHECK(sum == (int64_t)nodes * (nodes - 1) / 2 + (int64_t)nodes * round);
    }
    CHECK(sockets() == before);
    /* Nobody goes on before all have counted. */
    OK(mg_barrier(0, 0));

    /* Every node reads what every other has written, in memory of that one. */
    int64_t *cells = SHARE("cells", 0, mg_calloc(64, sizeof *cells));
    cells[me] = me + 1;
    OK(mg_barrier(0, 0));
    for (int node = 0; node < nodes; node++)
        CHECK(cells[node] == node + 1);
    OK(mg_barrier(7, (uint32_t)nodes));
    if (me % 2)
        closefrom(3);
    for (int round = 0; round < ROUNDS; round++) {
        OK(mg_barrier((uint32_t)round, 0));
        if (me == round % nodes)
            cells[nodes] += me;
        OK(mg_barrier((uint32_t)round, (uint32_t)nodes));
    }
    CHECK(cells[nodes] == ROUNDS * (ROUNDS - 1) / 2);
    return mg_finalize();
}
