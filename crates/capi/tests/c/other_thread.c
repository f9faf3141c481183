/*
 * mg_init in another thread than main's, as a program does whose language has a thread of its own for such. All threads
 * are the node's. argv[1]: who calls mg_finalize, "main", "other", or "exit" for nobody.
 */
#include "check.h"

#include <pthread.h>

static void add(uint64_t *sum)
{
    OK(mg_lock(1));
    *sum += 1;
    OK(mg_unlock(1));
}

static void *other(void *unused)
{
    OK(mg_init(NULL, NULL));
    add(SHARE("sum", 0, mg_calloc(1, sizeof(uint64_t))));
    (void)unused;
    return NULL;
}

static void *ends(void *unused)
{
    OK(mg_barrier(0, 0));
    OK(mg_finalize());
    (void)unused;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    uint64_t *sum;

    CHECK(argc == 2);
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0 && pthread_join(thread, NULL) == 0);
    sum = mg_lookup("sum");
    add(sum);
    OK(mg_barrier(0, 0));
    CHECK(*sum == 2 * (uint64_t)mg_nodes());
    if (strcmp(argv[1], "other") == 0)
        CHECK(pthread_create(&thread, NULL, ends, NULL) == 0 && pthread_join(thread, NULL) == 0);
    if (strcmp(argv[1], "main") == 0) {
        OK(mg_barrier(0, 0));
        OK(mg_finalize());
    }
    return 0;
}
