/*
 * Signals of the program beside those of accesses. "mask": threads and handlers that block all signals;
 * "handler": handlers for SIGSEGV and SIGBUS that are installed after mg_init; "cancel": threads that are
 * cancelled at any moment of their accesses. All compete for shared memory meanwhile.
 */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#define ROUNDS 3000

static volatile unsigned *count;
static char *guarded;
static volatile sig_atomic_t handled;

static void compete(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        __atomic_fetch_add((unsigned *)count, 1, __ATOMIC_SEQ_CST);
}

/* ---- mask ---- */

static void in_handler(int signal)
{
    (void)signal;
    compete(ROUNDS);
}

static void *all_blocked(void *argument)
{
    sigset_t all, before;

    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    compete(ROUNDS);
    CHECK(sigprocmask(SIG_SETMASK, &all, &before) == 0);
    CHECK(sigismember(&before, SIGUSR1) == 1 && sigismember(&before, SIGTERM) == 1);
    compete(ROUNDS);
    return argument;
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* The older calls, each in a thread of its own: what they block stays with it. */
static void *older(void *argument)
{
    sigset_t all, one;

    CHECK(sighold(SIGSEGV) == 0 && sighold(SIGBUS) == 0 && sighold(SIGTRAP) == 0);
    compete(ROUNDS);
    CHECK(sigset(SIGSEGV, SIG_HOLD) == SIG_DFL && sigset(SIGBUS, SIG_HOLD) == SIG_DFL);
    compete(ROUNDS);
    CHECK(sigblock(~0) == 0 && (sigsetmask(~0) & 1 << (SIGUSR2 - 1)) != 0);
    compete(ROUNDS);
    CHECK(sigsetmask(0) != 0 && sighold(SIGUSR2) == 0 && sigset(SIGUSR2, SIG_DFL) == SIG_HOLD);
    CHECK(sighold(-1) == -1 && errno == EINVAL && sighold(65) == -1);
    CHECK(sigset(SIGUSR2, in_handler) == SIG_DFL && sigset(SIGUSR2, SIG_HOLD) == in_handler);
    raise(SIGUSR2);
    CHECK(sigfillset(&all) == 0 && sigdelset(&all, SIGUSR2) == 0);
    CHECK(sigsuspend(&all) == -1 && errno == EINTR);
    CHECK(sigemptyset(&one) == 0 && sigprocmask(SIG_BLOCK, NULL, &one) == 0 && sigismember(&one, SIGUSR2) == 1);
    compete(ROUNDS);
    CHECK(sigignore(SIGSEGV) == 0 && ssignal(SIGBUS, SIG_IGN) == SIG_DFL);
    compete(ROUNDS);
    CHECK(sigset(SIGSEGV, SIG_DFL) == SIG_IGN && ssignal(SIGBUS, SIG_DFL) == SIG_IGN);
    return argument;
}

/* sigsuspend ends where its thread is cancelled. */
static void *suspended(void *argument)
{
    sigset_t none;

    sigemptyset(&none);
    for (;;)
        sigsuspend(&none);
    return argument;
}

static void mask(void)
{
    struct sigaction action = {.sa_handler = in_handler};
    pthread_t thread;
    void *result;

    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, all_blocked, NULL) == 0);
    raise(SIGUSR1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, older, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, suspended, NULL) == 0 && pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    OK(mg_barrier(1, 0));
    CHECK(*count == (unsigned)(9 * ROUNDS * mg_nodes()));
}

/* ---- handler ---- */

static void open_up(int signal, siginfo_t *info, void *context)
{
    (void)context;
    CHECK(signal == SIGSEGV && info->si_addr == guarded);
    compete(ROUNDS);
    handled++;
    CHECK(mprotect(guarded, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void plain(int signal)
{
    CHECK(signal == SIGSEGV);
    handled++;
    CHECK(mprotect(guarded, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void close_up(void)
{
    CHECK(mprotect(guarded, 4096, PROT_NONE) == 0);
}

static void handler(void)
{
    struct sigaction action = {.sa_sigaction = open_up, .sa_flags = SA_SIGINFO}, before;

    guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(guarded != MAP_FAILED);
    CHECK(sigaction(SIGSEGV, &action, &before) == 0 && before.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
    compete(ROUNDS);
    *guarded = 1;
    CHECK(handled == 1);
    compete(ROUNDS);
    CHECK(sigaction(SIGSEGV, NULL, &before) == 0 && before.sa_sigaction == open_up);
    CHECK((before.sa_flags & SA_SIGINFO) != 0);
    CHECK(signal(SIGSEGV, plain) == (void (*)(int))(void *)open_up);
    close_up();
    *guarded = 2;
    CHECK(handled == 2 && signal(SIGSEGV, SIG_DFL) == plain);
    action.sa_handler = plain;
    action.sa_flags = SA_RESETHAND;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    close_up();
    *guarded = 3;
    CHECK(sigaction(SIGSEGV, NULL, &before) == 0 && before.sa_handler == SIG_DFL);
    OK(mg_barrier(1, 0));
    CHECK(handled == 3 && *count == (unsigned)(3 * ROUNDS * mg_nodes()));
}

/* ---- cancel ---- */

static void *until_cancelled(void *argument)
{
    int type;

    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type) == 0);
    __atomic_store_n((int *)argument, 1, __ATOMIC_SEQ_CST);
    for (;;)
        __atomic_fetch_add((unsigned *)count, 1, __ATOMIC_SEQ_CST);
    return argument;
}

static void cancel(void)
{
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        void *result;
        int begun = 0;
        unsigned before = *count;

        CHECK(pthread_create(&thread, NULL, until_cancelled, &begun) == 0);
        while (!__atomic_load_n(&begun, __ATOMIC_SEQ_CST) || *count == before)
            ;
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    OK(mg_barrier(1, 0));
}

/* ---- timer ---- */

/* Threads of a timer may begin after it was deleted, and so after this node has left: those touch nothing. */
static int times, inside, over;

static void expired(union sigval value)
{
    __atomic_fetch_add((int *)value.sival_ptr, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
        __atomic_fetch_add((unsigned *)count, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&times, 1, __ATOMIC_SEQ_CST);
    }
    __atomic_fetch_sub((int *)value.sival_ptr, 1, __ATOMIC_SEQ_CST);
}

/* The C library starts a thread each time, with all signals blocked. */
static void timer(void)
{
    pthread_attr_t attributes;

    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, 1 << 20) == 0);
    for (int i = 0; i < 4; i++) {
        struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = expired };
        struct itimerspec every = { { 0, 1000000 }, { 0, 1000000 } };
        timer_t id;

        event.sigev_value.sival_ptr = &inside;
        if (i % 2 > 0)
            event.sigev_notify_attributes = &attributes;
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &id) == 0);
        CHECK(timer_settime(id, 0, &every, NULL) == 0);
        for (int before = __atomic_load_n(&times, __ATOMIC_SEQ_CST);
             __atomic_load_n(&times, __ATOMIC_SEQ_CST) < before + 20;)
            usleep(1000);
        CHECK(timer_delete(id) == 0);
    }
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) > 0)
        usleep(1000);
    OK(mg_barrier(1, 0));
}

/* A system call of its own blocks what accesses raise: node 1's first access ends it in the kernel. */
static void blocked(void)
{
    uint64_t all = ~(uint64_t)0;

    if (mg_node() != 1)
        return;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all) == 0);
    __atomic_fetch_add((unsigned *)count, 1, __ATOMIC_SEQ_CST);
}

static void *inherits(void *unused)
{
    sigset_t blocked;

    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0);
    for (int signal = 1; signal < SIGRTMIN; signal++)
        CHECK(sigismember(&blocked, signal) == (signal == SIGUSR2 || signal == SIGTERM));
    return unused;
}

/* As pthreads, from the thread that starts them, on whatever node. */
static void inherited(void)
{
    sigset_t some;

    CHECK(sigemptyset(&some) == 0 && sigaddset(&some, SIGUSR2) == 0 && sigaddset(&some, SIGTERM) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &some, NULL) == 0);
    for (int node = 0; node < mg_nodes(); node++) {
        mg_thread thread;

        OK(mg_thread_create(&thread, node, inherits, NULL));
        OK(mg_thread_join(thread, NULL));
    }
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    count = SHARE("count", 0, mg_calloc(1, sizeof *count));
    OK(mg_barrier(0, 0));
    if (strcmp(argv[1], "mask") == 0)
        mask();
    else if (strcmp(argv[1], "handler") == 0)
        handler();
    else if (strcmp(argv[1], "timer") == 0)
        timer();
    else if (strcmp(argv[1], "inherited") == 0)
        inherited();
    else if (strcmp(argv[1], "blocked") == 0)
        blocked();
    else
        cancel();
    OK(mg_barrier(2, 0));
    return mg_finalize();
}
