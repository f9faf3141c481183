/*
 * Every thread makes small items and hands them on to the next one, which writes them and frees them, so that they come
 * back to the node that made them and are made again there: no two writes are unordered, and none is reported.
 */
#include "check.h"

#include <pthread.h>

enum { MOST_THREADS = 64, ROUNDS = 600, WORDS = 6 };

struct item {
    struct item *next;
    long words[WORDS];
};

struct box {
    struct item *first;
    char own_page[4096 - sizeof(struct item *)];
};

static struct box *boxes;
static long threads;

static void *hands_on(void *number)
{
    long mine = (long)number, next = (mine + 1) % threads;

    for (long round = 0; round < ROUNDS; round++) {
        struct item *item = MUST(mg_malloc(sizeof *item));

        for (int i = 0; i < WORDS; i++)
            item->words[i] = mine + i;
        OK(mg_lock_at(&boxes[next]));
        item->next = boxes[next].first;
        boxes[next].first = item;
        OK(mg_unlock_at(&boxes[next]));
        OK(mg_lock_at(&boxes[mine]));
        item = boxes[mine].first;
        boxes[mine].first = NULL;
        OK(mg_unlock_at(&boxes[mine]));
        while (item != NULL) {
            struct item *behind = item->next;

            for (int i = 0; i < WORDS; i++)
                CHECK(item->words[i] == (mine + threads - 1) % threads + i);
            for (int i = 0; i < WORDS; i++)
                item->words[i] = -1;
            item->next = NULL;
            OK(mg_free(item));
            item = behind;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t of_node[MOST_THREADS];

    OK(mg_init(&argc, &argv));
    threads = (long)mg_nodes() * mg_threads();
    boxes = SHARE("boxes", 0, mg_calloc((size_t)threads, sizeof *boxes));
    for (int i = 0; i < mg_threads(); i++)
        CHECK(pthread_create(&of_node[i], NULL, hands_on, (void *)(long)(mg_node() * mg_threads() + i)) == 0);
    for (int i = 0; i < mg_threads(); i++)
        CHECK(pthread_join(of_node[i], NULL) == 0);
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
    OK(mg_finalize());
    return 0;
}
