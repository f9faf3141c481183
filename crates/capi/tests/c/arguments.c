/* Wrong arguments give the documented codes, and the job goes on. Node 0 alone makes mistakes. */
#include "check.h"

#define LOCK 1
#define BARRIER 2
#define CONDITION 3
#define FAR ((void *)(uintptr_t)0x1fff00000000) /* a shared address nobody has allocated */

static void *twice(void *arg)
{
    return (void *)((uintptr_t)arg * 2);
}

static int comes; /* the thread that comes to the barrier, once it has a number */

static void *come_to_the_barrier(void *arg)
{
    (void)arg;
    __atomic_store_n(&comes, own_thread(), __ATOMIC_SEQ_CST);
    return (void *)(intptr_t)mg_barrier(BARRIER, 2);
}

static void sizes(void)
{
    NONE(mg_malloc(SIZE_MAX), MG_ENOMEM);
    NONE(mg_malloc(SIZE_MAX / 2), MG_ENOMEM);
    NONE(mg_calloc(SIZE_MAX, 2), MG_ENOMEM);
    NONE(mg_malloc_array(0, 8), MG_EINVAL);
    NONE(mg_malloc_array(8, 0), MG_EINVAL);
    NONE(mg_malloc_array(SIZE_MAX, SIZE_MAX), MG_ENOMEM);
    NONE(mg_malloc_array(SIZE_MAX, 1), MG_ENOMEM);
    NONE(mg_malloc_array(1, SIZE_MAX), MG_ENOMEM);
    NONE(mg_malloc_array(SIZE_MAX, 64), MG_ENOMEM);
    NONE(mg_malloc_grain(0, 4096), MG_EINVAL);
    NONE(mg_malloc_grain(4096, 0), MG_EINVAL);
    CHECK(mg_malloc_grain(SIZE_MAX, SIZE_MAX) == NULL);
    NONE(mg_malloc_grain(SIZE_MAX, 4096), MG_ENOMEM);
    for (int kind = MG_DEFAULT; kind <= MG_AUTO; kind++) {
        enum mg_consistency consistency = (enum mg_consistency)kind;

        OK(mg_free(MUST(mg_malloc_with(0, 0, consistency))));
        NONE(mg_malloc_with(SIZE_MAX, 0, consistency), MG_ENOMEM);
        NONE(mg_malloc_with(SIZE_MAX, 4096, consistency), MG_ENOMEM);
        NONE(mg_malloc_array_with(0, 8, consistency), MG_EINVAL);
        NONE(mg_malloc_array_with(8, 0, consistency), MG_EINVAL);
        NONE(mg_malloc_array_with(SIZE_MAX, 64, consistency), MG_ENOMEM);
        NONE(mg_malloc_array_with(1, SIZE_MAX, consistency), MG_ENOMEM);
        OK(mg_free(MUST(mg_malloc_with(8, 0, consistency))));
    }
    NONE(mg_malloc_with(8, 0, (enum mg_consistency)(MG_AUTO + 1)), MG_EINVAL);
    for (unsigned kind = 2 * MG_AUTO; kind != 0; kind <<= 1) {
        enum mg_consistency unknown = (enum mg_consistency)kind;

        NONE(mg_malloc_with(8, 0, unknown), MG_EINVAL);
        NONE(mg_malloc_array_with(8, 8, unknown), MG_EINVAL);
    }
    CODE(mg_set_chunking(0), MG_EINVAL);
    CODE(mg_set_chunking(65537), MG_EINVAL);
    CODE(mg_set_chunking(UINT32_MAX), MG_EINVAL);
    OK(mg_set_chunking(65536));
    OK(mg_set_chunking(1));
}

static void elements(void)
{
    int private_value = 0;
    void *out[10];
    void *array = MUST(mg_malloc_array(10, 24));

    CHECK(mg_element(array, 0) == array);
    NONE(mg_element(array, 10), MG_EINVAL);
    NONE(mg_element(array, SIZE_MAX), MG_EINVAL);
    NONE(mg_element(&private_value, 0), MG_ENOTSHARED);
    CHECK(mg_element(NULL, 0) == NULL);
    NONE(mg_element(mg_element(array, 1), 0), MG_ENOTSHARED);
    NONE(mg_element(FAR, 0), MG_ENOTSHARED);
    OK(mg_elements(array, 10, out));
    OK(mg_elements(array, 0, out));
    CODE(mg_elements(array, 11, out), MG_EINVAL);
    CODE(mg_elements(array, SIZE_MAX, out), MG_EINVAL);
    CODE(mg_elements(array, 10, NULL), MG_EINVAL);
    CODE(mg_elements(&private_value, 1, out), MG_ENOTSHARED);
    CODE(mg_free(out[1]), MG_ENOTSHARED);
    OK(mg_free(array));
    CODE(mg_free(array), MG_EPERM);
}

static void frees(void)
{
    int private_value = 0;
    char *small = MUST(mg_malloc(100));
    char *pages = MUST(mg_malloc(10000));
    char *block = MUST(mg_malloc(1 << 20));
    void *heap = malloc(100);

    OK(mg_free(NULL));
    CODE(mg_free(&private_value), MG_ENOTSHARED);
    CODE(mg_free(heap), MG_ENOTSHARED);
    CODE(mg_free((void *)1), MG_ENOTSHARED);
    CODE(mg_free((void *)UINTPTR_MAX), MG_ENOTSHARED);
    CODE(mg_free(FAR), MG_ENOTSHARED);
    CODE(mg_free(small + 1), MG_ENOTSHARED);
    CODE(mg_free(small + 8), MG_ENOTSHARED);
    CODE(mg_free(pages + 4096), MG_ENOTSHARED);
    CODE(mg_free(block + 4096), MG_ENOTSHARED);
    CODE(mg_free(block + 1), MG_ENOTSHARED);
    memset(small, 1, 100);
    memset(pages, 1, 10000);
    memset(block, 1, 1 << 20);
    OK(mg_free(small));
    CODE(mg_free(small), MG_EPERM);
    OK(mg_free(pages));
    CODE(mg_free(pages), MG_EPERM);
    OK(mg_free(block));
    CODE(mg_free(block), MG_EPERM);
    free(heap);
}

static void names(void)
{
    char name[65];
    void *p = MUST(mg_malloc(8));

    memset(name, 'n', 64);
    name[64] = '\0';
    CODE(mg_publish(NULL, p), MG_EINVAL);
    CODE(mg_publish("", p), MG_EINVAL);
    CODE(mg_publish(name, p), MG_EINVAL);
    CODE(mg_publish("null", NULL), MG_EINVAL);
    CODE(mg_publish("private", name), MG_ENOTSHARED);
    CODE(mg_publish("far", FAR), MG_ENOTSHARED);
    NONE(mg_lookup(NULL), MG_EINVAL);
    NONE(mg_lookup(""), MG_EINVAL);
    NONE(mg_lookup(name), MG_EINVAL);
    name[63] = '\0';
    OK(mg_publish(name, p));
    CHECK(mg_lookup(name) == p);
}

static void hints(void)
{
    int private_value = 0;
    void *p = MUST(mg_malloc(64));
    int (*const reading[])(const void *, size_t) = {mg_prefetch_read, mg_push, mg_touch_read};
    int (*const writing[])(void *, size_t) = {mg_prefetch_write, mg_touch_write};

    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++) {
        CODE(reading[i](NULL, 8), MG_ENOTSHARED);
        CODE(reading[i](&private_value, 1), MG_ENOTSHARED);
        CODE(reading[i](FAR, 1), MG_ENOTSHARED);
        OK(reading[i](p, 0));
        OK(reading[i](p, 64));
        CODE(reading[i](p, SIZE_MAX), MG_EINVAL);
    }
    for (size_t i = 0; i < sizeof writing / sizeof *writing; i++) {
        CODE(writing[i](NULL, 8), MG_ENOTSHARED);
        CODE(writing[i](&private_value, 1), MG_ENOTSHARED);
        CODE(writing[i](FAR, 1), MG_ENOTSHARED);
        OK(writing[i](p, 0));
        OK(writing[i](p, 64));
        CODE(writing[i](p, SIZE_MAX), MG_EINVAL);
    }
}

static void synchronization(void)
{
    mg_thread first;
    void *result;

    for (uint32_t id = LOCK; id < LOCK + 2; id++) { /* managed here, and elsewhere */
        CODE(mg_unlock(id), MG_EPERM);
        OK(mg_lock(id));
        CODE(mg_lock(id), MG_EPERM);
        OK(mg_unlock(id));
        CODE(mg_unlock(id), MG_EPERM);
        CODE(mg_cond_wait(CONDITION, id), MG_EPERM);
        OK(mg_lock(id));
        OK(mg_unlock(id));
    }
    OK(mg_cond_signal(CONDITION));
    OK(mg_cond_broadcast(CONDITION));
    OK(mg_sem_post(UINT32_MAX - 1, 0));
    OK(mg_sem_post(UINT32_MAX - 1, 1));
    OK(mg_sem_wait(UINT32_MAX - 1));

    /* Threads that disagree: the second comer is told, the first goes on waiting. */
    OK(mg_thread_create(&first, 0, come_to_the_barrier, NULL));
    while (stats_now().barriers == 0)
        usleep(1000);
    wait_asleep(__atomic_load_n(&comes, __ATOMIC_SEQ_CST));
    CODE(mg_barrier(BARRIER, 3), MG_EPERM);
    OK(mg_barrier(BARRIER, 2));
    OK(mg_thread_join(first, &result));
    CHECK((intptr_t)result == MG_OK);
    CODE(mg_barrier(BARRIER, -1), MG_EINVAL);
    CHECK(strstr(mg_strerror(MG_EINVAL), "4294967295 threads") != NULL);
    CHECK(strcmp(mg_strerror(-99), "unknown error code -99") == 0);
    OK(mg_barrier(BARRIER, 1));
}

static void threads(void)
{
    mg_thread thread;
    void *result;

    CODE(mg_thread_create(NULL, 0, twice, NULL), MG_EINVAL);
    CODE(mg_thread_create(&thread, 0, NULL, NULL), MG_EINVAL);
    CODE(mg_thread_create(&thread, 99, twice, NULL), MG_ENODE);
    CODE(mg_thread_create(&thread, mg_nodes(), twice, NULL), MG_ENODE);
    CODE(mg_thread_create(&thread, -2, twice, NULL), MG_ENODE);
    CODE(mg_thread_join(12345, NULL), MG_EINVAL);
    CODE(mg_thread_join(UINT64_MAX, &result), MG_EINVAL);
    for (int node = 0; node < mg_nodes(); node++) {
        OK(mg_thread_create(&thread, node, twice, (void *)21));
        OK(mg_thread_join(thread, &result));
        CHECK((uintptr_t)result == 42);
        CODE(mg_thread_join(thread, &result), MG_EINVAL);
        OK(mg_thread_create(&thread, node, twice, NULL));
        OK(mg_thread_join(thread, NULL));
    }
}

/* A program built for fewer counters, or for more, gets those that both know. */
static void statistics(void)
{
    struct {
        struct mg_stats known;
        uint64_t later;
    } stats;

    CODE(mg_get_stats(NULL, sizeof stats), MG_EINVAL);
    CODE(mg_get_stats(&stats.known, 0), MG_EINVAL);
    CODE(mg_get_stats(&stats.known, 7), MG_EINVAL);
    memset(&stats, 0xff, sizeof stats);
    OK(mg_get_stats(&stats.known, sizeof stats.known.read_faults));
    CHECK(stats.known.read_faults != UINT64_MAX && stats.known.write_faults == UINT64_MAX);
    OK(mg_get_stats(&stats.known, sizeof stats));
    CHECK(stats.known.racing_faults != UINT64_MAX && stats.later == 0);
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    if (mg_node() == 0) {
        statistics();
        sizes();
        elements();
        frees();
        names();
        hints();
        synchronization();
        threads();
        CHECK(mg_last_error() == MG_EINVAL); /* of the last failure, whatever came after it */
    }
    OK(mg_finalize());
    return 0;
}
