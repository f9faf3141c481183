/*
 * water.c - molecular dynamics of water, every molecule with every other: after SPLASH-2's
 * Water-nsquared (Millipage, sections 4.3 and 4.4).
 *
 * Shared: the molecules, 672 bytes each, each a minipage of its own (6 views), or --chunk c of them
 * in one; and two pages with the energies of the steps. Private: each worker's sums of forces.
 *
 * A worker owns a block of molecules. It alone predicts and corrects them; of every pair (i, i + k),
 * k up to half the number of molecules, it computes those whose i is its own. It sums the forces in
 * private and then adds them, molecule by molecule under the molecule's lock. Every phase of a step
 * ends with a barrier: predict, intra-molecular forces, inter-molecular forces, add them, correct,
 * wrap, kinetic energy, potential energy, take stock: 9 a step. The first step starts from zero
 * accelerations, as no forces are computed before it.
 *
 * Forces are added in the order in which locks are won, so two runs differ in the last bits; the
 * check allows a relative difference of 1e-6.
 */
#include "water.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 200, ENERGY_LOCK = 0, FIRST_MOLECULE_LOCK = 1 };

static long molecules = 512, steps = 3, chunk = 1;
static struct box box;

/* Of one step; shared, and added to under ENERGY_LOCK. */
struct energy {
    double springs, pairs, kinetic;
};

/* One system of molecules: the shared one, or the private one of the check. */
struct system {
    struct molecule **molecule;
    struct energy *energy; /* per step */
};
static struct system shared;

static const struct app_option options[] = {
    {"molecules", "molecules", &molecules, 2, SHM_LOCKS - FIRST_MOLECULE_LOCK},
    {"steps", "time steps", &steps, 1, MAX_STEPS},
    {"chunk", "chunking level: molecules per minipage", &chunk, 1, 64},
    {0},
};

static const struct app app = {
    .name = "water",
    .about = "molecular dynamics of water, n-squared",
    .options = options,
    .paper = {"512 molecules", "336 KB", "6", "a molecule, 672 bytes", "29", "6720"},
};

/* The check runs the same phases alone, so barriers and locks are for the shared system only. */
struct worker {
    const struct system *system;
    struct span own;
    atoms *force;  /* private sums, per molecule */
    bool *touched; /* force[j] holds something */
    bool alone;
};

static void phase_ends(const struct worker *w)
{
    if (!w->alone)
        shm_barrier();
}

static void lock(const struct worker *w, uint32_t id)
{
    if (!w->alone)
        shm_lock(id);
}

static void unlock(const struct worker *w, uint32_t id)
{
    if (!w->alone)
        shm_unlock(id);
}

/* ---- The phases --------------------------------------------------------------------------------- */

static void add_energy(const struct worker *w, double *shared_sum, double own_sum)
{
    lock(w, ENERGY_LOCK);
    *shared_sum += own_sum;
    unlock(w, ENERGY_LOCK);
}

/* All pairs whose first molecule is the worker's own; returns their energy. */
static double all_pairs(struct worker *w, bool keep_forces)
{
    struct molecule **m = w->system->molecule;
    atoms ignored_a, ignored_b;
    double energy = 0;

    memset(ignored_a, 0, sizeof ignored_a);
    memset(ignored_b, 0, sizeof ignored_b);
    for (long i = w->own.begin; i < w->own.end; i++) {
        /* With an even number, the pair of opposites is counted from its lower half only. */
        long last = molecules % 2 == 0 && i >= molecules / 2 ? molecules / 2 - 1 : molecules / 2;

        for (long k = 1; k <= last; k++) {
            long j = (i + k) % molecules;
            double(*on_i)[DIMS] = keep_forces ? w->force[i] : ignored_a;
            double(*on_j)[DIMS] = keep_forces ? w->force[j] : ignored_b;

            if (pair_force(&box, m[i]->taylor[0], m[j]->taylor[0], on_i, on_j, &energy) &&
                keep_forces)
                w->touched[i] = w->touched[j] = true;
        }
    }
    return energy;
}

/* Begins with the own molecules, so that the workers do not queue for the same locks. */
static void add_forces(struct worker *w)
{
    for (long k = 0; k < molecules; k++) {
        long j = (w->own.begin + k) % molecules;
        double(*sum)[DIMS] = w->system->molecule[j]->force;

        if (!w->touched[j])
            continue;
        lock(w, FIRST_MOLECULE_LOCK + (uint32_t)j);
        for (int a = 0; a < ATOMS; a++)
            for (int d = 0; d < DIMS; d++)
                sum[a][d] += w->force[j][a][d];
        unlock(w, FIRST_MOLECULE_LOCK + (uint32_t)j);
    }
    memset(w->force, 0, (size_t)molecules * sizeof *w->force);
    memset(w->touched, 0, (size_t)molecules * sizeof *w->touched);
}

static void step(struct worker *w, long s)
{
    struct molecule **m = w->system->molecule;
    struct energy *energy = &w->system->energy[s];
    struct span own = w->own;
    double springs = 0, kinetic = 0;

    for (long i = own.begin; i < own.end; i++)
        predict(m[i]);
    phase_ends(w);
    for (long i = own.begin; i < own.end; i++)
        springs += spring_force(m[i], m[i]->force);
    phase_ends(w);
    all_pairs(w, true);
    phase_ends(w);
    add_forces(w);
    phase_ends(w);
    for (long i = own.begin; i < own.end; i++)
        correct(&box, m[i]);
    phase_ends(w);
    for (long i = own.begin; i < own.end; i++)
        wrap(&box, m[i]);
    phase_ends(w);
    for (long i = own.begin; i < own.end; i++)
        kinetic += kinetic_energy(&box, m[i]);
    add_energy(w, &energy->kinetic, kinetic);
    phase_ends(w);
    add_energy(w, &energy->pairs, all_pairs(w, false));
    phase_ends(w);
    add_energy(w, &energy->springs, springs);
    phase_ends(w);
}

/* ---- Workers ------------------------------------------------------------------------------------ */

static struct worker make_worker(const struct system *system, int worker, int workers, bool alone)
{
    return (struct worker){
        .system = system,
        .own = span_of(molecules, worker, workers),
        .force = private_alloc((size_t)molecules * sizeof(atoms)),
        .touched = private_alloc((size_t)molecules * sizeof(bool)),
        .alone = alone,
    };
}

static void free_worker(struct worker *w)
{
    free(w->force);
    free(w->touched);
}

static void work(int worker)
{
    struct worker w = make_worker(&shared, worker, shm_workers(), false);

    for (long i = w.own.begin; i < w.own.end; i++)
        place_molecule(&box, shared.molecule[i], i);
    bench_start(worker);
    for (long s = 0; s < steps; s++) {
        step(&w, s);
        if (worker == 0)
            shm_progress((uint64_t)s + 1, (uint64_t)steps);
    }
    bench_stop(worker);
    free_worker(&w);
}

/* ---- The check ----------------------------------------------------------------------------------- */

static bool differ(double a, double b, double scale)
{
    return !(fabs(a - b) <= 1e-6 * scale);
}

static void compare_energy(long s, const struct energy *got, const struct energy *want)
{
    double scale = fabs(want->springs) + fabs(want->pairs) + fabs(want->kinetic);

    if (differ(got->springs, want->springs, scale) || differ(got->pairs, want->pairs, scale) ||
        differ(got->kinetic, want->kinetic, scale))
        check_failed("energies of step %ld: %.9g %.9g %.9g, sequentially %.9g %.9g %.9g", s,
                     got->springs, got->pairs, got->kinetic, want->springs, want->pairs,
                     want->kinetic);
}

/* Positions relative to the box; velocities relative to 1 nm/ps; a molecule at an edge may have
 * been wrapped in one run only, so positions are compared unwrapped. */
static void compare_molecule(long i, const struct molecule *got, const struct molecule *want)
{
    for (int a = 0; a < ATOMS; a++)
        for (int d = 0; d < DIMS; d++) {
            double got_at = got->taylor[0][a][d] - got->shift[d];
            double want_at = want->taylor[0][a][d] - want->shift[d];

            if (differ(got_at, want_at, box.length))
                check_failed("molecule %ld, atom %d is at %.12g, sequentially %.12g", i, a, got_at,
                             want_at);
            if (differ(got->taylor[1][a][d], want->taylor[1][a][d], box.dt))
                check_failed("molecule %ld, atom %d: speed %.12g, sequentially %.12g", i, a,
                             got->taylor[1][a][d] / box.dt, want->taylor[1][a][d] / box.dt);
        }
}

/* The same steps by one worker in private memory. */
static void check(void)
{
    struct molecule *all = private_alloc((size_t)molecules * sizeof *all);
    struct system alone = {
        .molecule = private_alloc((size_t)molecules * sizeof *alone.molecule),
        .energy = private_alloc((size_t)steps * sizeof *alone.energy),
    };
    struct worker w = make_worker(&alone, 0, 1, true);

    for (long i = 0; i < molecules; i++) {
        alone.molecule[i] = &all[i];
        place_molecule(&box, &all[i], i);
    }
    for (long s = 0; s < steps; s++) {
        step(&w, s);
        compare_energy(s, &shared.energy[s], &alone.energy[s]);
    }
    for (long i = 0; i < molecules; i++)
        compare_molecule(i, shared.molecule[i], &all[i]);
    free_worker(&w);
    free(alone.energy);
    free(alone.molecule);
    free(all);
}

static void print_energies(void)
{
    for (long s = 0; s < steps; s += steps > 1 ? steps - 1 : 1) {
        const struct energy *e = &shared.energy[s];

        printf("step %ld: energy in springs %.3f, pairs %.3f, motion %.3f, total %.3f kJ/mol\n", s,
               e->springs, e->pairs, e->kinetic, e->springs + e->pairs + e->kinetic);
    }
}

int main(int argc, char **argv)
{
    char input[64], grain[64];

    app_begin(&app, &argc, &argv);
    box = make_box(molecules);
    shared.molecule = private_alloc((size_t)molecules * sizeof *shared.molecule);
    shm_array("water.molecules", (size_t)molecules, sizeof **shared.molecule, (unsigned)chunk,
              (void **)shared.molecule);
    shared.energy = shm_block("water.energy", MAX_STEPS * sizeof *shared.energy, 2 * APP_PAGE_BYTES);
    shm_run(work);
    if (shm_node() == 0)
        print_energies();
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "%ld molecules, %ld steps", molecules, steps);
    snprintf(grain, sizeof grain, "%ld molecule%s, %zu bytes", chunk, chunk == 1 ? "" : "s",
             (size_t)chunk * sizeof **shared.molecule);
    return app_finish(input, grain, (size_t)molecules * sizeof **shared.molecule);
}
