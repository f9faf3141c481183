/*
 * Two nodes write a page in turn, each its own word. Between two writes of a node lies nothing but the kind of
 * synchronization that the argument names: no trap is one that lazy release would have avoided.
 */
#include "check.h"

static volatile int *words;

/* Until the other node has written: this one has lost the page. Without synchronizing. */
static void await_loss(uint64_t losses)
{
    while (stats_now().invalidations == losses)
        usleep(1000);
}

static void in_turn_by_semaphores(void)
{
    int me = mg_node();

    if (me == 0)
        OK(mg_sem_post(10, 1));
    for (int round = 0; round < 20; round++) {
        OK(mg_sem_wait(10 + (uint32_t)me));
        words[me] = round;
        OK(mg_sem_post(11 - (uint32_t)me, 1));
    }
}

/* Node 0 writes before it releases and after; node 1 writes meanwhile, told by the release. */
static void before_and_after(int (*take)(uint32_t), int (*release)(uint32_t))
{
    uint64_t losses;

    if (mg_node() == 0)
        OK(take(1));
    OK(mg_barrier(1, 0));
    if (mg_node() == 0) {
        words[0] = 1;
        losses = stats_now().invalidations;
        OK(release(1));
        await_loss(losses);
        words[0] = 2;
    } else {
        OK(take(1));
        words[1] = 1;
        OK(release(1));
    }
}

/* Node 0 writes, and again when it is signalled, before it does anything else. */
static void by_a_condition(void)
{
    if (mg_node() == 0) {
        OK(mg_lock(1));
        OK(mg_barrier(1, 0));
        words[0] = 1;
        OK(mg_cond_wait(1, 1));
        words[0] = 2;
        OK(mg_unlock(1));
    } else {
        OK(mg_barrier(1, 0));
        OK(mg_lock(1)); /* node 0 waits for the signal now */
        words[1] = 1;
        OK(mg_cond_signal(1));
        OK(mg_unlock(1));
    }
}

static void *write_own(void *word)
{
    *(volatile int *)word = 1;
    return NULL;
}

static void by_a_join(void)
{
    mg_thread thread;

    if (mg_node() != 0)
        return;
    words[0] = 1;
    OK(mg_thread_create(&thread, 1, write_own, (void *)&words[1]));
    OK(mg_thread_join(thread, NULL));
    words[0] = 2;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    CHECK(argc == 2 && mg_nodes() == 2);
    words = SHARE("words", 0, mg_calloc(2, sizeof *words));
    OK(mg_barrier(1, 0));
    if (mg_node() == 1)
        words[1] = 0;
    OK(mg_barrier(1, 0));
    if (strcmp(argv[1], "semaphore") == 0)
        in_turn_by_semaphores();
    else if (strcmp(argv[1], "unlock") == 0)
        before_and_after(mg_lock, mg_unlock);
    else if (strcmp(argv[1], "rwlock") == 0)
        before_and_after(mg_rwlock_wrlock, mg_rwlock_unlock);
    else if (strcmp(argv[1], "condition") == 0)
        by_a_condition();
    else
        by_a_join();
    return mg_finalize();
}
