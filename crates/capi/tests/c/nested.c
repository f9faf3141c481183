/*
 * A stepped instruction raises a signal of its own, and the program's handler of that needs contended
 * memory as well: a division by a shared zero, counted in shared memory. Nodes compete for both.
 */
#include "check.h"

#include <signal.h>
#include <ucontext.h>

#define ROUNDS 20000

static volatile unsigned *zero, *count;

static void divided(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    __atomic_fetch_add((unsigned *)count, 1, __ATOMIC_SEQ_CST);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; /* divl (%rcx) */
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = divided, .sa_flags = SA_SIGINFO};

    OK(mg_init(&argc, &argv));
    CHECK(sigaction(SIGFPE, &action, NULL) == 0);
    zero = SHARE("zero", 0, mg_calloc(1, sizeof *zero));
    count = SHARE("count", 0, mg_calloc(1, sizeof *count));
    OK(mg_barrier(0, 0));
    for (int i = 0; i < ROUNDS; i++) {
        unsigned low = 1, high = 0;

        __atomic_fetch_add((unsigned *)zero, 0, __ATOMIC_SEQ_CST);
        __asm__ volatile("divl (%%rcx)" : "+a"(low), "+d"(high) : "c"(zero) : "cc", "memory");
    }
    OK(mg_barrier(0, 0));
    CHECK(*count == (unsigned)(ROUNDS * mg_nodes()));
    OK(mg_barrier(0, 0));
    return mg_finalize();
}
