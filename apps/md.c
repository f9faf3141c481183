/*
 * md.c - molecular dynamics in continuous space: particles that attract each other at a short
 * distance, the potential of a pair is sin^2(min(distance, pi / 2)), moved by the velocity Verlet
 * method. The sample md of OpenMP's site, and a program of ParADE's (section 5.3).
 *
 * Shared: where the particles are, their velocities and their accelerations, plain blocks of three
 * doubles a particle. A worker owns consecutive particles. In a step it moves its own; after a
 * barrier it reads where all are, and sums up the forces on its own; the energies are then added up
 * by all.
 */
#include "app.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIMENSIONS = 3, PARTS = 2 };
enum { POTENTIAL, KINETIC };

typedef double vector[DIMENSIONS];

static const double STEP = 1e-4, BOX = 10, HALF_PI = 1.57079632679489661923;

static long particles = 500, steps = 1000;

/* All masses are 1. */
struct system {
    vector *at, *velocity, *acceleration;
    double (*energies)[PARTS]; /* private: at the beginning and behind each step */
    bool shared;
};

static struct system shared = {.shared = true};

static const struct app_option options[] = {
    {"particles", "particles", &particles, 2, 1000000},
    {"steps", "steps", &steps, 1, 1000000},
    {0},
};

static const struct app app = {
    .name = "md",
    .about = "molecular dynamics, velocity Verlet",
    .options = options,
    .paper = {"1000 iterations", "1 MB", "-", "-", "-", "-"},
};

static void init_particles(const struct system *s, struct span own)
{
    for (long i = own.begin; i < own.end; i++)
        for (int d = 0; d < DIMENSIONS; d++) {
            s->at[i][d] = BOX * scramble_unit((uint64_t)(i * DIMENSIONS + d));
            s->velocity[i][d] = 0;
            s->acceleration[i][d] = 0;
        }
}

static void move(const struct system *s, struct span own)
{
    for (long i = own.begin; i < own.end; i++)
        for (int d = 0; d < DIMENSIONS; d++)
            s->at[i][d] +=
                STEP * s->velocity[i][d] + STEP * STEP / 2 * s->acceleration[i][d];
}

/* The force on one particle; its half of the potential of all its pairs. */
static double force_on(const struct system *s, long i, vector force)
{
    double potential = 0;

    memset(force, 0, sizeof(vector));
    for (long j = 0; j < particles; j++) {
        vector apart;
        double square = 0, distance, near, slope;

        if (j == i)
            continue;
        for (int d = 0; d < DIMENSIONS; d++) {
            apart[d] = s->at[i][d] - s->at[j][d];
            square += apart[d] * apart[d];
        }
        distance = sqrt(square);
        near = distance < HALF_PI ? distance : HALF_PI;
        slope = 2 * sin(near) * cos(near);
        potential += sin(near) * sin(near) / 2;
        for (int d = 0; d < DIMENSIONS; d++)
            force[d] -= slope * apart[d] / distance;
    }
    return potential;
}

/* New accelerations and the velocities that follow; adds to the energies. */
static void accelerate(const struct system *s, struct span own, double *energies)
{
    for (long i = own.begin; i < own.end; i++) {
        vector force;

        energies[POTENTIAL] += force_on(s, i, force);
        for (int d = 0; d < DIMENSIONS; d++) {
            s->velocity[i][d] += STEP / 2 * (s->acceleration[i][d] + force[d]);
            s->acceleration[i][d] = force[d];
            energies[KINETIC] += s->velocity[i][d] * s->velocity[i][d] / 2;
        }
    }
}

/* The forces at the beginning move nothing yet. */
static void begin(const struct system *s, struct span own, double *energies)
{
    for (long i = own.begin; i < own.end; i++)
        energies[POTENTIAL] += force_on(s, i, s->acceleration[i]);
}

static void sum_of_all(const struct system *s, int worker, long step, double *energies)
{
    if (s->shared)
        shm_sum(worker, energies, PARTS);
    if (worker == 0)
        memcpy(s->energies[step], energies, sizeof s->energies[step]);
}

static void simulate(const struct system *s, int worker, struct span own)
{
    double at_first[PARTS] = {0};

    begin(s, own, at_first);
    sum_of_all(s, worker, 0, at_first);
    for (long step = 1; step <= steps; step++) {
        double energies[PARTS] = {0};

        move(s, own);
        if (s->shared)
            shm_barrier();
        accelerate(s, own, energies);
        sum_of_all(s, worker, step, energies);
        if (s->shared && worker == 0)
            shm_progress((uint64_t)step, (uint64_t)steps);
    }
}

static void work(int worker)
{
    struct span own = span_of(particles, worker, shm_workers());

    init_particles(&shared, own);
    bench_start(worker);
    simulate(&shared, worker, own);
    bench_stop(worker);
}

/*
 * What the energy of all changes by is a small part of what becomes kinetic, beside what is lost of a
 * sum of so many potentials.
 */
static void check_conservation(void)
{
    const double *first = shared.energies[0];
    double most = 0, kinetic = 0;

    for (long step = 1; step <= steps; step++) {
        const double *now = shared.energies[step];

        most = fmax(most, fabs(now[POTENTIAL] + now[KINETIC] - first[POTENTIAL]));
        kinetic = fmax(kinetic, now[KINETIC]);
    }
    if (!(most <= 1e-6 * kinetic + 1e-13 * first[POTENTIAL]))
        check_failed("the energy changes by %.3g, where %.3g become kinetic", most, kinetic);
    app_figure("drift", most / first[POTENTIAL]);
}

static void check_energies(const struct system *alone)
{
    static const char *const names[PARTS] = {"potential", "kinetic"};

    for (long step = 0; step <= steps; step++)
        for (int e = 0; e < PARTS; e++) {
            double found = shared.energies[step][e], expected = alone->energies[step][e];

            if (!(fabs(found - expected) <= 1e-9 * expected))
                check_failed("step %ld: the %s energy is %.15g, sequentially %.15g", step,
                             names[e], found, expected);
        }
}

static void compare(const char *what, const vector *found, const vector *expected)
{
    for (long i = 0; i < particles; i++)
        if (memcmp(found[i], expected[i], sizeof(vector)) != 0)
            check_failed("the %s of particle %ld is %.17g %.17g %.17g, sequentially %.17g %.17g "
                         "%.17g",
                         what, i, found[i][0], found[i][1], found[i][2], expected[i][0],
                         expected[i][1], expected[i][2]);
}

/*
 * The same steps by one thread in private memory: the particles to the last bit, the energies, whose
 * sums have another order, to 1e-9.
 */
static void check(void)
{
    size_t bytes = (size_t)particles * sizeof(vector);
    struct system alone = {
        .at = private_alloc(bytes),
        .velocity = private_alloc(bytes),
        .acceleration = private_alloc(bytes),
        .energies = private_alloc((size_t)(steps + 1) * sizeof *alone.energies),
    };
    struct span all = {0, particles};

    init_particles(&alone, all);
    simulate(&alone, 0, all);
    compare("place", shared.at, alone.at);
    compare("velocity", shared.velocity, alone.velocity);
    compare("acceleration", shared.acceleration, alone.acceleration);
    check_energies(&alone);
    check_conservation();
    free(alone.at);
    free(alone.velocity);
    free(alone.acceleration);
    free(alone.energies);
}

int main(int argc, char **argv)
{
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    bytes = (size_t)particles * sizeof(vector);
    shared.at = shm_plain("md.at", bytes);
    shared.velocity = shm_plain("md.velocity", bytes);
    shared.acceleration = shm_plain("md.acceleration", bytes);
    shared.energies = private_alloc((size_t)(steps + 1) * sizeof *shared.energies);
    shm_run(work);
    if (check_wanted())
        check();
    free(shared.energies);
    snprintf(input, sizeof input, "%ld particles, %ld steps", particles, steps);
    return app_finish(input, "default", 3 * bytes);
}
