/* Timers of a program that is linked statically: those that send signals work, those that start threads are refused. */
#include "check.h"

#include <signal.h>
#include <time.h>

static volatile sig_atomic_t ticks;

static void tick(int number)
{
    (void)number;
    ticks++;
}

static void never(union sigval value)
{
    (void)value;
}

static void works(struct sigevent *event)
{
    struct itimerspec every = { { 0, 1000000 }, { 0, 1000000 } };
    timer_t id;

    CHECK(timer_create(CLOCK_MONOTONIC, event, &id) == 0);
    CHECK(timer_settime(id, 0, &every, NULL) == 0);
    for (ticks = 0; ticks < 5;)
        usleep(1000);
    CHECK(timer_delete(id) == 0);
}

int main(int argc, char **argv)
{
    struct sigevent sends = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    struct sigevent starts = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = never };
    timer_t id;

    OK(mg_init(&argc, &argv));
    signal(SIGUSR1, tick);
    signal(SIGALRM, tick);
    works(&sends);
    works(NULL);
    CHECK(timer_create(CLOCK_MONOTONIC, &starts, &id) == -1 && errno == ENOTSUP);
    return mg_finalize();
}
