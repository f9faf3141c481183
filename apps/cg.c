/*
 * cg.c - NAS CG: the least eigenvalue of a large sparse symmetric matrix by inverse iteration, each
 * step of which solves a system by 25 iterations of conjugate gradients. A program of ParADE's
 * (section 5.3).
 *
 * Shared: the matrix, row by row, which worker 0 makes, and five vectors, all plain blocks. A
 * worker owns consecutive rows: it alone writes its part of a vector, and reads all of p (and once
 * of z) to multiply its rows. Dot products are added up by all, which is a barrier as well: an
 * iteration of conjugate gradients has two of them, and a barrier before p is read again.
 *
 * The matrix is NAS's (RNR-94-007, section 2.2.3): the sum of outer products of random sparse
 * vectors, with weights that fall from 1 to 1/10, and to its diagonal a tenth is added, and the shift
 * taken away. As NAS has it, an untimed step comes first: it brings the matrix to where it is used.
 */
#include "app.h"
#include "nas.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SOLVING = 25 };

static const uint64_t SEED = 314159265;
static const double CONDITION = 0.1;

static long rows = 14000, nonzeros = 11, iterations = 15, shift = 20;

struct matrix {
    int64_t *begins; /* of each row, in the two others; and where the last one ends */
    int32_t *columns;
    double *values;
};

struct system {
    struct matrix a;
    double *x, *z, *p, *q, *r;
    bool shared;
};

struct outcome {
    double zeta, residual;
};

/* The random vectors: each has as many elements as `counts` says, in a row of nonzeros + 1. */
struct generators {
    int32_t *counts, *places;
    double *values, *weights;
};

static struct system shared = {.shared = true};
static struct outcome reached; /* by worker 0 */

static const struct app_option options[] = {
    {"rows", "rows (S: 1400, W: 7000, A: 14000)", &rows, 2, 1 << 24},
    {"nonzeros", "of a generating vector (S: 7, W: 8, A: 11)", &nonzeros, 1, 64},
    {"iterations", "steps of inverse iteration (S, W, A: 15)", &iterations, 1, 10000},
    {"shift", "of the eigenvalues (S: 10, W: 12, A: 20)", &shift, 1, 1000},
    {0},
};

static const struct app app = {
    .name = "cg",
    .about = "NAS CG, conjugate gradients with a sparse matrix",
    .options = options,
    .paper = {"class A: 14000 rows", "64 MB", "-", "-", "-", "-"},
};

/* What NAS has published. */
static const struct answer {
    char class;
    long rows, nonzeros, iterations, shift;
    double zeta;
} answers[] = {
    {'S', 1400, 7, 15, 10, 8.5971775078648},
    {'W', 7000, 8, 15, 12, 10.362595087124},
    {'A', 14000, 11, 15, 20, 17.130235054029},
    {'B', 75000, 13, 75, 60, 22.712745482631},
    {'C', 150000, 15, 75, 110, 28.973605592845},
};

enum { ANSWERS = sizeof answers / sizeof *answers };

/* ---- The matrix ------------------------------------------------------------------------------- */

static long most_elements(void)
{
    return rows * (nonzeros + 1) * (nonzeros + 1);
}

static bool holds(const int32_t *places, long count, long place)
{
    for (long e = 0; e < count; e++)
        if (places[e] == place)
            return true;
    return false;
}

/* Places are random in the next power of two; those beyond the rows or taken are passed over. */
static int32_t draw_vector(uint64_t *random, int32_t *places, double *values)
{
    long range = 1;
    int32_t count = 0;

    while (range < rows)
        range *= 2;
    while (count < nonzeros) {
        double value = nas_next(random);
        long place = (long)((double)range * nas_next(random));

        if (place < rows && !holds(places, count, place)) {
            places[count] = (int32_t)place;
            values[count++] = value;
        }
    }
    return count;
}

/* Vector k is 1/2 at place k. */
static int32_t set_half(int32_t *places, double *values, int32_t count, long k)
{
    int32_t e = 0;

    while (e < count && places[e] != k)
        e++;
    places[e] = (int32_t)k;
    values[e] = 0.5;
    return e == count ? count + 1 : count;
}

static struct generators draw_generators(void)
{
    long width = nonzeros + 1;
    size_t n = (size_t)rows, elements = n * (size_t)width;
    struct generators g = {
        .counts = private_alloc(n * sizeof *g.counts),
        .places = private_alloc(elements * sizeof *g.places),
        .values = private_alloc(elements * sizeof *g.values),
        .weights = private_alloc(n * sizeof *g.weights),
    };
    double ratio = pow(CONDITION, 1 / (double)rows), weight = 1;
    uint64_t random = nas_ahead(SEED, 1); /* NAS draws one number for nothing */

    for (long k = 0; k < rows; k++) {
        int32_t *places = g.places + k * width;
        double *values = g.values + k * width;

        g.counts[k] = set_half(places, values, draw_vector(&random, places, values), k);
        g.weights[k] = weight;
        weight *= ratio;
    }
    return g;
}

static void free_generators(struct generators *g)
{
    free(g->counts);
    free(g->places);
    free(g->values);
    free(g->weights);
}

/* For each row the elements of generators that lie in it: numbers into `places`, in order. */
struct members {
    int64_t *begins;
    int64_t *elements;
};

static struct members find_members(const struct generators *g)
{
    long width = nonzeros + 1;
    struct members m = {
        .begins = private_alloc((size_t)(rows + 1) * sizeof *m.begins),
        .elements = private_alloc((size_t)(rows * width) * sizeof *m.elements),
    };
    int64_t *next = private_alloc((size_t)rows * sizeof *next);

    for (long k = 0; k < rows; k++)
        for (long e = 0; e < g->counts[k]; e++)
            m.begins[g->places[k * width + e] + 1]++;
    for (long i = 0; i < rows; i++) {
        m.begins[i + 1] += m.begins[i];
        next[i] = m.begins[i];
    }
    for (long k = 0; k < rows; k++)
        for (long e = 0; e < g->counts[k]; e++)
            m.elements[next[g->places[k * width + e]]++] = k * width + e;
    free(next);
    return m;
}

static int by_column(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;

    return (left > right) - (left < right);
}

/* Row i of the sum into `sums`, which is 0 elsewhere; where it is not, into `columns`. */
static long sum_row(const struct generators *g, const struct members *m, long i, double *sums,
                    bool *there, int32_t *columns)
{
    long width = nonzeros + 1, count = 0;

    for (int64_t at = m->begins[i]; at < m->begins[i + 1]; at++) {
        long k = m->elements[at] / width;
        double scale = g->weights[k] * g->values[m->elements[at]];

        for (long e = k * width; e < k * width + g->counts[k]; e++) {
            int32_t j = g->places[e];

            if (!there[j])
                columns[count++] = j;
            there[j] = true;
            sums[j] += scale * g->values[e];
        }
    }
    sums[i] += CONDITION - (double)shift; /* there: vector i has an element at i */
    qsort(columns, (size_t)count, sizeof *columns, by_column);
    return count;
}

static void make_matrix(const struct matrix *a)
{
    struct generators g = draw_generators();
    struct members m = find_members(&g);
    double *sums = private_alloc((size_t)rows * sizeof *sums);
    bool *there = private_alloc((size_t)rows * sizeof *there);

    a->begins[0] = 0;
    for (long i = 0; i < rows; i++) {
        int64_t begin = a->begins[i];
        long count = sum_row(&g, &m, i, sums, there, a->columns + begin);

        for (int64_t e = begin; e < begin + count; e++) {
            a->values[e] = sums[a->columns[e]];
            sums[a->columns[e]] = 0;
            there[a->columns[e]] = false;
        }
        a->begins[i + 1] = begin + count;
    }
    free(there);
    free(sums);
    free(m.begins);
    free(m.elements);
    free_generators(&g);
}

/* ---- The method ------------------------------------------------------------------------------- */

static double row_times(const struct matrix *a, long i, const double *v)
{
    double sum = 0;

    for (int64_t e = a->begins[i]; e < a->begins[i + 1]; e++)
        sum += a->values[e] * v[a->columns[e]];
    return sum;
}

/* Alone nobody is waited for, and what one has found is the sum. */
static void wait_for_all(const struct system *s)
{
    if (s->shared)
        shm_barrier();
}

static void sum_of_all(const struct system *s, int worker, double *values, size_t count)
{
    if (s->shared)
        shm_sum(worker, values, count);
}

/* From x: z, of which A z is almost x. */
static void solve(const struct system *s, int worker, struct span own)
{
    double rho = 0;

    for (long i = own.begin; i < own.end; i++) {
        s->z[i] = 0;
        s->p[i] = s->r[i] = s->x[i];
        rho += s->r[i] * s->r[i];
    }
    sum_of_all(s, worker, &rho, 1);
    /* A few rows are solved to the last bit before that, and then rho is 0. */
    for (int round = 0; round < SOLVING && rho >= DBL_MIN; round++) {
        double alpha, beta, slope = 0, next = 0;

        for (long i = own.begin; i < own.end; i++) {
            s->q[i] = row_times(&s->a, i, s->p);
            slope += s->p[i] * s->q[i];
        }
        sum_of_all(s, worker, &slope, 1);
        alpha = rho / slope;
        for (long i = own.begin; i < own.end; i++) {
            s->z[i] += alpha * s->p[i];
            s->r[i] -= alpha * s->q[i];
            next += s->r[i] * s->r[i];
        }
        sum_of_all(s, worker, &next, 1);
        beta = next / rho;
        rho = next;
        for (long i = own.begin; i < own.end; i++)
            s->p[i] = s->r[i] + beta * s->p[i];
        wait_for_all(s);
    }
}

/* A step of inverse iteration; x becomes z, at length 1. */
static struct outcome step(const struct system *s, int worker, struct span own)
{
    enum { LEFT, XZ, ZZ, SUMS };
    double sums[SUMS] = {0};

    solve(s, worker, own);
    for (long i = own.begin; i < own.end; i++) {
        double left = s->x[i] - row_times(&s->a, i, s->z);

        sums[LEFT] += left * left;
        sums[XZ] += s->x[i] * s->z[i];
        sums[ZZ] += s->z[i] * s->z[i];
    }
    sum_of_all(s, worker, sums, SUMS);
    for (long i = own.begin; i < own.end; i++)
        s->x[i] = s->z[i] / sqrt(sums[ZZ]);
    return (struct outcome){(double)shift + 1 / sums[XZ], sqrt(sums[LEFT])};
}

static void start_with_ones(const struct system *s, struct span own)
{
    for (long i = own.begin; i < own.end; i++)
        s->x[i] = 1;
}

static void work(int worker)
{
    struct span own = span_of(rows, worker, shm_workers());
    struct outcome outcome = {0};

    if (worker == 0)
        make_matrix(&shared.a);
    shm_barrier();
    start_with_ones(&shared, own);
    step(&shared, worker, own);
    start_with_ones(&shared, own);
    bench_start(worker);
    for (long it = 0; it < iterations; it++) {
        outcome = step(&shared, worker, own);
        if (worker == 0)
            shm_progress((uint64_t)it + 1, (uint64_t)iterations);
    }
    bench_stop(worker);
    if (worker == 0)
        reached = outcome;
}

/* ---- The check -------------------------------------------------------------------------------- */

static void compare(double zeta, const char *whose)
{
    if (!(fabs(reached.zeta - zeta) <= 1e-10 * fabs(zeta)))
        check_failed("zeta is %.13f, %s %.13f", reached.zeta, whose, zeta);
}

/* All of it by one thread in private memory. */
static double zeta_alone(void)
{
    size_t elements = (size_t)most_elements(), bytes = (size_t)rows * sizeof(double);
    struct system s = {
        .a = {private_alloc((size_t)(rows + 1) * sizeof(int64_t)),
              private_alloc(elements * sizeof(int32_t)), private_alloc(elements * sizeof(double))},
        .x = private_alloc(bytes),
        .z = private_alloc(bytes),
        .p = private_alloc(bytes),
        .q = private_alloc(bytes),
        .r = private_alloc(bytes),
    };
    void *const all[] = {s.a.begins, s.a.columns, s.a.values, s.x, s.z, s.p, s.q, s.r};
    struct span own = {0, rows};
    double zeta = 0;

    make_matrix(&s.a);
    start_with_ones(&s, own);
    for (long it = 0; it < iterations; it++)
        zeta = step(&s, 0, own).zeta;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return zeta;
}

/* NAS's answer, or NULL for what is no class of it. */
static const struct answer *published(void)
{
    for (int i = 0; i < ANSWERS; i++) {
        const struct answer *a = &answers[i];

        if (a->rows == rows && a->nonzeros == nonzeros && a->iterations == iterations &&
            a->shift == shift)
            return a;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct answer *answer;
    char input[64];
    size_t bytes, elements, begins;
    int length;

    app_begin(&app, &argc, &argv);
    if (nonzeros > rows)
        app_usage("--nonzeros %ld: more than the rows", nonzeros);
    answer = published();
    bytes = (size_t)rows * sizeof(double);
    begins = (size_t)(rows + 1) * sizeof *shared.a.begins;
    elements = (size_t)most_elements();
    shared.a.begins = shm_plain("cg.begins", begins);
    shared.a.columns = shm_plain("cg.columns", elements * sizeof *shared.a.columns);
    shared.a.values = shm_plain("cg.values", elements * sizeof *shared.a.values);
    shared.x = shm_plain("cg.x", bytes);
    shared.z = shm_plain("cg.z", bytes);
    shared.p = shm_plain("cg.p", bytes);
    shared.q = shm_plain("cg.q", bytes);
    shared.r = shm_plain("cg.r", bytes);
    shm_run(work);
    if (check_wanted())
        compare(answer ? answer->zeta : zeta_alone(), answer ? "published" : "sequentially");
    if (shm_node() == 0) {
        app_figure("zeta", reached.zeta);
        app_figure("residual", reached.residual);
    }
    length = snprintf(input, sizeof input, "%ld rows, %ld steps", rows, iterations);
    if (answer != NULL)
        snprintf(input + length, sizeof input - (size_t)length, ", class %c", answer->class);
    return app_finish(input, "default",
                      begins + elements * (sizeof(double) + sizeof(int32_t)) + 5 * bytes);
}
