/* Write locks of pages: what a node does to locked pages no other node sees in part. */
#include "check.h"

#include <pthread.h>

#define PAGE 4096
#define ROUNDS 100

static long *words;

/* Ends with pages locked. */
static void *leaves_them(void *unused)
{
    (void)unused;
    OK(mg_write_lock(words, 2 * PAGE));
    OK(mg_write_lock(words, PAGE));
    return NULL;
}

/* Additions that are no atomics. */
static void add(long *word)
{
    const long before = *(volatile long *)word;

    for (volatile int i = 0; i < 20000; i++)
        ;
    *(volatile long *)word = before + 1;
}

static void refused(int me)
{
    long private_word, *lazy, *small = MUST(mg_malloc(64));

    CODE(mg_write_unlock(words, PAGE), MG_EPERM);
    CODE(mg_write_lock(&private_word, sizeof private_word), MG_ENOTSHARED);
    CODE(mg_write_lock(words, 3 * PAGE + 1), MG_EINVAL);
    lazy = MUST(mg_malloc_with(PAGE, 0, MG_LAZY_RELEASE));
    CODE(mg_write_lock(lazy, PAGE), MG_EINVAL);
    OK(mg_write_lock(small, 64));
    OK(mg_write_unlock(small, 64));
    CODE(mg_write_unlock(small, 64), MG_EPERM);
    if (me == mg_nodes() - 1) {
        long *read_only;

        OK(mg_segment_create("read", PAGE, 0600, NULL));
        read_only = MUST(mg_segment_attach("read", MG_SEGMENT_READ_ONLY));
        CODE(mg_write_lock(read_only, PAGE), MG_EACCES);
        OK(mg_segment_detach(read_only));
        CODE(mg_write_lock(read_only, PAGE), MG_EACCES);
        OK(mg_segment_remove("read"));
    }
    OK(mg_barrier(0, 0));
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int me, nodes;

    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    if (me == 0)
        OK(mg_segment_create("locked", 3 * PAGE, 0600, NULL));
    words = MUST(mg_segment_attach("locked", MG_SEGMENT_WAIT));
    OK(mg_barrier(0, 0));
    refused(me);
    for (int round = 0; round < ROUNDS; round++) {
        OK(mg_barrier(0, 0)); /* all at once */
        OK(mg_write_lock(words, 3 * PAGE));
        OK(mg_write_lock(words + 1, 8));
        for (int page = 0; page < 3; page++)
            add(&words[page * PAGE / (int)sizeof(long)]);
        OK(mg_write_unlock(words, 8));
        CHECK(words[0] == words[PAGE / sizeof(long)] && words[0] == words[2 * PAGE / sizeof(long)]);
        OK(mg_write_unlock(words, 3 * PAGE));
    }
    OK(mg_barrier(0, 0));
    CHECK(words[0] == (long)ROUNDS * nodes);
    OK(mg_barrier(0, 0));

    CHECK(pthread_create(&thread, NULL, leaves_them, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    for (int node = 0; node < nodes; node++) {
        if (me == node)
            words[7] = me;
        OK(mg_barrier(0, 0));
        CHECK(words[7] == node);
        OK(mg_barrier(0, 0));
    }

    /* Who leaves with a lock keeps nothing. */
    if (me == nodes - 1)
        OK(mg_write_lock(words, PAGE));
    else
        words[0] = me;
    OK(mg_finalize());
    return 0;
}
