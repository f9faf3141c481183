/*
 * fft.c - the discrete Fourier transform of 2^N complex numbers by six steps: as a square matrix,
 * whose rows are transformed, with a transposition before, between and after (Bailey).
 *
 * Shared: the matrix and another for what is transposed, plain blocks of complex doubles, row after
 * row. A worker owns consecutive rows of both. In a transposition it reads a column of everybody's
 * rows for each row of its own; all else is within its rows. Private: the roots of unity.
 *
 * With n = m * m numbers and j = m * j1 + j2, k = k1 + m * k2: the sum over j1 is a transform of
 * length m, the factor w^(j2 k1) stands between, and the sum over j2 is another.
 */
#include "app.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef double complex number;

enum { PROBES = 8, TILE = 8 };

static long numbers_log2 = 16, row_log2;
static long numbers, row; /* row * row == numbers */
static number *shared[2];
static number *roots; /* roots[i] = exp(-2 pi I i / numbers) */

static const struct app_option options[] = {
    {"numbers", "log2 of the numbers, even", &numbers_log2, 2, 28},
    {0},
};

static const struct app app = {
    .name = "fft",
    .about = "six-step FFT with transpositions",
    .options = options,
};

static number input_at(long j)
{
    uint64_t x = (uint64_t)j * 2;

    return scramble_unit(x) - 0.5 + (scramble_unit(x + 1) - 0.5) * I;
}

static void init_rows(number *a, struct span own)
{
    for (long j = own.begin * row; j < own.end * row; j++)
        a[j] = input_at(j);
}

/* Own rows of `to` := columns of `from`, a few at a time so that what a cache line holds is used. */
static void transpose(const number *from, number *to, struct span own)
{
    for (long i = own.begin; i < own.end; i += TILE)
        for (long j = 0; j < row; j++)
            for (long k = i; k < i + TILE && k < own.end; k++)
                to[k * row + j] = from[j * row + k];
}

static long reversed(long i)
{
    long r = 0;

    for (long b = 0; b < row_log2; b++)
        r |= (i >> b & 1) << (row_log2 - 1 - b);
    return r;
}

/* One row, in place: Cooley and Tukey, decimation in time. */
static void transform_row(number *a)
{
    for (long i = 0; i < row; i++) {
        long r = reversed(i);

        if (i < r) {
            number kept = a[i];

            a[i] = a[r];
            a[r] = kept;
        }
    }
    for (long half = 1; half < row; half *= 2)
        for (long first = 0; first < row; first += 2 * half)
            for (long i = 0; i < half; i++) {
                number *low = a + first + i, *high = low + half;
                number turned = *high * roots[i * (numbers / (2 * half))];

                *high = *low - turned;
                *low += turned;
            }
}

static void transform_rows(number *a, struct span own, bool twiddle)
{
    for (long i = own.begin; i < own.end; i++) {
        transform_row(a + i * row);
        for (long j = 0; twiddle && j < row; j++)
            a[i * row + j] *= roots[i * j];
    }
}

/* The six steps; the result is in b. Nobody waits where one does it alone. */
static void transform(number *a, number *b, struct span own, void (*wait)(void))
{
    transpose(a, b, own);
    transform_rows(b, own, true);
    wait();
    transpose(b, a, own);
    transform_rows(a, own, false);
    wait();
    transpose(a, b, own);
}

static void nobody_waits(void)
{
}

static void work(int worker)
{
    struct span own = span_of(row, worker, shm_workers());

    init_rows(shared[0], own);
    bench_start(worker);
    transform(shared[0], shared[1], own, shm_barrier);
    bench_stop(worker);
}

/* A few numbers by the definition: the sum of all inputs, each times a root. */
static void check_definition(const number *result)
{
    for (long p = 0; p < PROBES; p++) {
        long k = (long)(scramble((uint64_t)p) % (uint64_t)numbers);
        number sum = 0;

        for (long j = 0; j < numbers; j++)
            sum += input_at(j) * roots[(uint64_t)j * (uint64_t)k % (uint64_t)numbers];
        if (!(cabs(sum - result[k]) <= 1e-11 * (double)numbers))
            check_failed("number %ld is %.12g%+.12gi, by definition %.12g%+.12gi", k,
                         creal(result[k]), cimag(result[k]), creal(sum), cimag(sum));
    }
}

/* Every bit must be what one worker computes in private memory. */
static void check(void)
{
    size_t bytes = (size_t)numbers * sizeof(number);
    number *from = private_alloc(bytes), *expected = private_alloc(bytes);
    struct span all = {0, row};

    init_rows(from, all);
    transform(from, expected, all, nobody_waits);
    for (long k = 0; k < numbers; k++)
        if (memcmp(&shared[1][k], &expected[k], sizeof(number)) != 0)
            check_failed("number %ld is %.17g%+.17gi, sequentially %.17g%+.17gi", k,
                         creal(shared[1][k]), cimag(shared[1][k]), creal(expected[k]),
                         cimag(expected[k]));
    check_definition(expected);
    free(expected);
    free(from);
}

int main(int argc, char **argv)
{
    const double turn = 2 * acos(-1);
    char input[64];
    size_t bytes;

    app_begin(&app, &argc, &argv);
    if (numbers_log2 % 2 != 0)
        app_usage("--numbers %ld: not an even number", numbers_log2);
    row_log2 = numbers_log2 / 2;
    row = 1L << row_log2;
    numbers = row * row;
    bytes = (size_t)numbers * sizeof(number);
    roots = private_alloc(bytes);
    for (long i = 0; i < numbers; i++)
        roots[i] = cos(turn * (double)i / (double)numbers) -
                   sin(turn * (double)i / (double)numbers) * I;
    shared[0] = shm_plain("fft.even", bytes);
    shared[1] = shm_plain("fft.odd", bytes);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "2^%ld complex doubles", numbers_log2);
    return app_finish(input, "default", 2 * bytes);
}
