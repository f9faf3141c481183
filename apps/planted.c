/*
 * planted.c - faults for the sanitizers to find, and the same without fault, for they must not cry
 * wolf: shared memory under a lock, behind a barrier, freed and used again; a race, an overflow.
 *   planted right | race | overflow | wild
 */
#include <multigrain.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200, LOCK = 1, BARRIER = 2, SEMAPHORE = 3 };

static long *counter;
static long **published;
static int racing;

static void *count(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        if (!racing)
            mg_lock(LOCK);
        ++*counter;
        if (!racing)
            mg_unlock(LOCK);
    }
    return NULL;
}

/* Takes what the other thread of the node hands over, and gives it back to the allocator. */
static void *consume(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        mg_sem_wait(SEMAPHORE + 2 * mg_node());
        **published += 1;
        mg_free(*published);
        mg_sem_post(SEMAPHORE + 2 * mg_node() + 1, 1);
    }
    return NULL;
}

static void produce(void)
{
    mg_thread other;

    published = calloc(1, sizeof *published);
    mg_thread_create(&other, mg_node(), consume, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        *published = mg_malloc(64);
        **published = i;
        mg_sem_post(SEMAPHORE + 2 * mg_node(), 1);
        mg_sem_wait(SEMAPHORE + 2 * mg_node() + 1);
    }
    mg_thread_join(other, NULL);
    free(published);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "right";
    mg_thread other;

    if (mg_init(&argc, &argv) != MG_OK)
        return 1;
    racing = strcmp(what, "race") == 0;
    if (mg_node() == 0)
        mg_publish("counter", mg_calloc(1, sizeof *counter));
    counter = mg_lookup("counter");
    mg_thread_create(&other, mg_node(), count, NULL);
    count(NULL);
    mg_thread_join(other, NULL);
    mg_barrier(BARRIER, (uint32_t)mg_nodes());
    if (strcmp(what, "right") == 0)
        produce();
    if (strcmp(what, "overflow") == 0) {
        size_t room = strlen(what);
        volatile char *private = malloc(room);

        private[room] = 1;
    }
    if (strcmp(what, "wild") == 0)
        *(volatile long *)((char *)counter + (1L << 38)) = 1;
    if (!racing && mg_node() == 0 && *counter != 2L * ROUNDS * mg_nodes())
        return 1;
    puts("planted: done");
    return mg_finalize();
}
