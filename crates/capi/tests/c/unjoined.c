/* A thread that nobody joins wakes up and leaves writes while its node's main is in mg_finalize: what lets the other
   node go waits for these, and goes before this one does. That it has written it tells the other node by a signal, which
   releases nothing. */
#include "check.h"

#include <pthread.h>
#include <signal.h>

static volatile long *words, *block;

static void *writes_late(void *arg)
{
    words[1]++;
    pid_t other = (pid_t)words[2];
    OK(mg_sem_wait(2));
    words[1]++;
    CHECK(kill(other, SIGUSR1) == 0);
    return arg;
}

int main(int argc, char **argv)
{
    sigset_t written;
    int signal;

    sigemptyset(&written);
    sigaddset(&written, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &written, NULL) == 0);
    OK(mg_init(&argc, &argv));
    words = SHARE("words", 0, mg_calloc(1, 8000));
    block = SHARE("block", 1, mg_calloc(1, 80000));
    if (mg_node() == 0)
        words[2] = getpid();
    OK(mg_barrier(1, 0));
    if (mg_node() == 0) {
        words[0]++;
        usleep(10000);
        OK(mg_sem_post(2, 1));
        for (int i = 0; i < 10000; i += 100)
            block[i]++;
        CHECK(sigwait(&written, &signal) == 0);
    } else {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, writes_late, NULL) == 0);
        for (int i = 50; i < 10000; i += 100)
            block[i]++;
    }
    OK(mg_finalize());
    return 0;
}
