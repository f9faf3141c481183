/*
 * Shared memory is touched when this node has left: by "main" after mg_finalize, by a handler of "atexit"
 * after main has returned, by another "thread"; or "beside": by one that goes on while the process ends well.
 */
#include "check.h"

#include <pthread.h>

static volatile unsigned *words;
static const char *who;

static void touch(const char *one)
{
    if (strcmp(who, one) == 0) {
        words[mg_nodes() > 0 ? 0 : 1 << 14]++;
        puts("went on");
        fflush(stdout);
    }
}

static void at_exit(void)
{
    touch("atexit");
}

static void *in_thread(void *argument)
{
    touch("thread");
    return argument;
}

static void *on_and_on(void *argument)
{
    for (;;)
        __atomic_fetch_add((unsigned *)words, 1, __ATOMIC_SEQ_CST);
    return argument;
}

/* Runs after the library's own handler: it was there before. */
__attribute__((constructor)) static void before(void)
{
    atexit(at_exit);
}

int main(int argc, char **argv)
{
    pthread_t thread;

    who = argv[1];
    OK(mg_init(&argc, &argv));
    words = SHARE("words", 0, mg_calloc(1 << 15, sizeof *words));
    OK(mg_barrier(0, 0));
    if (strcmp(who, "beside") == 0) {
        unsigned before = *words;

        CHECK(pthread_create(&thread, NULL, on_and_on, NULL) == 0);
        while (*words == before)
            ;
        return 0;
    }
    if (strcmp(who, "atexit") == 0)
        return 0;
    OK(mg_finalize());
    touch("main");
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
