/*
 * Jobs that can never go on, and jobs that only look so: the first argument says which.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

/* Longer than a deadlock takes to be named: that a job is left alone meanwhile is what is tested. */
#define LONG_S 2

static void sleep_long(void)
{
    struct timespec left = { LONG_S, 0 };
    while (nanosleep(&left, &left) != 0) {
    }
}

static void *wait_in_barrier(void *id)
{
    OK(mg_barrier((uint32_t)(uintptr_t)id, 99));
    return NULL;
}

/* Nodes 0 and 1 in a cycle, while the others exchange pages that nodes 0 and 1 manage. */
static void busy_cycle(void)
{
    uint32_t own = 7 + (uint32_t)mg_node(), next = 7 + (uint32_t)(1 - mg_node());
    void *pages = SHARE("pages", 0, mg_malloc_array(8, 4096));
    if (mg_node() < 2)
        OK(mg_lock(own));
    OK(mg_barrier(1, 0));
    if (mg_node() < 2)
        OK(mg_lock(next));
    for (uint32_t i = 0;; i++)
        ++*(int *)MUST(mg_element(pages, i % 8));
}

/* Threads of the program's own, which this library meets at their first call. */
static void threads_wait(void)
{
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, wait_in_barrier, (void *)(40 + i)) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* Each node holds its own lock and wants the next one's; node 2 and above do something else. */
static void cycle(void)
{
    uint32_t own = 7 + (uint32_t)mg_node(), next = 7 + (uint32_t)(1 - mg_node());
    if (mg_node() < 2)
        OK(mg_lock(own));
    OK(mg_barrier(1, 0));
    if (mg_node() < 2)
        OK(mg_lock(next));
    for (;;)
        sleep_long();
}

/* Each of nodes 0 and 1 reads its own and wants to write the next one's; node 2 and above do something else. */
static void read_write_cycle(void)
{
    uint32_t own = 7 + (uint32_t)mg_node(), next = 7 + (uint32_t)(1 - mg_node());
    if (mg_node() < 2)
        OK(mg_rwlock_rdlock(own));
    OK(mg_barrier(1, 0));
    if (mg_node() < 2)
        OK(mg_rwlock_wrlock(next));
    for (;;)
        sleep_long();
}

/* Node 0 reads and wants node 1's lock; node 1 wants to read too, behind node 2, which wants to write. */
static void behind_writer(void)
{
    if (mg_node() == 0)
        OK(mg_rwlock_rdlock(7));
    if (mg_node() == 1)
        OK(mg_lock(8));
    OK(mg_barrier(1, 0));
    if (mg_node() == 0)
        OK(mg_lock(8));
    if (mg_node() == 1) {
        /* Until node 2 is in the queue. */
        while (mg_rwlock_tryrdlock(7) == 0)
            OK(mg_rwlock_unlock(7));
        OK(mg_rwlock_rdlock(7));
    }
    if (mg_node() == 2)
        OK(mg_rwlock_wrlock(7));
    for (;;)
        sleep_long();
}

/* Node 0 is woken and wants its lock back, which node 1 has and keeps, for it wants node 0's other one. */
static void condition_cycle(void)
{
    if (mg_node() == 0) {
        OK(mg_lock(7));
        OK(mg_lock(8));
    }
    OK(mg_barrier(1, 0));
    if (mg_node() == 0)
        OK(mg_cond_wait(6, 7));
    if (mg_node() == 1) {
        OK(mg_lock(7));
        OK(mg_cond_signal(6));
        OK(mg_lock(8));
    }
    for (;;)
        sleep_long();
}

static void *wants_lock(void *unused)
{
    OK(mg_lock(7));
    OK(mg_unlock(7));
    return unused;
}

/* Node 0 joins a thread that wants its lock; node 2 and above do something else. */
static void join_cycle(void)
{
    if (mg_node() == 0) {
        mg_thread thread;
        OK(mg_lock(7));
        OK(mg_thread_create(&thread, 1, wants_lock, NULL));
        OK(mg_thread_join(thread, NULL));
    }
    for (;;)
        sleep_long();
}

static void lock_all(uint32_t first)
{
    for (uint32_t id = 0; id < 1000; id++)
        OK(mg_lock(first + id));
}

/* As a cycle of read-write locks, of threads that hold many locks besides. */
static void cycle_of_many(void)
{
    if (mg_node() < 2)
        lock_all(1000 + 1000 * (uint32_t)mg_node());
    read_write_cycle();
}

/* Node 0 waits for its lock again after its time is over; node 1 has it, and wants the other one of node 0. */
static void timed_condition_cycle(void)
{
    struct timespec past = { 1, 0 };
    if (mg_node() == 0) {
        OK(mg_lock(7));
        OK(mg_lock(8));
    }
    OK(mg_barrier(1, 0));
    if (mg_node() == 0) {
        clock_gettime(CLOCK_REALTIME, &past);
        past.tv_sec++;
        CHECK(mg_cond_timedwait(6, 7, &past) != 0);
    }
    if (mg_node() == 1) {
        OK(mg_lock(7));
        OK(mg_lock(8));
    }
    for (;;)
        sleep_long();
}

/* Holds a lock of its own and waits for one that others have for a while, in turns. */
static void *nests_locks(void *own)
{
    for (;;) {
        OK(mg_lock((uint32_t)(uintptr_t)own));
        OK(mg_lock(30));
        usleep(1000);
        OK(mg_unlock(30));
        OK(mg_unlock((uint32_t)(uintptr_t)own));
    }
    return NULL;
}

static void nested_beside_cycle(void)
{
    uintptr_t first = 100 + 10 * (uintptr_t)mg_node();
    mg_thread thread;
    for (uintptr_t i = 0; i < 3; i++)
        OK(mg_thread_create(&thread, mg_node(), nests_locks, (void *)(first + i)));
    cycle();
}

static void *ends_here(void *argument)
{
    return argument;
}

static void *never_ends(void *argument)
{
    OK(mg_sem_wait(8));
    return argument;
}

static void *ends_process(void *unused)
{
    (void)unused;
    exit(0);
}

/* What it deferred as it touched the word is under way for as long as nobody of its node receives. */
static void *touches_and_waits(void *word)
{
    *(int *)word = 1;
    usleep(50000);
    /* A semaphore of its own node: no message takes it along. */
    OK(mg_sem_wait(5));
    return NULL;
}

static void *exits_later(void *unused)
{
    usleep(200000);
    return ends_process(unused);
}

static void *post_later(void *unused)
{
    (void)unused;
    sleep_long();
    for (int i = 0; i < mg_nodes(); i++)
        OK(mg_sem_post(5, 1));
    return NULL;
}

static void exits_well(int signal)
{
    (void)signal;
    exit(0);
}

static void waits(int signal)
{
    (void)signal;
    mg_sem_wait(6);
}

static void asks(int signal)
{
    (void)signal;
    mg_lookup("never");
}

static void unlocks(int signal)
{
    (void)signal;
    OK(mg_unlock(7));
}

static void *locks(void *unused)
{
    OK(mg_lock(7));
    OK(mg_unlock(7));
    return unused;
}

static void post_late(int signal)
{
    (void)signal;
    sleep_long();
    mg_sem_post(5, (uint32_t)mg_nodes());
}

static void post(int signal)
{
    (void)signal;
    mg_sem_post(5, (uint32_t)mg_nodes());
}

/* Who sleeps has the lock that all others wait for, and only time ends it: no deadlock, at any of many looks. */
static void sleep_in_turns(int *shared)
{
    for (int i = 0; i < 30; i++) {
        OK(mg_lock(3));
        ++*shared;
        usleep(20000);
        OK(mg_unlock(3));
        OK(mg_barrier(2, 0));
    }
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    const char *what = argv[1];
    int node = mg_node();
    int *shared = SHARE("shared", 0, mg_calloc(1, sizeof *shared));

    /* For ever. */
    if (strcmp(what, "early-end") == 0) {
        ++*shared;
        if (node != 1)
            OK(mg_barrier(1, (uint32_t)mg_nodes()));
    } else if (strcmp(what, "threads") == 0) {
        threads_wait();
    } else if (strcmp(what, "cycle") == 0) {
        cycle();
    } else if (strcmp(what, "read-write-cycle") == 0) {
        read_write_cycle();
    } else if (strcmp(what, "behind-writer") == 0) {
        behind_writer();
    } else if (strcmp(what, "condition-cycle") == 0) {
        condition_cycle();
    } else if (strcmp(what, "cycle-of-many") == 0) {
        cycle_of_many();
    } else if (strcmp(what, "timed-condition-cycle") == 0) {
        timed_condition_cycle();
    } else if (strcmp(what, "join-cycle") == 0) {
        join_cycle();
    } else if (strcmp(what, "nested-beside-cycle") == 0) {
        nested_beside_cycle();
    } else if (strcmp(what, "busy-cycle") == 0) {
        busy_cycle();
    } else if (strcmp(what, "held") == 0) {
        if (node == 0)
            OK(mg_lock(7));
        OK(mg_barrier(1, 0));
        OK(node == 0 ? mg_sem_wait(4) : mg_lock(7));
    } else if (strcmp(what, "many") == 0) {
        for (uint32_t id = 0; node == 0 && id < 60000; id++)
            OK(mg_lock(10 + id));
        OK(mg_barrier(1, 0));
        OK(node == 0 ? mg_sem_wait(4) : mg_lock(10));
    } else if (strcmp(what, "condition") == 0) {
        OK(mg_lock(9));
        OK(mg_cond_wait(6, 9));
    } else if (strcmp(what, "join") == 0) {
        mg_thread thread;
        OK(mg_thread_create(&thread, mg_nodes() - 1, never_ends, NULL));
        OK(mg_thread_join(thread, NULL));
    } else if (strcmp(what, "exits") == 0 || strcmp(what, "exits-first") == 0) {
        /* Whose exit waits for node 0, beside a main thread that has called for the end too, before or after it. */
        mg_thread thread;
        if (node == 0) {
            OK(mg_thread_create(&thread, 1, ends_process, NULL));
            OK(mg_thread_join(thread, NULL));
        }
        if (node == 1 && strcmp(what, "exits-first") == 0)
            usleep(700000);
        OK(mg_finalize());
    } else if (strcmp(what, "touched") == 0) {
        mg_thread thread;
        if (node == 0) {
            OK(mg_thread_create(&thread, 1, touches_and_waits, shared));
            OK(mg_thread_join(thread, NULL));
        }
    } else if (strcmp(what, "exits-without-main") == 0 || strcmp(what, "exits-detached") == 0) {
        mg_thread thread;
        if (node == 1)
            pthread_exit(NULL);
        usleep(300000);
        OK(mg_thread_create(&thread, 1, exits_later, NULL));
        OK(strcmp(what, "exits-detached") == 0 ? mg_thread_detach(thread) : mg_thread_join(thread, NULL));
        usleep(400000);
    } else if (strcmp(what, "crowd") == 0) {
        /* As many threads as a node may have, but a few. */
        mg_thread thread = 0;
        for (int i = 0; i < 4000; i++)
            OK(mg_thread_create(&thread, node, never_ends, NULL));
        OK(mg_thread_join(thread, NULL));
    } else if (strcmp(what, "main-left") == 0) {
        mg_thread thread;
        if (node == 0) {
            OK(mg_thread_create(&thread, 0, never_ends, NULL));
            pthread_exit(NULL);
        }
    } else if (strcmp(what, "own-left") == 0) {
        pthread_t thread;
        if (node == 0) {
            CHECK(pthread_create(&thread, NULL, never_ends, NULL) == 0);
            pthread_exit(NULL);
        }
    } else if (strcmp(what, "name") == 0) {
        CHECK(mg_lookup("never") != NULL);
    } else if (strcmp(what, "segment") == 0) {
        CHECK(mg_segment_attach("never", MG_SEGMENT_WAIT) != NULL);
    } else if (strcmp(what, "exits-in-handler") == 0) {
        if (node == 1) {
            signal(SIGALRM, exits_well);
            ualarm(300000, 0);
        }
        OK(mg_sem_wait(5));
    } else if (strcmp(what, "exits-last-in-handler") == 0) {
        /* The others have come to mg_finalize, so that the first wait there is over at once. */
        if (node == 1) {
            signal(SIGALRM, exits_well);
            alarm(1);
            OK(mg_sem_wait(5));
        }
    } else if (strcmp(what, "asks-in-handler") == 0) {
        if (node == 1) {
            signal(SIGALRM, asks);
            ualarm(300000, 0);
        }
        OK(mg_sem_wait(5));
    } else if (strcmp(what, "waits-in-handler") == 0) {
        if (node == 1) {
            signal(SIGALRM, waits);
            ualarm(300000, 0);
        }
        OK(mg_sem_wait(5));
    } else if (strcmp(what, "useless-handler") == 0) {
        /* It could post a semaphore, but for that nobody waits. */
        signal(SIGTERM, post);
        if (node != 1)
            OK(mg_barrier(1, (uint32_t)mg_nodes()));

    /* Not for ever. */
    } else if (strcmp(what, "timed") == 0) {
        struct timespec then;
        clock_gettime(CLOCK_REALTIME, &then);
        then.tv_sec += LONG_S;
        OK(mg_lock(20 + (uint32_t)node));
        CHECK(mg_cond_timedwait(6, 20 + (uint32_t)node, &then) == MG_ETIMEDOUT);
        OK(mg_unlock(20 + (uint32_t)node));
    } else if (strcmp(what, "sleeper") == 0) {
        if (node == 0)
            sleep_long();
        OK(mg_barrier(1, 0));
    } else if (strcmp(what, "sleeper-for-ever") == 0) {
        while (node == 0)
            sleep_long();
        OK(mg_barrier(1, 0));
    } else if (strcmp(what, "timed-for-ever") == 0) {
        struct timespec then;
        clock_gettime(CLOCK_REALTIME, &then);
        then.tv_sec += 1000;
        if (node == 0)
            OK(mg_lock(7));
        OK(mg_barrier(1, 0));
        OK(node == 0 ? mg_sem_timedwait(5, &then) : mg_timedlock(7, &then));
    } else if (strcmp(what, "stranger") == 0) {
        pthread_t stranger;
        if (node == 0)
            CHECK(pthread_create(&stranger, NULL, post_later, NULL) == 0);
        OK(mg_sem_wait(5));
    } else if (strcmp(what, "handler") == 0) {
        if (node == 0) {
            signal(SIGALRM, post);
            alarm(LONG_S);
        }
        OK(mg_sem_wait(5));
    } else if (strcmp(what, "handler-in-join") == 0) {
        /* In no call of the library, where a handler may do more than post. */
        pthread_t thread;
        OK(mg_lock(7));
        signal(SIGALRM, unlocks);
        CHECK(pthread_create(&thread, NULL, locks, NULL) == 0);
        alarm(LONG_S);
        CHECK(pthread_join(thread, NULL) == 0);
    } else if (strcmp(what, "slow-handler") == 0) {
        /* Its signal is blocked while it runs, and its thread waits no more than the others do. */
        if (node == 0) {
            signal(SIGALRM, post_late);
            ualarm(300000, 0);
        }
        OK(mg_sem_wait(5));
    } else if (strcmp(what, "turns") == 0) {
        sleep_in_turns(shared);
        CHECK(*shared == 30 * mg_nodes());
    } else if (strcmp(what, "joins") == 0) {
        for (int i = 0; i < 200; i++) {
            void *result = NULL;
            mg_thread thread;
            OK(mg_thread_create(&thread, i % mg_nodes(), ends_here, &thread));
            OK(mg_thread_join(thread, &result));
            CHECK(result == &thread);
        }
        OK(mg_barrier(1, 0));
    } else {
        CHECK(!"a known argument");
    }
    return 0;
}
