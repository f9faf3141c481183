/*
 * Single steps that the kernel takes for `int1`, as it does where the processor's debug status is empty: a child of each node
 * traces it and gives every trap of a step that code.
 */
#include "check.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

/* Ends with the number of traps that it changed, as far as a status goes. */
static void trace(pid_t traced, int ready)
{
    int changed = 0, status;

    if (ptrace(PTRACE_SEIZE, traced, 0, 0) != 0)
        _exit(0);
    CHECK(write(ready, "x", 1) == 1);
    while (waitpid(traced, &status, __WALL) == traced && WIFSTOPPED(status)) {
        int signal = WSTOPSIG(status);
        siginfo_t info;

        if (signal == SIGUSR1) {
            /* Enough. */
            ptrace(PTRACE_DETACH, traced, 0, 0);
            break;
        }
        if (signal == SIGTRAP && ptrace(PTRACE_GETSIGINFO, traced, 0, &info) == 0 && info.si_code == TRAP_TRACE) {
            info.si_code = TRAP_BRKPT;
            if (ptrace(PTRACE_SETSIGINFO, traced, 0, &info) == 0)
                changed++;
        }
        ptrace(PTRACE_CONT, traced, 0, signal);
    }
    _exit(changed > 100 ? 100 : changed);
}

int main(int argc, char **argv)
{
    enum { PAGE = 4096, TURNS = 1000 };
    char *pages;
    volatile int *across;
    int ready[2], status;
    pid_t tracer;
    char x;

    OK(mg_init(&argc, &argv));
    pages = SHARE("pages", 0, mg_calloc(2, PAGE));
    across = (volatile int *)(pages + PAGE - 2);
    CHECK(pipe(ready) == 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    tracer = fork();
    CHECK(tracer >= 0);
    if (tracer == 0) {
        close(ready[0]);
        trace(getppid(), ready[1]);
    }
    close(ready[1]);
    if (read(ready[0], &x, 1) != 1) {
        puts("not traced");
        OK(mg_barrier(0, 0));
        return mg_finalize();
    }
    OK(mg_barrier(0, 0));
    /* One instruction needs both pages at a time: it holds the one while it waits for the other. */
    for (int turn = 0; turn < TURNS; turn++) {
        *across = turn;
        usleep(turn % 8 * 20);
    }
    OK(mg_barrier(0, 0));
    CHECK(*across == TURNS - 1);
    raise(SIGUSR1);
    CHECK(waitpid(tracer, &status, 0) == tracer && WIFEXITED(status));
    printf("changed %d\n", WEXITSTATUS(status));
    OK(mg_barrier(0, 0));
    return mg_finalize();
}
