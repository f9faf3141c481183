/*
 * tsp.c - the travelling salesperson by branch and bound (Millipage, section 4.3; TreadMarks' TSP).
 *
 * A queue holds partial tours, most promising first. A worker takes one under the queue's lock: it
 * lengthens the best by every possible city and queues the results, until the best one has no more
 * than --level cities to go; that one it solves alone, by recursion. The queue is empty under the
 * lock only when all is done, for what is taken for solving is never queued again.
 *
 * The length of the best tour is read without a lock (the paper's one data race; here a relaxed
 * atomic, so that it is no race to the compiler): a stale length only prunes less. It is written
 * under a lock, checked again there, and pushed to every node.
 */
#include "tsp.h"

#include <stdio.h>
#include <stdlib.h>

static long count_option = 19, level = 12, seed = 130;
static struct tour **tours; /* this node's table of the shared tours */
static struct pool *pool;
static struct best *best;

static const struct app_option options[] = {
    {"cities", "cities", &count_option, 4, MAX_CITIES},
    {"level", "tours with so many cities to go are solved by recursion", &level, 1, MAX_CITIES},
    {"seed", "chooses the cities", &seed, 0, 1L << 30},
    {0},
};

static const struct app app = {
    .name = "tsp",
    .about = "the travelling salesperson by branch and bound",
    .options = options,
    .paper = {"19 cities, recursion level 12", "785 KB", "27", "a tour, 148 bytes", "3", "681"},
};

static int32_t best_length(void)
{
    return atomic_load_explicit(&best->length, memory_order_relaxed);
}

static void offer(const struct tour *t, int32_t length)
{
    shm_lock(BEST_LOCK);
    if (length < best_length()) {
        for (int i = 0; i < cities; i++)
            best->city[i] = t->city[i];
        atomic_store_explicit(&best->length, length, memory_order_relaxed);
        shm_push(best, sizeof *best);
    }
    shm_unlock(BEST_LOCK);
}

/* ---- Solving one tour, in private memory --------------------------------------------------------- */

/* `steps` = the least steps out of the last city and out of each one not visited. */
static void solve(struct tour *t, int32_t steps)
{
    uint32_t rest = ~t->visited & ((1u << cities) - 1);
    int32_t last = t->last, length = t->length;

    if (rest == 0) {
        if (length + distance[last][0] < best_length())
            offer(t, length + distance[last][0]);
        return;
    }
    for (; rest != 0; rest &= rest - 1) {
        int next = __builtin_ctz(rest);
        int32_t longer = length + distance[last][next];

        if (longer + steps - least_step[last] >= best_length())
            continue;
        t->city[t->count++] = next;
        t->visited |= 1u << next;
        t->last = next;
        t->length = longer;
        solve(t, steps - least_step[last]);
        t->count--;
        t->visited &= ~(1u << next);
        t->last = last;
        t->length = length;
    }
}

static void solve_tour(const struct tour *shared)
{
    struct tour t = *shared;
    int32_t steps = least_step[t.last];

    for (int i = 0; i < cities; i++)
        if (!(t.visited >> i & 1))
            steps += least_step[i];
    solve(&t, steps);
}

/* ---- The queue, with QUEUE_LOCK held ------------------------------------------------------------- */

/* Queues every tour that goes one city further than `parent` and may still be the best. */
static void expand(const struct tour *parent)
{
    uint32_t rest = ~parent->visited & ((1u << cities) - 1);
    int32_t tree = spanning_tree(rest | 1u); /* the way on and home is one */

    for (uint32_t left = rest; left != 0; left &= left - 1) {
        int next = __builtin_ctz(left);
        int32_t length = parent->length + distance[parent->last][next];
        int32_t bound = length + tree, child;

        if (bound >= best_length())
            continue;
        child = pool_take(pool);
        *tours[child] = *parent;
        tours[child]->city[parent->count] = next;
        tours[child]->count = parent->count + 1;
        tours[child]->last = next;
        tours[child]->visited = parent->visited | 1u << next;
        tours[child]->length = length;
        tours[child]->bound = bound;
        pool_enqueue(pool, child, tours[child]);
    }
}

/* A tour to solve, which is then the caller's alone; -1 when there is none left. */
static int32_t next_tour(void)
{
    int32_t i;

    while ((i = pool_dequeue(pool)) >= 0) {
        const struct tour *t = tours[i];
        int to_go = cities - t->count;

        if (t->bound < best_length()) {
            /* Without room to split it, a long one is solved as it is. */
            if (to_go <= level || pool->free_count < to_go)
                return i;
            expand(t);
        }
        pool_give(pool, i);
    }
    return -1;
}

/* ---- Workers ------------------------------------------------------------------------------------ */

static void init_shared(void)
{
    int32_t root;

    pool_init(pool);
    root = pool_take(pool);
    *tours[root] = (struct tour){.count = 1, .visited = 1, .bound = 0};
    pool_enqueue(pool, root, tours[root]);
    best->length = INT32_MAX;
}

static void work(int worker)
{
    uint64_t solved = 0, queued;
    int32_t mine;

    if (worker == 0)
        init_shared();
    shm_barrier();
    bench_start(worker);
    shm_lock(QUEUE_LOCK);
    while ((mine = next_tour()) >= 0) {
        queued = (uint64_t)pool->queued;
        shm_unlock(QUEUE_LOCK);
        solve_tour(tours[mine]);
        if (worker == 0)
            shm_progress(solved + 1, solved + 1 + queued);
        solved++;
        shm_lock(QUEUE_LOCK);
        pool_give(pool, mine);
    }
    shm_unlock(QUEUE_LOCK);
    shm_barrier();
    bench_stop(worker);
}

/* The tour must visit every city once, be as long as it says, and as short as the exact answer. */
static void check(void)
{
    int32_t length = 0, shortest = shortest_tour();
    uint32_t visited = 0;

    for (int i = 0; i < cities; i++) {
        int32_t from = best->city[i], to = best->city[(i + 1) % cities];

        if (from < 0 || from >= cities || (visited >> from & 1) || to < 0 || to >= cities) {
            check_failed("stop %d, city %d: not a tour", i, from);
            return;
        }
        visited |= 1u << from;
        length += distance[from][to];
    }
    if (length != best->length)
        check_failed("the tour is %d long, and says %d", length, best->length);
    if (length != shortest)
        check_failed("the tour is %d long, the shortest is %d", length, shortest);
}

int main(int argc, char **argv)
{
    char input[64];

    app_begin(&app, &argc, &argv);
    make_distances((int)count_option, (uint64_t)seed);
    tours = private_alloc(MAX_TOURS * sizeof *tours);
    shm_array("tsp.tours", MAX_TOURS, sizeof **tours, 1, (void **)tours);
    pool = shm_block("tsp.pool", sizeof *pool, APP_PAGE_BYTES);
    best = shm_block("tsp.best", sizeof *best, APP_PAGE_BYTES);
    shm_run(work);
    if (shm_node() == 0)
        printf("shortest tour: %d\n", best->length);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "%d cities, recursion level %ld", cities, level);
    return app_finish(input, "a tour, 148 bytes",
                      MAX_TOURS * sizeof **tours + sizeof *pool + sizeof *best);
}
