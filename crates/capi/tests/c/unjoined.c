/* A thread that nobody joins wakes up and leaves writes while its node's main is in mg_finalize: what lets the other
   node go waits for these, and goes before this one does. */
#include "check.h"

#include <pthread.h>

static volatile long *words, *block;

static void *writes_late(void *arg)
{
    words[1]++;
    OK(mg_sem_wait(2));
    words[1]++;
    return arg;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    words = SHARE("words", 0, mg_calloc(1, 8000));
    block = SHARE("block", 1, mg_calloc(1, 80000));
    OK(mg_barrier(1, 0));
    if (mg_node() == 0) {
        words[0]++;
        usleep(10000);
        OK(mg_sem_post(2, 1));
        for (int i = 0; i < 10000; i += 100)
            block[i]++;
    } else {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, writes_late, NULL) == 0);
        for (int i = 50; i < 10000; i += 100)
            block[i]++;
    }
    OK(mg_finalize());
    return 0;
}
