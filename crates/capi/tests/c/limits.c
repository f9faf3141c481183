/*
 * How many threads there can be, and what may start. With "slots": threads of node 0 up to the limit.
 * With "unjoined": threads of node 1 that nobody joins, up to the limit. Otherwise: detached threads,
 * and functions that are none of the program.
 */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

#define SLOTS 4096
#define KEPT 65536
#define LOCK 7

static sem_t gate;
static mg_thread threads[SLOTS];
static unsigned ended;

static void *wait_at_gate(void *arg)
{
    while (sem_wait(&gate) != 0)
        ;
    /* Nothing was written by this thread alone: it would be seen. */
    OK(mg_lock(LOCK));
    ++*(uint64_t *)arg;
    OK(mg_unlock(LOCK));
    return arg;
}

static void *end_at_once(void *arg)
{
    __atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
    return arg;
}

static int fill(uint64_t *sum)
{
    int started = 0, code;

    while (started < SLOTS && (code = mg_thread_create(&threads[started], 0, wait_at_gate, sum)) == 0)
        started++;
    CODE(code, MG_ELIMIT);
    return started;
}

static void drain(uint64_t *sum, int started)
{
    for (int i = 0; i < started; i++)
        CHECK(sem_post(&gate) == 0);
    for (int i = 0; i < started; i++) {
        void *result;

        OK(mg_thread_join(threads[i], &result));
        CHECK(result == sum);
    }
}

static void slots(void)
{
    uint64_t *sum = MUST(mg_calloc(1, sizeof *sum));
    int first, second;

    CHECK(sem_init(&gate, 0, 0) == 0);
    OK(mg_lock(LOCK)); /* the main thread has a slot */
    OK(mg_unlock(LOCK));
    first = fill(sum);
    CHECK(first == SLOTS - 1);
    drain(sum, first);
    /* Who was joined has left its slot. */
    second = fill(sum);
    CHECK(second == first);
    drain(sum, second);
    OK(mg_lock(LOCK));
    CHECK(*sum == (uint64_t)(first + second));
    OK(mg_unlock(LOCK));
}

static void unjoined(void)
{
    mg_thread *kept = malloc((KEPT + SLOTS) * sizeof *kept);
    int count = 0, code;
    void *result;

    CHECK(kept != NULL);
    while ((code = mg_thread_create(&kept[count], 1, end_at_once, (void *)(intptr_t)count)) == 0)
        CHECK(++count < KEPT + SLOTS);
    CODE(code, MG_ELIMIT);
    CHECK(count >= KEPT);
    OK(mg_thread_join(kept[0], &result));
    CHECK(result == NULL);
    for (int i = 1; i < count; i++)
        OK(mg_thread_detach(kept[i]));
    OK(mg_thread_create(&kept[0], 1, end_at_once, (void *)7));
    OK(mg_thread_join(kept[0], &result));
    CHECK((intptr_t)result == 7);
    free(kept);
}

static void detached(int node)
{
    mg_thread thread, other;

    OK(mg_thread_create(&thread, node, end_at_once, NULL));
    CHECK(thread >> 48 == (uint64_t)node && (thread & 0xffffffffffff) != 0);
    OK(mg_thread_detach(thread));
    CODE(mg_thread_detach(thread), MG_EINVAL);
    CODE(mg_thread_join(thread, NULL), MG_EINVAL);
    OK(mg_thread_create(&other, node, end_at_once, NULL));
    CHECK(other != thread);
    OK(mg_thread_join(other, NULL));
    CODE(mg_thread_detach(other), MG_EINVAL);
    CODE(mg_thread_detach(12345), MG_EINVAL);
    CODE(mg_thread_detach(UINT64_MAX), MG_EINVAL);
}

typedef void *function(void *);

static void no_functions(int node)
{
    static uint64_t data[64];
    mg_thread thread = 0;
    uint64_t on_stack = 0;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *wrong[] = {dlsym(RTLD_DEFAULT, "getpid"), dlsym(RTLD_DEFAULT, "mg_node"), malloc(64), page,
                     &on_stack, &data[32], (void *)1, (void *)UINTPTR_MAX};

    CHECK(page != MAP_FAILED);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        function *start;

        CHECK(wrong[i] != NULL);
        memcpy(&start, &wrong[i], sizeof start);
        CODE(mg_thread_create(&thread, node, start, NULL), MG_EINVAL);
    }
    CHECK(thread == 0);
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    if (argc > 1 && strcmp(argv[1], "slots") == 0) {
        if (mg_node() == 0)
            slots();
    } else if (argc > 1 && strcmp(argv[1], "unjoined") == 0) {
        if (mg_node() == 0)
            unjoined();
    } else {
        for (int node = 0; node < mg_nodes(); node++) {
            detached(node);
            no_functions(node);
        }
        OK(mg_barrier(0, (uint32_t)mg_nodes()));
    }
    OK(mg_finalize());
    return 0;
}
