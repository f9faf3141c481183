/* pool.c - the queue of unfinished tours, most promising first, and the list of free ones. */
#include "tsp.h"

void pool_init(struct pool *pool)
{
    pool->queued = 0;
    pool->free_count = 0;
    for (int32_t i = MAX_TOURS - 1; i >= 0; i--)
        pool_give(pool, i);
}

int32_t pool_take(struct pool *pool)
{
    return pool->free_count > 0 ? pool->free_tours[--pool->free_count] : -1;
}

void pool_give(struct pool *pool, int32_t tour)
{
    pool->free_tours[pool->free_count++] = tour;
}

static bool comes_before(const struct entry *a, const struct entry *b)
{
    return a->bound != b->bound ? a->bound < b->bound : a->count > b->count;
}

void pool_enqueue(struct pool *pool, int32_t tour, const struct tour *t)
{
    struct entry entry = {t->bound, t->count, tour};
    int32_t at = pool->queued++;

    while (at > 0 && comes_before(&entry, &pool->queue[(at - 1) / 2])) {
        pool->queue[at] = pool->queue[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    pool->queue[at] = entry;
}

int32_t pool_dequeue(struct pool *pool)
{
    int32_t top, at = 0;
    struct entry last;

    if (pool->queued == 0)
        return -1;
    top = pool->queue[0].tour;
    last = pool->queue[--pool->queued];
    for (int32_t child = 1; child < pool->queued; child = 2 * at + 1) {
        if (child + 1 < pool->queued &&
            comes_before(&pool->queue[child + 1], &pool->queue[child]))
            child++;
        if (!comes_before(&pool->queue[child], &last))
            break;
        pool->queue[at] = pool->queue[child];
        at = child;
    }
    pool->queue[at] = last;
    return top;
}
