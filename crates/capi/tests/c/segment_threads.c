/* Threads of all nodes create, attach, touch, detach and remove the same few segments, in whatever order it comes. */
#include "check.h"

#include <pthread.h>
#include <stdbool.h>

#define PAGE 4096
#define THREADS 3
#define TURNS 200

static int me;

static unsigned next(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 8;
}

static void use(const char *name, bool writes, long turn)
{
    volatile long *words = mg_segment_attach(name, writes ? 0 : MG_SEGMENT_READ_ONLY);
    struct mg_segment_info stat;

    if (words == NULL) {
        CHECK(mg_last_error() == MG_ENOENT);
        return;
    }
    if (writes) {
        __atomic_fetch_add(&words[0], 1, __ATOMIC_SEQ_CST);
        words[PAGE / sizeof *words - 1] = turn;
    }
    CHECK(words[0] >= 0 && words[PAGE / sizeof *words - 1] < TURNS);
    OK(mg_segment_stat_at((const void *)words, &stat, sizeof stat));
    CHECK(stat.attached >= 1 && stat.access >= (writes ? 2 : 1));
    OK(mg_segment_detach((const void *)words));
}

static void *work(void *arg)
{
    unsigned state = (unsigned)(uintptr_t)arg * 77777u + (unsigned)me * 131u + 1;

    for (long turn = 0; turn < TURNS; turn++) {
        char name[16];
        int code;

        snprintf(name, sizeof name, "segment %u", next(&state) % 3);
        switch (next(&state) % 4) {
        case 0:
            code = mg_segment_create(name, (1 + next(&state) % 20) * PAGE, 0600, NULL);
            CHECK(code == MG_OK || code == MG_EEXIST);
            break;
        case 1:
            code = mg_segment_remove(name);
            CHECK(code == MG_OK || code == MG_ENOENT);
            break;
        default:
            use(name, next(&state) % 3 > 0, turn);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];

    OK(mg_init(&argc, &argv));
    me = mg_node();
    OK(mg_barrier(0, 0));
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(mg_barrier(0, 0));
    OK(mg_finalize());
    return 0;
}
