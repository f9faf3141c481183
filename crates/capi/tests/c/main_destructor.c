/*
 * Main ends by pthread_exit, and destructors of its thread-specific data use the library, as those of any other
 * thread may: they allocate, lock, and write what another thread waits for.
 */
#include "check.h"

#include <pthread.h>

enum { LOCK = 3, WRITTEN = 4, BLOCKS = 1000 };

static pthread_key_t key;

static void writes(void *value)
{
    void *blocks[BLOCKS];
    void *shared;

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = MUST(mg_malloc(16 + i));
    shared = MUST(mg_realloc(blocks[0], 1 << 20));
    for (int i = 1; i < BLOCKS; i++)
        OK(mg_free(blocks[i]));
    OK(mg_free(shared));
    OK(mg_lock(LOCK));
    *(long *)value += 7;
    OK(mg_unlock(LOCK));
    OK(mg_sem_post(WRITTEN, 1));
}

static void *reads(void *value)
{
    for (int i = 0; i < mg_nodes(); i++)
        OK(mg_sem_wait(WRITTEN));
    OK(mg_lock(LOCK));
    CHECK(*(long *)value == 7 * mg_nodes());
    OK(mg_unlock(LOCK));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    long *sum;

    OK(mg_init(&argc, &argv));
    CHECK(pthread_key_create(&key, writes) == 0);
    sum = SHARE("sum", 0, mg_calloc(1, sizeof *sum));
    CHECK(pthread_setspecific(key, sum) == 0);
    if (mg_node() == 0)
        CHECK(pthread_create(&thread, NULL, reads, sum) == 0);
    OK(mg_barrier(1, 0));
    pthread_exit(NULL);
}
