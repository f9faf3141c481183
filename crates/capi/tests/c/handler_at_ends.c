/*
 * A signal's handler posts a semaphore while its thread begins or ends: threads of this library's and others, by return and by
 * pthread_exit, with writes to tell of. A timer of the thread's own goes on until that is gone.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>

#define ROUNDS 300
#define SEMAPHORE (60 + (uint32_t)mg_node())

/* Of all nodes, and what each thread that starts others has written by these. */
static long *count, *written;
static long posts;

static void post(int signal)
{
    (void)signal;
    if (mg_sem_post(SEMAPHORE, 1) == 0)
        __atomic_fetch_add(&posts, 1, __ATOMIC_SEQ_CST);
}

/* A thread from its function on: the number of its place in `written`, and how soon its timer goes off. */
static void *work(void *arg)
{
    long place = (long)arg, first_us = 1 + place % 150;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    struct itimerspec often = {{0, 150000}, {0, 1000 * first_us}};
    timer_t timer;

    event._sigev_un._tid = own_thread();
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    OK(mg_lock(7));
    ++*count;
    OK(mg_unlock(7));
    written[place]++;
    CHECK(timer_settime(timer, 0, &often, NULL) == 0);
    if (place % 2)
        pthread_exit(timer);
    return timer;
}

static void *start(void *first)
{
    sigset_t alarms;

    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    for (long round = 0; round < ROUNDS; round++) {
        void *place = (void *)((long)first + round), *timer;

        if (round % 3 == 0) {
            pthread_t thread;

            CHECK(pthread_create(&thread, NULL, work, place) == 0);
            CHECK(pthread_join(thread, &timer) == 0);
        } else {
            mg_thread thread;

            /* For the thread, which has blocked what this one has. */
            CHECK(pthread_sigmask(SIG_UNBLOCK, &alarms, NULL) == 0);
            OK(mg_thread_create(&thread, mg_node(), work, place));
            CHECK(pthread_sigmask(SIG_BLOCK, &alarms, NULL) == 0);
            OK(mg_thread_join(thread, &timer));
        }
        CHECK(timer_delete(timer) == 0);
    }
    return first;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = post, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    sigset_t alarms;
    pthread_t other;
    long all;

    OK(mg_init(&argc, &argv));
    count = SHARE("count", 0, mg_calloc(1, sizeof *count));
    written = MUST(mg_calloc(2 * ROUNDS, sizeof *written));
    OK(mg_barrier(0, 0));
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    CHECK(pthread_sigmask(SIG_BLOCK, &alarms, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    CHECK(pthread_create(&other, NULL, start, (void *)ROUNDS) == 0);
    start(NULL);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    all = __atomic_load_n(&posts, __ATOMIC_SEQ_CST);
    CHECK(all > ROUNDS / 10);
    for (long i = 0; i < all; i++)
        OK(mg_sem_wait(SEMAPHORE));
    OK(mg_barrier(0, 0));
    OK(mg_lock(7));
    CHECK(*count == 2L * ROUNDS * mg_nodes());
    OK(mg_unlock(7));
    OK(mg_finalize());
    return 0;
}
