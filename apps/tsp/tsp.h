/*
 * tsp.h - the data of the travelling salesperson program.
 *
 * Shared, each at its own grain: the tours, 148 bytes apiece, one minipage each (27 views); the
 * pool of tours (queue and free list), in pages; the best tour found so far, in a page of its own,
 * because its length is read all the time and without a lock.
 * Private: the distances, which every node computes from the seed.
 */
#ifndef APPS_TSP_H
#define APPS_TSP_H

#include "app.h"

#include <stdatomic.h>

enum {
    MAX_CITIES = 20,   /* what the check's table of subsets allows */
    TOUR_CITIES = 32,  /* room in a tour; makes the 148 bytes of the paper's TourElement */
    MAX_TOURS = 5000,
    QUEUE_LOCK = 0,
    BEST_LOCK = 1,
};

/* A path from city 0 that visits `count` cities so far. */
struct tour {
    int32_t city[TOUR_CITIES];
    int32_t count;
    int32_t last;
    uint32_t visited; /* a bit per city */
    int32_t length;
    int32_t bound; /* no complete tour that begins so is shorter */
};
_Static_assert(sizeof(struct tour) == 148, "a TourElement has 148 bytes");

struct entry {
    int32_t bound;
    int32_t count;
    int32_t tour;
};

/* Guarded by QUEUE_LOCK. */
struct pool {
    int32_t queued;
    int32_t free_count;
    struct entry queue[MAX_TOURS]; /* a heap: least bound first, then most cities */
    int32_t free_tours[MAX_TOURS];
};

/* Written under BEST_LOCK, the length last; the length is read anywhere. */
struct best {
    _Atomic int32_t length;
    int32_t city[TOUR_CITIES];
};

/* distances.c */
extern int cities;
extern int32_t distance[MAX_CITIES][MAX_CITIES];
extern int32_t least_step[MAX_CITIES]; /* to the nearest other city */
void make_distances(int count, uint64_t seed);
/* The least weight of a tree over the cities in the set; a path through them is one. */
int32_t spanning_tree(uint32_t set);
/* The length of the shortest tour, by dynamic programming over all subsets (Held and Karp). */
int32_t shortest_tour(void);

/* pool.c: all but pool_init are called with QUEUE_LOCK held. */
void pool_init(struct pool *pool);
int32_t pool_take(struct pool *pool); /* a free tour, or -1 */
void pool_give(struct pool *pool, int32_t tour);
void pool_enqueue(struct pool *pool, int32_t tour, const struct tour *t);
int32_t pool_dequeue(struct pool *pool); /* the most promising tour, or -1 */

#endif
