/*
 * Node 1 waits at a page of node 0, which is stopped, and somebody sends it SIGTERM: it ends at once. With
 * "handler" it has a handler for that, which runs when the page is there, and not before.
 */
#include "check.h"

#include <signal.h>

static volatile int *word;
static volatile sig_atomic_t told;

static void tell(int signal)
{
    (void)signal;
    told = *word;
}

/* What the main thread of that process does, as /proc has it, and the signals that it blocks. */
static char state_of(pid_t process, unsigned long long *blocked)
{
    char path[64], line[256], state = 0;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    file = fopen(path, "r");
    if (file == NULL)
        _exit(0);
    while (fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "State: %c", &state);
        sscanf(line, "SigBlk: %llx", blocked);
    }
    fclose(file);
    return state;
}

static int is_stopped(pid_t process)
{
    unsigned long long blocked;

    return state_of(process, &blocked) == 'T';
}

/* Whether it is inside the trap's handler, and sleeps there. */
static int waits_in_trap(pid_t process)
{
    unsigned long long blocked = 0;

    return state_of(process, &blocked) == 'S' && (blocked >> (SIGUSR1 - 1) & 1) != 0;
}

int main(int argc, char **argv)
{
    pid_t *stopped;

    OK(mg_init(&argc, &argv));
    word = SHARE("word", 0, mg_calloc(1, sizeof *word));
    stopped = SHARE("stopped", 1, mg_calloc(1, sizeof *stopped));
    OK(mg_barrier(0, 0));
    if (mg_node() == 0) {
        *word = 1;
        *stopped = getpid();
    }
    OK(mg_barrier(1, 0));
    pid_t peer = *stopped;
    OK(mg_barrier(3, 0));
    if (mg_node() == 0) {
        raise(SIGSTOP);
    } else {
        pid_t node = getpid();

        while (!is_stopped(peer))
            usleep(1000);
        if (argc > 1)
            CHECK(signal(SIGTERM, tell) != SIG_ERR);
        if (fork() == 0) {
            while (!waits_in_trap(node))
                usleep(1000);
            kill(node, SIGTERM);
            if (argc > 1)
                kill(peer, SIGCONT);
            _exit(0);
        }
        while (*word == 0 || (argc > 1 && told == 0))
            ;
        CHECK(argc > 1);
    }
    OK(mg_barrier(2, 0));
    return mg_finalize();
}
