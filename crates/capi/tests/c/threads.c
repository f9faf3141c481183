/* Threads on named nodes: results, joins from elsewhere, many at once, `-t` threads a node. */
#include "check.h"

#define MANY 32

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, (uint32_t)nodes));
}

static void *number(void *arg)
{
    return (void *)((uintptr_t)arg * 100 + (uintptr_t)mg_node());
}

static void *add_one(void *arg)
{
    __atomic_fetch_add((uint64_t *)arg, 1, __ATOMIC_SEQ_CST);
    return arg;
}

static void *meet_all(void *arg)
{
    OK(mg_barrier(1, 0)); /* mg_threads() of each node */
    return arg;
}

/* A thread may make and join others, elsewhere. */
static void *hand_on(void *arg)
{
    uintptr_t left = (uintptr_t)arg;
    mg_thread next;
    void *result;

    if (left == 0)
        return (void *)1;
    OK(mg_thread_create(&next, (mg_node() + 1) % mg_nodes(), hand_on, (void *)(left - 1)));
    OK(mg_thread_join(next, &result));
    return (void *)((uintptr_t)result + 1);
}

int main(int argc, char **argv)
{
    mg_thread thread, many[MANY], *handle;
    uint64_t *counter;
    void *result;

    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    CHECK(mg_threads() == 3);
    counter = SHARE("counter", 0, mg_calloc(1, sizeof *counter));
    handle = SHARE("handle", 0, mg_calloc(1, sizeof *handle));

    for (int node = 0; node < nodes; node++) {
        OK(mg_thread_create(&thread, node, number, (void *)(uintptr_t)(me + 1)));
        OK(mg_thread_join(thread, &result));
        CHECK((uintptr_t)result == (uintptr_t)((me + 1) * 100 + node));
    }

    for (int i = 0; i < MANY; i++)
        OK(mg_thread_create(&many[i], MG_ANY_NODE, add_one, counter));
    for (int i = 0; i < MANY; i++) {
        OK(mg_thread_join(many[i], &result));
        CHECK(result == counter);
    }
    meet();
    CHECK(*counter == (uint64_t)(MANY * nodes));

    /* Any node joins what any other started. */
    if (me == 0)
        OK(mg_thread_create(handle, nodes / 2, number, (void *)7));
    meet();
    if (me == nodes - 1) {
        OK(mg_thread_join(*handle, &result));
        CHECK((uintptr_t)result == (uintptr_t)(700 + nodes / 2));
        CODE(mg_thread_join(*handle, NULL), MG_EINVAL);
    }
    meet();

    OK(mg_thread_create(&thread, (me + 1) % nodes, hand_on, (void *)5));
    OK(mg_thread_join(thread, &result));
    CHECK((uintptr_t)result == 6);

    for (int i = 1; i < mg_threads(); i++)
        OK(mg_thread_create(&many[i], me, meet_all, NULL));
    meet_all(NULL);
    for (int i = 1; i < mg_threads(); i++)
        OK(mg_thread_join(many[i], NULL));
    meet();
    return 0; /* exit() leaves the job */
}
