/*
 * A handler on an alternate stack of so many bytes as the argument says touches shared memory: nothing below the stack
 * is written.
 */
#include "check.h"

#include <signal.h>
#include <sys/mman.h>

#define BESIDE 65536

static volatile unsigned *count;

static void touch(int signal)
{
    (void)signal;
    count[0]++;
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? (size_t)atol(argv[1]) : 65536;
    char *below = mmap(NULL, bytes + BESIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = below + BESIDE, .ss_size = bytes};
    struct sigaction action = {.sa_handler = touch, .sa_flags = SA_ONSTACK};

    OK(mg_init(&argc, &argv));
    count = SHARE("count", 0, mg_calloc(1, 4096));
    CHECK(below != MAP_FAILED && sigaltstack(&stack, NULL) == 0);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    memset(below, 0x5a, BESIDE);
    for (int turn = 0; turn < 100; turn++) {
        OK(mg_barrier(1, 0));
        if (turn % mg_nodes() == mg_node())
            raise(SIGUSR1);
    }
    OK(mg_barrier(1, 0));
    CHECK(count[0] == 100);
    for (int i = 0; i < BESIDE; i++)
        CHECK(below[i] == 0x5a);
    return mg_finalize() == MG_OK ? 0 : 1;
}
