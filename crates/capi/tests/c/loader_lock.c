/* A thread of node 1 touches shared memory in a callback of dl_iterate_phdr, which has the loader's lock, while node 0 starts threads
   there: what receives the starts may not wait for that lock, or the page never comes. */
#include "check.h"

#include <link.h>

static volatile long *word, *over;

static int look(struct dl_phdr_info *info, size_t bytes, void *sum)
{
    (void)info, (void)bytes;
    *(long *)sum += *word;
    return 1;
}

static void *looks(void *arg)
{
    long sum = 0;

    while (!*over)
        dl_iterate_phdr(look, &sum);
    return arg;
}

static void *writes(void *arg)
{
    while (!*over) {
        ++*word;
        usleep(100);
    }
    return arg;
}

static void *waits(void *arg)
{
    OK(mg_sem_wait(7));
    return arg;
}

static void *nothing(void *arg)
{
    return arg;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    word = SHARE("word", 0, mg_malloc(4096));
    over = SHARE("over", 0, mg_calloc(1, 4096));
    OK(mg_barrier(1, 0));
    if (mg_node() == 0) {
        mg_thread waiter, looker, writer, one;
        void *result;

        OK(mg_thread_create(&waiter, 1, waits, NULL));
        OK(mg_thread_create(&looker, 1, looks, NULL));
        OK(mg_thread_create(&writer, 0, writes, NULL));
        for (int i = 0; i < 500; i++) {
            OK(mg_thread_create(&one, 1, nothing, NULL));
            OK(mg_thread_join(one, &result));
        }
        *over = 1;
        OK(mg_sem_post(7, 1));
        OK(mg_thread_join(waiter, &result));
        OK(mg_thread_join(looker, &result));
        OK(mg_thread_join(writer, &result));
    }
    OK(mg_finalize());
    return 0;
}
