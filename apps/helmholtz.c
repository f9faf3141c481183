/*
 * helmholtz.c - the Helmholtz equation u_xx + u_yy - alpha u = f on the square from -1 to 1, u = 0
 * at its edge, by Jacobi iteration with relaxation: the sample jacobi of OpenMP's site, and a program
 * of ParADE's (section 5.3).
 *
 * Shared: u, a copy of it as it was, and f, plain blocks of doubles, row after row. A worker owns
 * consecutive rows of all three. An iteration copies u; after a barrier every worker makes its rows
 * of u from those of the copy, of which it reads one row on either side; the squares of what was
 * wrong are added up by all, and it ends where they are few enough.
 *
 * u = (1 - x^2) (1 - y^2) is the solution that f is made for. The differences are exact for it, so
 * all that separates u from it is what the iteration has not taken away yet.
 */
#include "app.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double ALPHA = 0.05;

static long rows = 1000, columns = 1000, iterations = 100, relax_percent = 80, tolerance_log10 = 12;
static double dx, dy;                 /* the mesh's width */
static double beside, across, middle; /* the weights of the five points */
static double relaxation;

struct mesh {
    double *u, *old, *f;
    bool shared;
};

struct outcome {
    long iterations;
    double residual;
};

static struct mesh shared = {.shared = true};
static struct outcome reached; /* by worker 0 */

static const struct app_option options[] = {
    {"rows", "rows of the mesh", &rows, 3, 65536},
    {"cols", "columns of the mesh", &columns, 3, 65536},
    {"iterations", "iterations at most", &iterations, 1, 1000000},
    {"relax", "relaxation, percent", &relax_percent, 1, 100},
    {"tolerance", "ends at a residual of 10^-N", &tolerance_log10, 1, 300},
    {0},
};

static const struct app app = {
    .name = "helmholtz",
    .about = "Helmholtz's equation by Jacobi iteration with relaxation",
    .options = options,
    .paper = {"1000x1000 matrix", "32 MB", "-", "-", "-", "-"},
};

/* 1 - x^2 at a place between 0 and `last`, which are the edge. */
static double hump(double width, long place)
{
    double x = -1 + width * (double)place;

    return 1 - x * x;
}

static double solution(long i, long j)
{
    return hump(dy, i) * hump(dx, j);
}

static void init_rows(const struct mesh *m, struct span own)
{
    for (long i = own.begin; i < own.end; i++)
        for (long j = 0; j < columns; j++) {
            m->u[i * columns + j] = 0;
            m->f[i * columns + j] =
                -ALPHA * solution(i, j) - 2 * hump(dx, j) - 2 * hump(dy, i);
        }
}

/* One row of u from the copy; the sum of the squares of what was wrong there. */
static double relax_row(const struct mesh *m, long i)
{
    const double *level = m->old + i * columns;
    const double *above = level - columns, *below = level + columns;
    const double *f = m->f + i * columns;
    double *restrict out = m->u + i * columns;
    double squares = 0;

    for (long j = 1; j < columns - 1; j++) {
        double wrong = (across * (above[j] + below[j]) + beside * (level[j - 1] + level[j + 1]) +
                        middle * level[j] - f[j]) /
                       middle;

        out[j] = level[j] - relaxation * wrong;
        squares += wrong * wrong;
    }
    return squares;
}

/* Alone nobody is waited for, and what one has found is the sum. */
static void wait_for_all(const struct mesh *m)
{
    if (m->shared)
        shm_barrier();
}

static double sum_of_all(const struct mesh *m, int worker, double part)
{
    if (m->shared)
        shm_sum(worker, &part, 1);
    return part;
}

static struct outcome solve(const struct mesh *m, int worker, struct span own, long most,
                            double tolerance)
{
    struct outcome now = {0, INFINITY};
    long begin = own.begin > 1 ? own.begin : 1;
    long end = own.end < rows - 1 ? own.end : rows - 1;
    size_t own_bytes = (size_t)((own.end - own.begin) * columns) * sizeof(double);

    while (now.iterations < most && now.residual > tolerance) {
        double squares = 0;

        memcpy(m->old + own.begin * columns, m->u + own.begin * columns, own_bytes);
        wait_for_all(m);
        for (long i = begin; i < end; i++)
            squares += relax_row(m, i);
        now.residual = sqrt(sum_of_all(m, worker, squares)) / (double)(rows * columns);
        now.iterations++;
        if (m->shared && worker == 0)
            shm_progress((uint64_t)now.iterations, (uint64_t)most);
    }
    return now;
}

static void work(int worker)
{
    struct span own = span_of(rows, worker, shm_workers());
    struct outcome outcome;

    init_rows(&shared, own);
    bench_start(worker);
    outcome = solve(&shared, worker, own, iterations, pow(10, -(double)tolerance_log10));
    bench_stop(worker);
    if (worker == 0)
        reached = outcome;
}

static double distance_from_solution(const double *u)
{
    double squares = 0;

    for (long i = 0; i < rows; i++)
        for (long j = 0; j < columns; j++) {
            double apart = u[i * columns + j] - solution(i, j);

            squares += apart * apart;
        }
    return sqrt(squares);
}

/*
 * The error is multiplied by a symmetric matrix in each iteration, whose eigenvalues are known: the
 * largest says how far the error must be down.
 */
static void check_solution(const double *nothing)
{
    const double pi = acos(-1);
    double sides = 2 *
                   (beside * cos(pi / (double)(columns - 1)) +
                    across * cos(pi / (double)(rows - 1))) /
                   -middle;
    double kept = fmax(fabs(1 - relaxation + relaxation * sides),
                       fabs(1 - relaxation - relaxation * sides));
    double at_first = distance_from_solution(nothing), at_last = distance_from_solution(shared.u);
    double most = at_first * (pow(kept, (double)reached.iterations) + 1e-9);

    if (!(at_last <= most))
        check_failed("the error is %.6g after %ld iterations, and %.6g at most was to be left",
                     at_last, reached.iterations, most);
    app_figure("error", at_last / (double)(rows * columns));
}

/* The same iterations by one thread in private memory: u to the last bit. */
static void check(void)
{
    size_t bytes = (size_t)(rows * columns) * sizeof(double);
    struct mesh alone = {private_alloc(bytes), private_alloc(bytes), private_alloc(bytes), false};
    struct span all = {0, rows};
    struct outcome expected;

    init_rows(&alone, all);
    check_solution(alone.u);
    expected = solve(&alone, 0, all, reached.iterations, 0);
    for (long k = 0; k < rows * columns; k++)
        if (memcmp(&shared.u[k], &alone.u[k], sizeof(double)) != 0)
            check_failed("row %ld, column %ld is %.17g, sequentially %.17g", k / columns,
                         k % columns, shared.u[k], alone.u[k]);
    if (!(fabs(reached.residual - expected.residual) <= 1e-9 * expected.residual))
        check_failed("the residual is %.15g, sequentially %.15g", reached.residual,
                     expected.residual);
    free(alone.u);
    free(alone.old);
    free(alone.f);
}

int main(int argc, char **argv)
{
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    dx = 2 / (double)(columns - 1);
    dy = 2 / (double)(rows - 1);
    beside = 1 / (dx * dx);
    across = 1 / (dy * dy);
    middle = -2 * (beside + across) - ALPHA;
    relaxation = (double)relax_percent / 100;
    bytes = (size_t)(rows * columns) * sizeof(double);
    shared.u = shm_plain("helmholtz.u", bytes);
    shared.old = shm_plain("helmholtz.old", bytes);
    shared.f = shm_plain("helmholtz.f", bytes);
    shm_run(work);
    if (check_wanted())
        check();
    if (shm_node() == 0) {
        app_figure("iterations", (double)reached.iterations);
        app_figure("residual", reached.residual);
    }
    snprintf(input, sizeof input, "%ldx%ld doubles, %ld iterations", rows, columns,
             reached.iterations);
    return app_finish(input, "default", 3 * bytes);
}
