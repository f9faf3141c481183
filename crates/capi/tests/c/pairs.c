/*
 * Threads of a node that make an item and free it, again and again: they keep it, and no area goes back to be made anew for
 * the next one.
 */
#include "check.h"

#include <pthread.h>

enum { THREADS = 3, ROUNDS = 100, PAIRS = 3000, BYTES = 1000, MOST_MINIPAGES = 400 };

static pthread_barrier_t all;

static void *makes_and_frees(void *unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&all);
        for (int pair = 0; pair < PAIRS; pair++) {
            char *item = MUST(mg_malloc(BYTES));

            item[pair % BYTES] = 1;
            OK(mg_free(item));
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    struct mg_stats stats;

    OK(mg_init(&argc, &argv));
    CHECK(pthread_barrier_init(&all, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, makes_and_frees, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(mg_get_stats(&stats, sizeof stats));
    if (stats.minipages > MOST_MINIPAGES)
        FAIL("%llu minipages for %d items", (unsigned long long)stats.minipages, THREADS);
    OK(mg_finalize());
    return 0;
}
