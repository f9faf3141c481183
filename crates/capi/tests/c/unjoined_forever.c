/* Threads that nobody joins write for ever, each node's own word of one page, or all one word under a lock, while main calls
   exit(0): the first argument is 1 for the lock. */
#include "check.h"

#include <pthread.h>

static volatile long *words;
static int locked;

static void *writes(void *word)
{
    for (;;) {
        /* Refused once this node has left. */
        if (locked && mg_lock(77) != 0)
            return word;
        ++*(volatile long *)word;
        if (locked && mg_unlock(77) != 0)
            return word;
        usleep(100);
    }
    return word;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    locked = argv[1][0] == '1';
    words = SHARE("words", 0, mg_calloc(64, 4096));
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        volatile long *word = locked ? words : words + 8 * mg_node() + i;
        CHECK(pthread_create(&thread, NULL, writes, (void *)word) == 0);
    }
    OK(mg_barrier(1, 0));
    usleep(20000);
    exit(0);
}
