/*
 * A handler of SIGTERM, installed while an access waits that has found the signal ignored and does not block it, posts a semaphore.
 * The nodes write to one minipage in turn; another thread of each installs the handler, sends the signal, and has it ignored again.
 */
#include "check.h"

#include <pthread.h>
#include <signal.h>

#define POSTS 2000
/* Another node's: the post is sent there. */
#define SEMAPHORE (61 + (uint32_t)mg_node())

static volatile long *words;
static long posts;
static int done;
static pthread_t main_thread;

static void post(int signal)
{
    (void)signal;
    if (mg_sem_post(SEMAPHORE, 1) == 0)
        __atomic_fetch_add(&posts, 1, __ATOMIC_SEQ_CST);
}

static void *interrupt(void *unused)
{
    while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) {
        CHECK(signal(SIGTERM, post) != SIG_ERR);
        CHECK(pthread_kill(main_thread, SIGTERM) == 0);
        usleep(10);
        CHECK(signal(SIGTERM, SIG_IGN) != SIG_ERR);
        usleep(10);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t other;
    long all, rounds = 0;

    OK(mg_init(&argc, &argv));
    words = SHARE("words", 0, mg_calloc((size_t)mg_nodes(), sizeof *words));
    OK(mg_barrier(0, 0));
    main_thread = pthread_self();
    CHECK(signal(SIGTERM, SIG_IGN) != SIG_ERR);
    CHECK(pthread_create(&other, NULL, interrupt, NULL) == 0);
    for (; __atomic_load_n(&posts, __ATOMIC_SEQ_CST) < POSTS; rounds++)
        words[mg_node()]++;
    __atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(words[mg_node()] == rounds);
    all = __atomic_load_n(&posts, __ATOMIC_SEQ_CST);
    for (long i = 0; i < all; i++)
        OK(mg_sem_wait(SEMAPHORE));
    OK(mg_finalize());
    return 0;
}
