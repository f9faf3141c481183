/*
 * tree.c - bodies that attract each other, by a tree (Barnes and Hut): far groups of bodies count as
 * one.
 *
 * Shared, all plain blocks: the bodies; of each worker a pool of cells; of each worker how far out
 * its bodies are. A lock a cell. Worker w owns consecutive bodies.
 *
 * A step, a barrier after each part: everybody inserts its bodies into one tree, holding the lock of
 * one cell at a time; everybody sums up mass and centre of some subtrees two levels down, then worker
 * 0 of what is above; everybody finds the forces on its bodies; everybody moves its bodies.
 *
 * The tree's shape, and the order of every sum, depends on the bodies alone and not on who inserted
 * them when: so the result is that of one worker, bit by bit.
 */
#include "tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_POOL = 64, PROBES = 8 };

static long bodies = 2048, steps = 3;
static struct universe ours;

static const double theta = 0.7, softening = 1e-3, time_step = 5e-3;

static const struct app_option options[] = {
    {"bodies", "bodies", &bodies, 2, 1L << 24},
    {"steps", "time steps", &steps, 1, 1000000},
    {0},
};

static const struct app app = {
    .name = "tree",
    .about = "bodies that attract each other, by a tree with a lock a cell",
    .options = options,
};

/* Two clouds that fall into each other. */
static void init_bodies(struct universe *u, int worker)
{
    struct span own = span_of(bodies, worker, u->workers);
    double extent = 0;

    for (long b = own.begin; b < own.end; b++) {
        struct body *body = &u->bodies[b];

        *body = (struct body){.mass = 1.0 / (double)bodies};
        for (int d = 0; d < DIMENSIONS; d++) {
            uint64_t x = (uint64_t)(b * DIMENSIONS + d) * 2;

            body->at[d] = scramble_unit(x) + scramble_unit(x + 1) - 1 + (b % 2 ? 0.6 : -0.6);
            extent = fmax(extent, fabs(body->at[d]));
        }
    }
    u->extents[worker] = extent;
}

static long pool_cells(int workers)
{
    return bodies / workers > LEAST_POOL ? bodies / workers : LEAST_POOL;
}

/* ---- Forces and motion ----------------------------------------------------------------------------- */

static void attract(double *acceleration, const double *at, const double *other, double mass)
{
    double apart[DIMENSIONS], square = softening, strength;

    for (int d = 0; d < DIMENSIONS; d++) {
        apart[d] = other[d] - at[d];
        square += apart[d] * apart[d];
    }
    strength = mass / (square * sqrt(square));
    for (int d = 0; d < DIMENSIONS; d++)
        acceleration[d] += strength * apart[d];
}

/* Seen under a small angle, a cell with this edge is one body. */
static bool is_far(const double *at, const double *centre, double edge)
{
    double square = 0;

    for (int d = 0; d < DIMENSIONS; d++)
        square += (centre[d] - at[d]) * (centre[d] - at[d]);
    return edge * edge < theta * theta * square;
}

static void attract_by_cell(const struct universe *u, int32_t c, double edge, int32_t b,
                            double *acceleration)
{
    const double *at = u->bodies[b].at;
    const struct cell *cell = cell_at(u, c);

    for (int o = 0; o < CHILDREN; o++) {
        int32_t child = cell->child[o];
        const double *centre;
        double mass;

        if (child == NOTHING || child == ~b)
            continue;
        mass = mass_of(u, child, &centre);
        if (child < 0 || is_far(at, centre, edge / 2))
            attract(acceleration, at, centre, mass);
        else
            attract_by_cell(u, child, edge / 2, b, acceleration);
    }
}

static void find_forces(struct universe *u, int worker, double edge)
{
    struct span own = span_of(bodies, worker, u->workers);

    for (long b = own.begin; b < own.end; b++) {
        double acceleration[DIMENSIONS] = {0};

        attract_by_cell(u, ROOT, edge, (int32_t)b, acceleration);
        memcpy(u->bodies[b].acceleration, acceleration, sizeof acceleration);
    }
}

static void move(struct universe *u, int worker)
{
    struct span own = span_of(bodies, worker, u->workers);
    double extent = 0;

    for (long b = own.begin; b < own.end; b++) {
        struct body *body = &u->bodies[b];

        for (int d = 0; d < DIMENSIONS; d++) {
            body->velocity[d] += time_step * body->acceleration[d];
            body->at[d] += time_step * body->velocity[d];
            extent = fmax(extent, fabs(body->at[d]));
        }
    }
    u->extents[worker] = extent;
}

static void step(struct universe *u, int worker, void (*wait)(void))
{
    struct cube cube = whole(u);
    long used = 0;

    if (worker == 0)
        new_cell(u, worker, &used);
    wait();
    build_tree(u, worker, used, cube);
    wait();
    sum_up_subtrees(u, worker);
    wait();
    if (worker == 0)
        sum_up(u, ROOT, 1);
    wait();
    find_forces(u, worker, 2 * cube.half);
    wait();
    move(u, worker);
    wait();
}

static void work(int worker)
{
    init_bodies(&ours, worker);
    bench_start(worker);
    for (long s = 0; s < steps; s++) {
        step(&ours, worker, shm_barrier);
        if (worker == 0)
            shm_progress((uint64_t)s + 1, (uint64_t)steps);
    }
    bench_stop(worker);
}

/* ---- The check ----------------------------------------------------------------------------------- */

static void nobody_waits(void)
{
}

/* The tree's forces on some bodies are near those of all bodies one by one. */
static void check_forces(const struct universe *u, const struct body *before)
{
    double off = 0, size = 0;

    for (long p = 0; p < PROBES; p++) {
        long b = p * bodies / PROBES;
        double exact[DIMENSIONS] = {0};

        for (long other = 0; other < bodies; other++)
            if (other != b)
                attract(exact, before[b].at, before[other].at, before[other].mass);
        for (int d = 0; d < DIMENSIONS; d++) {
            off += pow(u->bodies[b].acceleration[d] - exact[d], 2);
            size += pow(exact[d], 2);
        }
    }
    if (!(off <= 0.05 * 0.05 * size))
        check_failed("forces are off by %.3g of %.3g", sqrt(off), sqrt(size));
}

/* The same steps by one worker in private memory; every bit must agree. */
static void check(void)
{
    size_t bytes = (size_t)bodies * sizeof(struct body);
    struct cell *cells = private_alloc((size_t)pool_cells(1) * sizeof *cells);
    double extent;
    struct universe alone = {
        .bodies = private_alloc(bytes),
        .count = bodies,
        .pools = &cells,
        .extents = &extent,
        .workers = 1,
        .pool_cells = pool_cells(1),
    };
    struct body *before = private_alloc(bytes);

    init_bodies(&alone, 0);
    memcpy(before, alone.bodies, bytes);
    for (long s = 0; s < steps; s++) {
        step(&alone, 0, nobody_waits);
        if (s == 0)
            check_forces(&alone, before);
    }
    for (long b = 0; b < bodies; b++)
        if (memcmp(&ours.bodies[b], &alone.bodies[b], sizeof(struct body)) != 0)
            check_failed("body %ld is at %.17g %.17g %.17g, sequentially %.17g %.17g %.17g", b,
                         ours.bodies[b].at[0], ours.bodies[b].at[1], ours.bodies[b].at[2],
                         alone.bodies[b].at[0], alone.bodies[b].at[1], alone.bodies[b].at[2]);
    free(before);
    free(alone.bodies);
    free(cells);
}

int main(int argc, char **argv)
{
    char input[64], name[32];
    size_t pool_bytes, bytes;
    int workers;

    app_begin(&app, &argc, &argv);
    workers = shm_workers();
    bytes = (size_t)bodies * sizeof(struct body);
    ours = (struct universe){
        .count = bodies, .workers = workers, .pool_cells = pool_cells(workers), .shared = true};
    pool_bytes = (size_t)ours.pool_cells * sizeof(struct cell);
    ours.bodies = shm_plain("tree.bodies", bytes);
    ours.extents = shm_plain("tree.extents", (size_t)workers * sizeof *ours.extents);
    ours.pools = private_alloc((size_t)workers * sizeof *ours.pools);
    for (int w = 0; w < workers; w++) {
        snprintf(name, sizeof name, "tree.cells.%d", w);
        ours.pools[w] = shm_plain(name, pool_bytes);
    }
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "%ld bodies, %ld steps", bodies, steps);
    return app_finish(input, "default", bytes + (size_t)workers * pool_bytes);
}
