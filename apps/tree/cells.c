/* cells.c - the tree: how it is built by all, and the mass and centre of its cells. */
#include "tree.h"

#include <math.h>

enum { MAX_DEPTH = 60 };

struct cube whole(const struct universe *u)
{
    double half = 0;

    for (int w = 0; w < u->workers; w++)
        half = fmax(half, u->extents[w]);
    return (struct cube){.half = half};
}

/* In which octant of a cube a point lies, and that octant. */
static int octant(const double *at, const struct cube *cube)
{
    int o = 0;

    for (int d = 0; d < DIMENSIONS; d++)
        o |= (at[d] >= cube->middle[d]) << d;
    return o;
}

static struct cube part(const struct cube *cube, int o)
{
    struct cube inner = {.half = cube->half / 2};

    for (int d = 0; d < DIMENSIONS; d++)
        inner.middle[d] = cube->middle[d] + (o >> d & 1 ? inner.half : -inner.half);
    return inner;
}

/* ---- Building the tree --------------------------------------------------------------------------- */

static void lock(const struct universe *u, int32_t c)
{
    if (u->shared)
        shm_lock((uint32_t)c % SHM_LOCKS);
}

static void unlock(const struct universe *u, int32_t c)
{
    if (u->shared)
        shm_unlock((uint32_t)c % SHM_LOCKS);
}

int32_t new_cell(struct universe *u, int worker, long *used)
{
    int32_t c = (int32_t)(worker * u->pool_cells + *used);

    if (*used == u->pool_cells)
        die("worker %d needs more than %ld cells", worker, u->pool_cells);
    ++*used;
    *cell_at(u, c) = (struct cell){0};
    return c;
}

static void insert(struct universe *u, int worker, long *used, int32_t b, struct cube cube)
{
    const double *at = u->bodies[b].at;
    int32_t c = ROOT;

    for (int depth = 0; depth < MAX_DEPTH; depth++) {
        int o = octant(at, &cube);
        struct cube inner = part(&cube, o);
        int32_t child;

        lock(u, c);
        child = cell_at(u, c)->child[o];
        if (child == NOTHING) {
            cell_at(u, c)->child[o] = ~b;
            unlock(u, c);
            return;
        }
        if (child < 0) { /* a body: both go into a cell of their own */
            int32_t between = new_cell(u, worker, used);

            cell_at(u, between)->child[octant(u->bodies[~child].at, &inner)] = child;
            child = cell_at(u, c)->child[o] = between;
        }
        unlock(u, c);
        c = child;
        cube = inner;
    }
    die("bodies at the same place: %d and another", b);
}

void build_tree(struct universe *u, int worker, long used, struct cube cube)
{
    struct span own = span_of(u->count, worker, u->workers);

    for (long b = own.begin; b < own.end; b++)
        insert(u, worker, &used, (int32_t)b, cube);
}

/* ---- Mass and centre of cells -------------------------------------------------------------------- */

double mass_of(const struct universe *u, int32_t child, const double **at)
{
    if (child < 0) {
        *at = u->bodies[~child].at;
        return u->bodies[~child].mass;
    }
    *at = cell_at(u, child)->centre;
    return cell_at(u, child)->mass;
}

void sum_up(struct universe *u, int32_t c, int levels)
{
    struct cell *cell = cell_at(u, c);
    double centre[DIMENSIONS] = {0}, mass = 0;

    for (int o = 0; o < CHILDREN; o++) {
        const double *at;
        double part_mass;

        if (cell->child[o] == NOTHING)
            continue;
        if (cell->child[o] > 0 && levels > 0)
            sum_up(u, cell->child[o], levels - 1);
        part_mass = mass_of(u, cell->child[o], &at);
        mass += part_mass;
        for (int d = 0; d < DIMENSIONS; d++)
            centre[d] += part_mass * at[d];
    }
    for (int d = 0; d < DIMENSIONS; d++)
        cell->centre[d] = centre[d] / mass;
    cell->mass = mass;
}

void sum_up_subtrees(struct universe *u, int worker)
{
    for (int i = worker; i < CHILDREN * CHILDREN; i += u->workers) {
        int32_t upper = cell_at(u, ROOT)->child[i / CHILDREN];
        int32_t c = upper > 0 ? cell_at(u, upper)->child[i % CHILDREN] : NOTHING;

        if (c > 0)
            sum_up(u, c, MAX_DEPTH);
    }
}
