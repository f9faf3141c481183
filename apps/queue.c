/*
 * queue.c - a queue of tasks under one lock: the bag of tasks of many parallel programs, with tasks
 * so short that little but the lock is measured.
 *
 * Shared: the queue (a plain block), which is the number of the next task and the tasks; lock 0.
 * Worker 0 fills it; then every worker takes the next task until there is none. A task is a number,
 * and working on it is scrambling it --work times; a worker adds up its results in private.
 *
 * The sum over all workers says that each task was done once. Who did how many, and how long each
 * waited for the lock, is printed: a lock that stays where it is makes a fast and useless queue.
 */
#include "contention.h"

#include <stdio.h>

static long tasks = 20000, rounds = 16;

static struct queue {
    uint64_t next, count;
    uint64_t task[];
} *queue;

static const struct app_option options[] = {
    {"tasks", "tasks in the queue", &tasks, 1, 1 << 24},
    {"work", "rounds of work a task", &rounds, 0, 1L << 30},
    {0},
};

static const struct app app = {
    .name = "queue",
    .about = "tasks from one queue under one lock",
    .options = options,
};

static uint64_t task_number(long i)
{
    return scramble((uint64_t)i);
}

static uint64_t work_on(uint64_t task)
{
    for (long r = 0; r < rounds; r++)
        task = scramble(task);
    return task;
}

static void fill(void)
{
    for (long i = 0; i < tasks; i++)
        queue->task[i] = task_number(i);
    queue->next = 0;
    queue->count = (uint64_t)tasks;
}

/* False if there is none any more. */
static bool take(uint64_t *task, double *waited_us)
{
    double asked_ms = now_ms();
    bool some;

    shm_lock(0);
    *waited_us = (now_ms() - asked_ms) * 1e3;
    some = queue->next < queue->count;
    if (some)
        *task = queue->task[queue->next++];
    shm_unlock(0);
    return some;
}

static void work(int worker)
{
    struct share mine = {0};
    double waited_us;
    uint64_t task;

    if (worker == 0)
        fill();
    bench_start(worker);
    while (take(&task, &waited_us)) {
        share_add(&mine, waited_us);
        mine.sum += work_on(task);
    }
    bench_stop(worker);
    share_report(worker, &mine);
    shm_barrier();
}

static void check(void)
{
    uint64_t had = 0, sum = 0, expected = 0;

    for (int w = 0; w < shm_workers(); w++) {
        had += share_of(w)->had;
        sum += share_of(w)->sum;
    }
    for (long i = 0; i < tasks; i++)
        expected += work_on(task_number(i));
    if (had != (uint64_t)tasks || sum != expected)
        check_failed("%llu tasks done, of %ld; their results add up to %#llx, sequentially %#llx",
                     (unsigned long long)had, tasks, (unsigned long long)sum,
                     (unsigned long long)expected);
}

int main(int argc, char **argv)
{
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    bytes = sizeof *queue + (size_t)tasks * sizeof queue->task[0];
    queue = shm_plain("queue", bytes);
    shares_begin();
    shm_run(work);
    if (check_wanted())
        check();
    if (shm_node() == 0) {
        shares_print("tasks");
        app_figure("task_us", bench_ms() * 1e3 / (double)tasks);
    }
    snprintf(input, sizeof input, "%ld tasks, %ld rounds each", tasks, rounds);
    return app_finish(input, "default", bytes);
}
