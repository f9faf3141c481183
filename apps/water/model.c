/* model.c - the physics of water.h: one molecule, and a pair of molecules. */
#include "water.h"

#include <math.h>
#include <string.h>

static const double mass[ATOMS] = {15.9994, 1.008, 1.008};
static const double charge[ATOMS] = {-0.82, 0.41, 0.41};

static const double bond_nm = 0.1, hydrogens_nm = 0.1633;
static const double bond_spring = 345000, hydrogens_spring = 90000; /* kJ/mol/nm^2 */
static const double lj_energy = 0.65017, lj_nm = 0.31656;
static const double coulomb = 138.935458; /* kJ/mol nm, two unit charges */
static const double volume_nm3 = 0.0299;  /* of a molecule */

struct box make_box(long molecules)
{
    double length = cbrt((double)molecules * volume_nm3);

    return (struct box){molecules, length, 0.45 * length, 0.0002};
}

void place_molecule(const struct box *box, struct molecule *m, long i)
{
    long side = (long)ceil(cbrt((double)box->molecules) - 1e-9);
    long cell[DIMS] = {i % side, i / side % side, i / side / side};
    double angle = 6.283185307179586 * scramble_unit((uint64_t)(8 * i));
    double half = asin(hydrogens_nm / 2 / bond_nm);

    memset(m, 0, sizeof *m);
    for (int d = 0; d < DIMS; d++) {
        double at = ((double)cell[d] + 0.5) * box->length / (double)side;
        double speed = scramble_unit((uint64_t)(8 * i + 1 + d)) - 0.5; /* nm/ps */

        for (int a = 0; a < ATOMS; a++) {
            m->taylor[0][a][d] = at;
            m->taylor[1][a][d] = speed * box->dt;
        }
    }
    for (int a = 1; a < ATOMS; a++) {
        double turn = angle + (a == 1 ? half : -half);

        /* The plane of the molecule takes one of three directions. */
        m->taylor[0][a][i % 3] += bond_nm * cos(turn);
        m->taylor[0][a][(i + 1) % 3] += bond_nm * sin(turn);
    }
    memcpy(m->start, m->taylor[0], sizeof m->start);
}

/* Taylor's series, one step ahead: with scaled derivatives the factors are Pascal's triangle. */
void predict(struct molecule *m)
{
    for (int low = 0; low < ORDER; low++)
        for (int n = ORDER - 1; n >= low; n--)
            for (int a = 0; a < ATOMS; a++)
                for (int d = 0; d < DIMS; d++)
                    m->taylor[n][a][d] += m->taylor[n + 1][a][d];
}

void correct(const struct box *box, struct molecule *m)
{
    /* Gear's coefficients for seven values and an equation of second order. */
    static const double gear[ORDER + 1] = {
        863.0 / 6048, 665.0 / 1008, 1, 25.0 / 36, 35.0 / 144, 1.0 / 24, 1.0 / 360,
    };

    for (int a = 0; a < ATOMS; a++)
        for (int d = 0; d < DIMS; d++) {
            double half_step2 = 0.5 * box->dt * box->dt;
            double error = half_step2 * m->force[a][d] / mass[a] - m->taylor[2][a][d];

            for (int n = 0; n <= ORDER; n++)
                m->taylor[n][a][d] += gear[n] * error;
        }
}

void wrap(const struct box *box, struct molecule *m)
{
    for (int d = 0; d < DIMS; d++) {
        double move = -box->length * floor(m->taylor[0][0][d] / box->length);

        if (move == 0)
            continue;
        for (int a = 0; a < ATOMS; a++)
            m->taylor[0][a][d] += move;
        m->shift[d] += move;
    }
}

double kinetic_energy(const struct box *box, const struct molecule *m)
{
    double sum = 0;

    for (int a = 0; a < ATOMS; a++)
        for (int d = 0; d < DIMS; d++) {
            double v = m->taylor[1][a][d] / box->dt;

            sum += 0.5 * mass[a] * v * v;
        }
    return sum;
}

static double spring(const atoms at, int a, int b, double rest, double strength, atoms force)
{
    double delta[DIMS], r2 = 0, r, stretch;

    for (int d = 0; d < DIMS; d++) {
        delta[d] = at[a][d] - at[b][d];
        r2 += delta[d] * delta[d];
    }
    r = sqrt(r2);
    stretch = r - rest;
    for (int d = 0; d < DIMS; d++) {
        double pull = -strength * stretch / r * delta[d];

        force[a][d] += pull;
        force[b][d] -= pull;
    }
    return 0.5 * strength * stretch * stretch;
}

double spring_force(const struct molecule *m, atoms force)
{
    const double(*at)[DIMS] = m->taylor[0];

    memset(force, 0, sizeof(atoms));
    return spring(at, 0, 1, bond_nm, bond_spring, force) +
           spring(at, 0, 2, bond_nm, bond_spring, force) +
           spring(at, 1, 2, hydrogens_nm, hydrogens_spring, force);
}

/* Force / distance between two atoms, and their energy. */
static double atom_pair(int a, int b, double r2, double *energy)
{
    double inverse = 1 / sqrt(r2);
    double electric = coulomb * charge[a] * charge[b] * inverse;
    double pull = electric * inverse * inverse;

    *energy += electric;
    if (a == 0 && b == 0) {
        double s2 = lj_nm * lj_nm / r2, s6 = s2 * s2 * s2;

        *energy += 4 * lj_energy * (s6 * s6 - s6);
        pull += 24 * lj_energy * (2 * s6 * s6 - s6) / r2;
    }
    return pull;
}

bool pair_force(const struct box *box, const atoms a, const atoms b, atoms on_a, atoms on_b,
                double *energy)
{
    double image[DIMS], r2 = 0; /* what brings b to the image nearest to a */

    for (int d = 0; d < DIMS; d++) {
        double delta = a[0][d] - b[0][d];

        image[d] = box->length * rint(delta / box->length);
        r2 += (delta - image[d]) * (delta - image[d]);
    }
    if (r2 > box->cutoff * box->cutoff)
        return false;
    for (int i = 0; i < ATOMS; i++)
        for (int j = 0; j < ATOMS; j++) {
            double delta[DIMS], pull, q2 = 0;

            for (int d = 0; d < DIMS; d++) {
                delta[d] = a[i][d] - b[j][d] - image[d];
                q2 += delta[d] * delta[d];
            }
            pull = atom_pair(i, j, q2, energy);
            for (int d = 0; d < DIMS; d++) {
                on_a[i][d] += pull * delta[d];
                on_b[j][d] -= pull * delta[d];
            }
        }
    return true;
}
