/*
 * Threads of node 1 start threads on node 0 and join them, while other threads of node 0 release and
 * acquire: a joined thread's writes are seen. Nothing else orders them. What one thread is about to
 * tell a node may not count as told to another before it is sent.
 */
#include "check.h"

#include <pthread.h>

#define PAGES 24
#define PAGE 4096
#define STARTERS 8
#define RELEASERS 2
#define ROUNDS 60

static unsigned char *pages;
static volatile int done;

static unsigned char value(long round, long slot, int page)
{
    return (unsigned char)(round * 31 + slot * 7 + page * 3 + 1);
}

/* The byte of this slot in every page holds this round's value. */
static void look(long round, long slot)
{
    int stale = 0;

    for (int p = 0; p < PAGES; p++)
        stale += pages[p * PAGE + slot] != value(round, slot, p);
    if (stale)
        FAIL("round %ld, slot %ld: stale bytes in %d of %d pages", round, slot, stale, PAGES);
}

static void *begin(void *arg)
{
    long round = (long)arg >> 16, slot = (long)arg & 0xffff;

    for (int p = 0; p < PAGES; p++)
        pages[p * PAGE + slot] = value(round, slot, p);
    return arg;
}

static void *start_and_join(void *arg)
{
    long slot = (long)arg;

    for (long round = 1; round <= ROUNDS; round++) {
        mg_thread thread;

        OK(mg_thread_create(&thread, 0, begin, (void *)(round << 16 | slot)));
        OK(mg_thread_join(thread, NULL));
        look(round, slot);
    }
    return NULL;
}

static void *release_and_acquire(void *arg)
{
    while (!done) {
        OK(mg_lock(50 + (uint32_t)(long)arg));
        OK(mg_unlock(50 + (uint32_t)(long)arg));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t starters[STARTERS], releasers[RELEASERS];
    int me;

    OK(mg_init(&argc, &argv));
    me = mg_node();
    pages = SHARE("pages", 0, mg_malloc(PAGES * PAGE));
    if (me == 0)
        memset(pages, 0, PAGES * PAGE);
    OK(mg_barrier(0, 0));
    if (me == 1) {
        for (long i = 0; i < STARTERS; i++)
            OK(pthread_create(&starters[i], NULL, start_and_join, (void *)i));
        for (int i = 0; i < STARTERS; i++)
            OK(pthread_join(starters[i], NULL));
        OK(mg_barrier(1, 2));
    } else {
        for (long i = 0; i < RELEASERS; i++)
            OK(pthread_create(&releasers[i], NULL, release_and_acquire, (void *)(2 * i)));
        OK(mg_barrier(1, 2));
        done = 1;
        for (int i = 0; i < RELEASERS; i++)
            OK(pthread_join(releasers[i], NULL));
    }
    return mg_finalize();
}
