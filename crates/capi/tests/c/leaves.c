/* Threads that end in the middle of an instruction that holds a contended minipage: a division by a
 * shared zero raises SIGFPE behind its access, and the handler jumps out of it. */
#include "check.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <time.h>

static _Thread_local sigjmp_buf out;
static volatile int *zero;

static double now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void leave(int signal)
{
    (void)signal;
    siglongjmp(out, 1);
}

static void *divide(void *argument)
{
#ifdef __x86_64__
    if (sigsetjmp(out, 1) == 0) {
        int result;

        __asm__ volatile("movl $7, %%eax; cltd; idivl %1" : "=&a"(result) : "m"(*zero) : "edx");
    }
#endif
    return argument;
}

int main(int argc, char **argv)
{
    struct sigaction action;
    volatile int *words;
    double begin;

    memset(&action, 0, sizeof action);
    action.sa_handler = leave;
    CHECK(sigaction(SIGFPE, &action, NULL) == 0);
    OK(mg_init(&argc, &argv));
    words = SHARE("words", 0, mg_calloc(8, sizeof *words));
    zero = words;
    OK(mg_barrier(0, 0));
    begin = now();
    while (now() - begin < 1.0) {
        if (mg_node() == 1) {
            pthread_t thread;

            CHECK(pthread_create(&thread, NULL, divide, NULL) == 0);
            CHECK(pthread_join(thread, NULL) == 0);
        } else {
            words[1 + mg_node()]++;
        }
    }
    return mg_finalize();
}
