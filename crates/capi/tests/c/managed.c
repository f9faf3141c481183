/* A node of whatever started it: what it is, memory and locks, a thread on every node. Then it ends as told. */
#include "check.h"

#include <signal.h>
#include <sys/wait.h>

static void *who(void *arg)
{
    return (void *)((uintptr_t)arg * 1000 + (uintptr_t)mg_node());
}

int main(int argc, char **argv)
{
    uint64_t *counter;
    mg_thread thread;
    void *result;
    int me, nodes;
    const char *end = argc > 1 ? argv[1] : "well";

    if (!strcmp(end, "never")) /* never joins */
        return 0;
    if (!strcmp(end, "child")) /* of a node */
        return -mg_init(&argc, &argv);
    if (mg_init(&argc, &argv) != 0)
        return 9;
    if (!strcmp(end, "parent")) {
        char command[4096];

        snprintf(command, sizeof command, "%s child", argv[0]);
        CHECK(WEXITSTATUS(system(command)) == -MG_EINVAL);
        snprintf(command, sizeof command, "env -u MULTIGRAIN_RANK %s child", argv[0]);
        CHECK(WEXITSTATUS(system(command)) == 0);
        OK(mg_finalize());
        return 0;
    }
    me = mg_node();
    nodes = mg_nodes();
    counter = SHARE("counter", 0, mg_calloc(1, sizeof *counter));
    for (int i = 0; i < 10; i++) {
        OK(mg_lock(1));
        ++*counter;
        OK(mg_unlock(1));
    }
    OK(mg_thread_create(&thread, (me + 1) % nodes, who, (void *)(uintptr_t)(me + 1)));
    OK(mg_thread_join(thread, &result));
    CHECK((uintptr_t)result == (uintptr_t)((me + 1) * 1000 + (me + 1) % nodes));
    OK(mg_barrier(2, (uint32_t)nodes));
    CHECK(*counter == (uint64_t)(10 * nodes));
    printf("node %d of %d: %llu\n", me, nodes, (unsigned long long)*counter);
    fflush(stdout);
    OK(mg_barrier(3, (uint32_t)nodes));
    if (!strcmp(end, "three") && me == 1)
        _exit(3);
    if (!strcmp(end, "killed") && me == 1)
        raise(SIGKILL);
    if (!strcmp(end, "three") || !strcmp(end, "killed"))
        mg_barrier(4, (uint32_t)nodes); /* nobody comes through */
    if (!strcmp(end, "forever"))
        for (;;)
            mg_barrier(4, (uint32_t)nodes);
    OK(mg_finalize());
    return 0;
}
