/*
 * A program that forks before mg_init. "child": the child is the node; "daemon": so it is, and its parent ends
 * at once; "code": that ends with 9 where node 0 was; "slow": the same, and mg_init, then the node, take longer than a node that has left is waited for;
 * "aborts" and "leaves": the same, and node 1 does so once it has joined; "both" and "both-late": child, or parent, joins, and the other of the two is told that it may not.
 */
#include "check.h"

#include <sys/wait.h>

/* The node's part: every node adds, and all see the sum. */
static void compute(void)
{
    volatile long *sum = SHARE("sum", 0, mg_calloc(1, sizeof(long)));

    OK(mg_lock(1));
    *sum += mg_node() + 1;
    OK(mg_unlock(1));
    OK(mg_barrier(0, 0));
    CHECK(*sum == (long)mg_nodes() * (mg_nodes() + 1) / 2);
}

static void join(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
}

static void refused(int argc, char **argv, pid_t holder)
{
    char words[64];
    int code = mg_init(&argc, &argv);

    snprintf(words, sizeof words, "process %d of this node has called mg_init", (int)holder);
    if (code != MG_EINVAL || strstr(mg_strerror(code), words) == NULL)
        FAIL("mg_init: %d, %s, not: %s", code, mg_strerror(code), words);
    /* It is no node, and stays none. */
    CODE(mg_barrier(0, 0), MG_ENOTINIT);
    CHECK(mg_init(&argc, &argv) != MG_OK);
}

static void tell(int pipe)
{
    CHECK(write(pipe, "x", 1) == 1);
}

static void wait_told(int pipe)
{
    char x;

    CHECK(read(pipe, &x, 1) == 1);
}

int main(int argc, char **argv)
{
    const char *how = argv[1];
    int to_child[2], to_parent[2], status;
    pid_t child, parent = getpid();

    if (strcmp(how, "daemon") == 0) {
        CHECK(daemon(1, 1) == 0);
        join(argc, argv);
        compute();
        return 0;
    }
    if (strcmp(how, "slow") == 0) {
        CHECK(daemon(1, 1) == 0);
        sleep(2);
        join(argc, argv);
        sleep(2);
        compute();
        /* It is the node's process as before. */
        OK(mg_finalize());
        sleep(2);
        puts("done");
        return 0;
    }
    if (strcmp(how, "code") == 0) {
        CHECK(daemon(1, 1) == 0);
        join(argc, argv);
        compute();
        int me = mg_node();
        OK(mg_finalize());
        return me == 0 ? 9 : 0;
    }
    if (strcmp(how, "aborts") == 0 || strcmp(how, "leaves") == 0) {
        CHECK(daemon(1, 1) == 0);
        join(argc, argv);
        OK(mg_barrier(0, 0));
        if (mg_node() == 1 && how[0] == 'l')
            _exit(0);
        if (mg_node() == 1)
            *(volatile int *)8 = 1;
        OK(mg_barrier(0, 0));
        return 0;
    }
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0 && (child = fork()) >= 0);
    if (strcmp(how, "child") == 0) {
        if (child == 0) {
            join(argc, argv);
            compute();
            return 0;
        }
    } else if (strcmp(how, "both") == 0) {
        if (child == 0) {
            join(argc, argv);
            tell(to_parent[1]);
            wait_told(to_child[0]);
            compute();
            return 0;
        }
        wait_told(to_parent[0]);
        refused(argc, argv, child);
        tell(to_child[1]);
    } else {
        if (child == 0) {
            wait_told(to_child[0]);
            refused(argc, argv, parent);
            return 0;
        }
        join(argc, argv);
        tell(to_child[1]);
        compute();
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}
