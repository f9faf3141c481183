/*
 * A node that reaches a limit of addresses in the middle of the job, while its locks become more and more. With "timed":
 * while its first call with a deadline cannot start the thread for those, which a later call then does; meanwhile it computes, and
 * nobody may take it for a node that waits.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

static rlim_t addresses_in_use(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages;

    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static volatile int refuses_threads;

/* Stands before the C library's for all of this process. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (refuses_threads)
        return EAGAIN;
    *(void **)&real = MUST(dlsym(RTLD_NEXT, "pthread_create"));
    return real(thread, attributes, start, argument);
}

/* Set when the thread has used the library, and has what it needs for that. */
static volatile int is_there;

static void *stay(void *unused)
{
    OK(mg_lock(3));
    OK(mg_unlock(3));
    is_there = 1;
    OK(mg_barrier(1, 2 * (uint32_t)mg_nodes()));
    return unused;
}

static void call_with_a_deadline(void)
{
    struct timespec deadline, now;
    uint64_t until;
    int code;

    CHECK(clock_gettime(CLOCK_REALTIME, &deadline) == 0);
    deadline.tv_sec += 60;
    refuses_threads = 1;
    code = mg_sem_timedwait(7, &deadline);
    refuses_threads = 0;
    CODE(code, MG_ESYS);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    until = (uint64_t)now.tv_sec + 3;
    do
        CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    while ((uint64_t)now.tv_sec < until);
    OK(mg_sem_post(7, 1));
    OK(mg_sem_timedwait(7, &deadline));
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    pthread_t waiter;

    OK(mg_init(&argc, &argv));
    if (argc > 1) {
        CHECK(pthread_create(&waiter, NULL, stay, NULL) == 0);
        while (!is_there)
            ;
        if (mg_node() == mg_nodes() - 1)
            call_with_a_deadline();
        stay(NULL);
        CHECK(pthread_join(waiter, NULL) == 0);
        OK(mg_finalize());
        return 0;
    }
    OK(mg_barrier(0, 0));
    if (mg_node() == mg_nodes() - 1) {
        CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
        limit.rlim_cur = addresses_in_use();
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        for (uint32_t id = 1; id < 20000000; id++)
            OK(mg_sem_post(id, 1));
    }
    OK(mg_barrier(0, 0));
    return 1;
}
