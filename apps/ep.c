/*
 * ep.c - NAS EP (embarrassingly parallel): 2^N pairs of uniform random numbers, of which those
 * within the unit circle become pairs of Gaussian deviates (the polar method); these are summed, and
 * counted by the square annulus that they fall into. A program of ParADE's (section 5.3): it is all
 * computation, and one reduction at its end.
 *
 * Shared: nothing. A worker has consecutive pairs, and begins in the middle of the sequence of
 * random numbers; the sums of all are added up once.
 */
#include "app.h"
#include "nas.h"

#include <math.h>
#include <stdio.h>

enum { ANNULI = 10, BATCH = 1 << 16 };

/* Doubles, so that one reduction adds up all of it; the counts stay exact. */
enum { SUM_X, SUM_Y, COUNTS, TALLY = COUNTS + ANNULI };

static const uint64_t SEED = 271828183;

static long pairs_log2 = 28, pairs;
static double result[TALLY]; /* of worker 0 */

static const struct app_option options[] = {
    {"log2", "log2 of the pairs (24: class S, 25: W, 28: A)", &pairs_log2, 1, 40},
    {0},
};

static const struct app app = {
    .name = "ep",
    .about = "NAS EP, Gaussian deviates by the polar method",
    .options = options,
    .paper = {"class A: 2^28 pairs", "0 MB", "-", "-", "-", "-"},
};

/* What NAS has published. */
static const struct answer {
    long log2;
    char class;
    double x, y, gaussian;
} answers[] = {
    {24, 'S', -3.247834652034740e3, -6.958407078382297e3, 13176389},
    {25, 'W', -2.863319731645753e3, -6.320053679109499e3, 26354769},
    {28, 'A', -4.295875165629892e3, -1.580732573678431e4, 210832767},
    {30, 'B', 4.033815542441498e4, -2.660669192809235e4, 843345606},
    {32, 'C', 4.764367927995374e4, -8.084072988043731e4, 3373275903},
};

enum { ANSWERS = sizeof answers / sizeof *answers };

static void tally_pairs(struct span which, double *tally)
{
    uint64_t x = nas_ahead(SEED, 2 * (uint64_t)which.begin);
    double sum_x = 0, sum_y = 0;

    for (long i = which.begin; i < which.end; i++) {
        double u = 2 * nas_next(&x) - 1, v = 2 * nas_next(&x) - 1;
        double square = u * u + v * v;

        if (square <= 1) {
            double scale = sqrt(-2 * log(square) / square);
            double a = u * scale, b = v * scale;

            tally[COUNTS + (int)fmax(fabs(a), fabs(b))]++;
            sum_x += a;
            sum_y += b;
        }
    }
    tally[SUM_X] += sum_x;
    tally[SUM_Y] += sum_y;
}

static void work(int worker)
{
    struct span own = span_of(pairs, worker, shm_workers());
    double tally[TALLY] = {0};

    bench_start(worker);
    for (long begin = own.begin; begin < own.end; begin += BATCH) {
        long end = begin + BATCH < own.end ? begin + BATCH : own.end;

        tally_pairs((struct span){begin, end}, tally);
        if (worker == 0)
            shm_progress((uint64_t)(end - own.begin), (uint64_t)(own.end - own.begin));
    }
    shm_sum(worker, tally, TALLY);
    for (int i = 0; worker == 0 && i < TALLY; i++)
        result[i] = tally[i];
    bench_stop(worker);
}

static double gaussian_pairs(void)
{
    double all = 0;

    for (int l = 0; l < ANNULI; l++)
        all += result[COUNTS + l];
    return all;
}

/* NAS's own tolerance: the sums are of millions, in any order. */
static void compare(const char *what, double sum, double expected, const char *whose)
{
    if (!(fabs(sum - expected) <= 1e-8 * fabs(expected)))
        check_failed("the sum of %s is %.15e, %s %.15e", what, sum, whose, expected);
}

static void check_published(const struct answer *answer)
{
    compare("x", result[SUM_X], answer->x, "published");
    compare("y", result[SUM_Y], answer->y, "published");
    if (gaussian_pairs() != answer->gaussian)
        check_failed("%.0f pairs are Gaussian, published %.0f", gaussian_pairs(),
                     answer->gaussian);
}

static void check_alone(void)
{
    double expected[TALLY] = {0};

    tally_pairs((struct span){0, pairs}, expected);
    compare("x", result[SUM_X], expected[SUM_X], "sequentially");
    compare("y", result[SUM_Y], expected[SUM_Y], "sequentially");
    for (int l = 0; l < ANNULI; l++)
        if (result[COUNTS + l] != expected[COUNTS + l])
            check_failed("annulus %d has %.0f pairs, sequentially %.0f", l, result[COUNTS + l],
                         expected[COUNTS + l]);
}

/* NAS's answer, or NULL for a size that it has none for. */
static const struct answer *published(void)
{
    for (int i = 0; i < ANSWERS; i++)
        if (answers[i].log2 == pairs_log2)
            return &answers[i];
    return NULL;
}

int main(int argc, char **argv)
{
    const struct answer *answer;
    char input[64];
    int length;

    app_begin(&app, &argc, &argv);
    pairs = 1L << pairs_log2;
    answer = published();
    shm_run(work);
    if (check_wanted() && answer != NULL)
        check_published(answer);
    else if (check_wanted())
        check_alone();
    if (shm_node() == 0)
        app_figure("mpairs_s", (double)pairs / bench_ms() * 1e-3);
    length = snprintf(input, sizeof input, "2^%ld pairs", pairs_log2);
    if (answer != NULL)
        snprintf(input + length, sizeof input - (size_t)length, ", class %c", answer->class);
    return app_finish(input, "-", 0);
}
