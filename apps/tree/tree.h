/* tree.h - bodies, and the tree of cells that they are in. */
#ifndef APPS_TREE_H
#define APPS_TREE_H

#include "app.h"

enum { DIMENSIONS = 3, CHILDREN = 8 };

/* What a cell has in an octant: nothing, body number ~ref, or cell number ref. The root is no child. */
enum { NOTHING = 0, ROOT = 0 };

struct body {
    double at[DIMENSIONS], velocity[DIMENSIONS], acceleration[DIMENSIONS];
    double mass;
};

struct cell {
    double centre[DIMENSIONS]; /* of its mass */
    double mass;
    int32_t child[CHILDREN];
};

/* The cube of a cell: its middle, and half the length of its edge. */
struct cube {
    double middle[DIMENSIONS], half;
};

/* The shared data, or those of the check. */
struct universe {
    struct body *bodies;
    long count;
    struct cell **pools; /* of each worker; cell c is cell c mod pool_cells of pool c / pool_cells */
    double *extents;     /* of each worker: the largest coordinate of its bodies */
    int workers;
    long pool_cells;
    bool shared; /* with others, so that locks are needed */
};

static inline struct cell *cell_at(const struct universe *u, int32_t c)
{
    return &u->pools[c / u->pool_cells][c % u->pool_cells];
}

/* The smallest cube around the origin that all bodies are in. */
struct cube whole(const struct universe *u);

/* An empty cell of a worker's pool, of which `used` are taken. */
int32_t new_cell(struct universe *u, int worker, long *used);
/* Inserts a worker's bodies into the tree, of which the root is there. */
void build_tree(struct universe *u, int worker, long used, struct cube cube);

/* Mass and place of what a cell has in an octant. */
double mass_of(const struct universe *u, int32_t child, const double **at);
/* This worker's share of the 64 cells two levels below the root, with all that is in them. */
void sum_up_subtrees(struct universe *u, int worker);
/* Sums up a cell whose cells, down to `levels` below it, are not summed up yet. */
void sum_up(struct universe *u, int32_t c, int levels);

#endif
