/*
 * water.h - the molecules of water.c and the physics of one molecule and of a pair.
 *
 * Units: nm, ps, atomic mass units, hence kJ/mol. Water with flexible bonds after SPC: springs
 * between the three atoms, charges on all three, Lennard-Jones between the oxygens.
 */
#ifndef APPS_WATER_H
#define APPS_WATER_H

#include "app.h"

enum { ATOMS = 3, DIMS = 3, ORDER = 6 }; /* atom 0 is the oxygen */

typedef double atoms[ATOMS][DIMS];

/* 672 bytes: a minipage. taylor[n] holds the n-th time derivative of the positions * dt^n / n!. */
struct molecule {
    atoms taylor[ORDER + 1];
    atoms force;
    atoms start; /* the positions at the start, unwrapped, for the distance travelled */
    double shift[DIMS]; /* how far the box's edges have moved the molecule in all */
};
_Static_assert(sizeof(struct molecule) == 672, "a molecule has 672 bytes");

/* What all workers know alike. */
struct box {
    long molecules;
    double length; /* edge of the periodic cube */
    double cutoff; /* between oxygens; half the edge at most */
    double dt;     /* ps */
};

struct box make_box(long molecules);
/* Molecule i on a cubic lattice, turned and set in motion at random. */
void place_molecule(const struct box *box, struct molecule *m, long i);

/* The two halves of Gear's predictor-corrector; correct uses m->force. */
void predict(struct molecule *m);
void correct(const struct box *box, struct molecule *m);
/* Back into the box, as a whole. */
void wrap(const struct box *box, struct molecule *m);
double kinetic_energy(const struct box *box, const struct molecule *m);

/* Sets `force` to that of the springs inside the molecule; returns their energy. */
double spring_force(const struct molecule *m, atoms force);
/*
 * Adds to `on_a` and `on_b` what the molecules do to each other, or nothing beyond the cutoff;
 * the energy goes to *energy (added). Returns whether they are within the cutoff.
 */
bool pair_force(const struct box *box, const atoms a, const atoms b, atoms on_a, atoms on_b,
                double *energy);

#endif
