/*
 * Ends of threads, as pthreads have them: `ends main` ends the main thread by pthread_exit, `ends held` ends
 * threads that hold locks, `ends process` ends the process in a thread while the main thread waits in
 * mg_finalize, `ends process first` does so before; anything else checks results, stacks and attributes.
 */
#include "check.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, (uint32_t)nodes));
}

static void *exits(void *arg)
{
    uint64_t *shared = MUST(mg_calloc(1, sizeof *shared));

    *shared = 7;
    OK(mg_free(shared));
    pthread_exit((void *)((uintptr_t)arg + 1));
}

static void *is_cancelled(void *arg)
{
    (void)arg;
    pthread_cancel(pthread_self());
    pthread_testcancel();
    FAIL("a cancelled thread went on");
}

static void *stack_bytes(void *arg)
{
    pthread_attr_t attr;
    size_t bytes;

    (void)arg;
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
    CHECK(pthread_attr_getstacksize(&attr, &bytes) == 0);
    pthread_attr_destroy(&attr);
    return (void *)bytes;
}

/* More than Rust's threads have, less than the usual 8 MiB. */
static void *uses_6_mib(void *arg)
{
    volatile char room[6 << 20];

    for (size_t i = 0; i < sizeof room; i += 4096)
        room[i] = (char)i;
    return (void *)((uintptr_t)arg + (uintptr_t)(room[4096] != 0));
}

static void *counts_and_exits(void *arg)
{
    __atomic_fetch_add((uint64_t *)arg, 1, __ATOMIC_SEQ_CST);
    pthread_exit(NULL);
}

static void results(void)
{
    struct mg_thread_attr attributes = {.size = sizeof attributes};
    struct rlimit limit;
    mg_thread thread;
    void *result;
    uint64_t *ended = SHARE("ended", 0, mg_calloc(1, sizeof *ended));
    int to = (me + 1) % nodes;

    OK(mg_thread_create(&thread, to, exits, (void *)41));
    OK(mg_thread_join(thread, &result));
    CHECK(result == (void *)42);
    OK(mg_thread_create(&thread, to, is_cancelled, NULL));
    OK(mg_thread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);

    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
    OK(mg_thread_create(&thread, to, stack_bytes, NULL));
    OK(mg_thread_join(thread, &result));
    if (limit.rlim_cur != RLIM_INFINITY)
        CHECK((rlim_t)result == limit.rlim_cur);
    if (limit.rlim_cur >= 8 << 20) {
        OK(mg_thread_create(&thread, to, uses_6_mib, NULL));
        OK(mg_thread_join(thread, &result));
    }

    attributes.stack_bytes = 32 << 20;
    OK(mg_thread_create_with(&thread, to, &attributes, stack_bytes, NULL));
    OK(mg_thread_join(thread, &result));
    CHECK((size_t)result == attributes.stack_bytes);
    attributes.stack_bytes = 1000;
    CODE(mg_thread_create_with(&thread, to, &attributes, stack_bytes, NULL), MG_EINVAL);
    attributes.stack_bytes = ~(size_t)0;
    CODE(mg_thread_create_with(&thread, to, &attributes, stack_bytes, NULL), MG_EINVAL);
    attributes.stack_bytes = 0;
    attributes.detached = 1;
    OK(mg_thread_create_with(&thread, to, &attributes, counts_and_exits, ended));
    CODE(mg_thread_join(thread, NULL), MG_EINVAL);
    CODE(mg_thread_detach(thread), MG_EINVAL);
    attributes.size--;
    CODE(mg_thread_create_with(&thread, to, &attributes, counts_and_exits, ended), MG_EINVAL);
    while (__atomic_load_n(ended, __ATOMIC_SEQ_CST) < (uint64_t)nodes)
        usleep(1000);

    /* Slots come back however a thread ends. */
    for (int i = 0; i < 5000; i++) {
        OK(mg_thread_create(&thread, me, i % 2 ? exits : is_cancelled, NULL));
        OK(mg_thread_join(thread, NULL));
    }
    meet();
}

static pthread_barrier_t main_gone;

static void at_the_end(void)
{
    fprintf(stderr, "node %d says goodbye\n", me);
}

/* Goes on after the main thread has ended, and shares memory. */
static void *outlives_main(void *arg)
{
    uint64_t *count = arg;

    pthread_barrier_wait(&main_gone);
    wait_state(getpid(), 'Z');
    __atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
    OK(mg_barrier(1, (uint32_t)nodes));
    CHECK(*count == (uint64_t)nodes);
    fprintf(stderr, "node %d outlived its main thread\n", me);
    return NULL;
}

static void main_ends(void)
{
    uint64_t *count = SHARE("count", 0, mg_calloc(1, sizeof *count));
    pthread_t thread;

    atexit(at_the_end);
    CHECK(pthread_barrier_init(&main_gone, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, outlives_main, count) == 0);
    CHECK(pthread_detach(thread) == 0);
    pthread_barrier_wait(&main_gone);
    pthread_exit((void *)3);
}

static void *holds_7(void *arg)
{
    OK(mg_lock(7));
    return arg;
}

static void *unlocks_7(void *arg)
{
    CODE(mg_unlock(7), MG_EPERM);
    CODE(mg_trylock(7), MG_EBUSY);
    return arg;
}

static void *holds_more(void *arg)
{
    OK(mg_lock_at(arg));
    OK(mg_rwlock_rdlock(9));
    pthread_exit(NULL);
}

/* Of threads that end with locks; the later ones have the slots of the earlier. */
static void held(void)
{
    uint64_t *place = SHARE("place", 0, mg_calloc(1, sizeof *place));
    mg_thread thread;

    if (me == nodes - 1) {
        OK(mg_thread_create(&thread, me, holds_7, NULL));
        OK(mg_thread_join(thread, NULL));
        for (int i = 0; i < 3; i++) {
            OK(mg_thread_create(&thread, me, unlocks_7, NULL));
            OK(mg_thread_join(thread, NULL));
        }
        OK(mg_thread_create(&thread, me, holds_more, place));
        OK(mg_thread_join(thread, NULL));
        fprintf(stderr, "place %p\n", (void *)place);
    }
    meet();
    CODE(mg_trylock(7), MG_EBUSY);
    CODE(mg_rwlock_trywrlock(9), MG_EBUSY);
    OK(mg_rwlock_tryrdlock(9));
    OK(mg_rwlock_unlock(9));
    meet();
}

/* The main thread of node 0 returns with what it holds, or finalizes; the other one takes a lock of its own. */
static int held_by_main(int finalizes)
{
    if (me > 0) {
        OK(mg_lock(2));
        OK(mg_unlock(2));
        return 0;
    }
    OK(mg_lock(7));
    OK(mg_rwlock_wrlock(9));
    OK(mg_lock(8));
    OK(mg_unlock(8));
    return finalizes ? mg_finalize() : 0;
}

static int main_thread, main_follows;
static uint32_t *exiting;

/* Behind it the library's own handler runs, which mg_init registered before. */
static void tells_that_it_exits(void)
{
    __atomic_store_n(exiting, 1, __ATOMIC_SEQ_CST);
}

static void await_exit(void)
{
    while (!__atomic_load_n(exiting, __ATOMIC_SEQ_CST))
        usleep(1000);
    /* It goes on to end its process, or waits. */
    usleep(50000);
}

static void *ends_process(void *arg)
{
    if (!main_follows)
        wait_asleep(main_thread);
    exit(0);
    return arg;
}

/* The last node's process ends in a thread, and that of its main thread waits for it or is waited for. */
static int process_ends(int first)
{
    pthread_t thread;

    exiting = SHARE("exiting", 0, mg_calloc(1, sizeof *exiting));
    main_thread = own_thread();
    main_follows = first;
    if (me < nodes - 1) {
        await_exit();
        return mg_finalize();
    }
    atexit(tells_that_it_exits);
    CHECK(pthread_create(&thread, NULL, ends_process, NULL) == 0);
    if (first)
        await_exit();
    return mg_finalize();
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    if (argc > 1 && strcmp(argv[1], "main") == 0)
        main_ends();
    else if (argc > 1 && strcmp(argv[1], "held-by-main") == 0)
        return held_by_main(argc > 2);
    else if (argc > 1 && strcmp(argv[1], "many-held") == 0)
        for (uint32_t id = 0; mg_node() == 0 && id < 100; id++)
            OK(mg_lock(id));
    else if (argc > 1 && strcmp(argv[1], "held") == 0)
        held();
    else if (argc > 1 && strcmp(argv[1], "process") == 0)
        return process_ends(argc > 2);
    else
        results();
    return 0;
}
