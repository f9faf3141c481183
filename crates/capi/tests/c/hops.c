/* All main threads end by pthread_exit, and a chain of threads goes over the nodes: each starts the next one, on a node that may have no
   thread any more, and nobody joins them. The last one says so. */
#include "check.h"

#include <pthread.h>

enum { HOPS = 40, APART = 16 };

static long *seen;

static void *hop(void *arg)
{
    long i = (long)arg;
    mg_thread next;

    CHECK(seen[i * APART] == i);
    if (i % 5 == 0)
        usleep(20000); /* longer than a node takes to see that it has no thread */
    if (i == HOPS) {
        puts("the last hop");
        return NULL;
    }
    seen[(i + 1) * APART] = i + 1;
    OK(mg_thread_create(&next, (int)((i * 7 + 3) % mg_nodes()), hop, (void *)(i + 1)));
    if (i % 2 == 0)
        OK(mg_thread_detach(next));
    return NULL;
}

int main(int argc, char **argv)
{
    mg_thread first;

    OK(mg_init(&argc, &argv));
    seen = SHARE("seen", 0, mg_calloc((HOPS + 1) * APART, sizeof *seen));
    OK(mg_barrier(1, 0));
    if (mg_node() == 0)
        OK(mg_thread_create(&first, mg_nodes() - 1, hop, NULL));
    pthread_exit(NULL);
}
