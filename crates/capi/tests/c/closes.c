/*
 * Programs that close all that they have not opened: the node's own is not theirs. With an argument node 1
 * does it by system calls of its own; with two, of all but the way to the launcher.
 */
#include "check.h"

#include <fcntl.h>

static volatile unsigned *count;

static void compete(int barrier)
{
    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add((unsigned *)count, 1, __ATOMIC_SEQ_CST);
    OK(mg_barrier(barrier, 0));
}

int main(int argc, char **argv)
{
    int own[2];

    OK(mg_init(&argc, &argv));
    count = SHARE("count", 0, mg_calloc(1, sizeof *count));
    OK(mg_barrier(0, 0));
    if (argc > 1 && mg_node() == 1) {
        for (int i = 3; i < 64; i++)
            if (argc == 2 || i != atoi(getenv("MULTIGRAIN_CONTROL_FD")))
                syscall(SYS_close, i);
    }
    if (argc > 1) {
        compete(1);
        return mg_finalize();
    }
    CHECK(pipe(own) == 0);
    for (int i = 3; i < 1024; i++)
        close(i);
    CHECK(fcntl(own[0], F_GETFD) == -1 && fcntl(own[1], F_GETFD) == -1);
    compete(1);
    CHECK(pipe(own) == 0);
    closefrom(3);
    CHECK(fcntl(own[0], F_GETFD) == -1 && fcntl(own[1], F_GETFD) == -1);
    compete(2);
    CHECK(pipe(own) == 0);
    CHECK(close_range(3, ~0u, 0) == 0 && close_range(5, 4, 0) == -1);
    CHECK(fcntl(own[0], F_GETFD) == -1 && fcntl(own[1], F_GETFD) == -1);
    compete(3);
    for (int i = 3; i < 64; i++)
        dup2(2, i);
    compete(4);
    CHECK(*count == (unsigned)(4000 * mg_nodes()));
    OK(mg_barrier(5, 0));
    return mg_finalize();
}
