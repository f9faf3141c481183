/* A signal's handler posts a semaphore every so often, wherever it has interrupted the program: in calls that have locks, too. */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define ROUNDS 1500
#define SEMAPHORE 60

static long *count;
static volatile sig_atomic_t posts;

static void post(int signal)
{
    (void)signal;
    if (mg_sem_post(SEMAPHORE, 1) == 0)
        posts++;
}

static void *work(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        OK(mg_lock(7));
        ++*count;
        OK(mg_unlock(7));
        char *block = MUST(mg_malloc((size_t)(100 + round)));
        block[round] = 1;
        OK(mg_free(block));
    }
    return unused;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = post, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    struct timespec deadline;
    int64_t all;
    pthread_t other;

    OK(mg_init(&argc, &argv));
    count = SHARE("count", 0, mg_calloc(1, sizeof *count));
    OK(mg_barrier(0, 0));
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    CHECK(pthread_create(&other, NULL, work, NULL) == 0);
    work(NULL);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    all = posts;
    OK(mg_allreduce(1, 0, (uint32_t)mg_node(), &all, &all, 1, MG_INT64, MG_SUM));
    CHECK(*count == 2L * ROUNDS * mg_nodes());
    if (mg_node() == 0) {
        for (int64_t i = 0; i < all; i++)
            OK(mg_sem_wait(SEMAPHORE));
        CHECK(clock_gettime(CLOCK_REALTIME, &deadline) == 0);
        deadline.tv_nsec += 100000000 * (deadline.tv_nsec < 800000000);
        CODE(mg_sem_timedwait(SEMAPHORE, &deadline), MG_ETIMEDOUT);
    }
    OK(mg_finalize());
    return 0;
}
