/* Threads call mg_init at once: one joins. */
#include "check.h"

#include <pthread.h>

#define THREADS 4

static pthread_barrier_t together;

static void *join(void *joined)
{
    int result;

    pthread_barrier_wait(&together);
    result = mg_init(NULL, NULL);
    CHECK(result == MG_OK || result == MG_EAGAIN);
    __atomic_fetch_add((int *)joined, result == MG_OK, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    int joined = 0;

    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, join, &joined) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(joined == 1);
    OK(mg_barrier(1, 0));
    return mg_finalize();
}
