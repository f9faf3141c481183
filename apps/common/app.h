/*
 * app.h - what every application does the same way: options, timing, the check's verdict, and the
 * report: the columns of Millipage's Table 2 beside the paper's, and one `result` line for scripts.
 */
#ifndef APPS_APP_H
#define APPS_APP_H

#include "shm.h"

#include <stdbool.h>

enum { APP_PAGE_BYTES = 4096 };

/* A flag `--name N`, min <= N <= max; *value holds the default. */
struct app_option {
    const char *name;
    const char *help;
    long *value;
    long min, max;
};

/* One line of Table 2; in `struct app` the paper's, input NULL if the paper has none. */
struct app_row {
    const char *input, *shared, *views, *grain, *barriers, *locks;
};

struct app {
    const char *name;
    const char *about;
    const struct app_option *options; /* ends with name == NULL */
    struct app_row paper;
};

/* Joins the job and reads the options; a wrong one ends the program with one line and status 2. */
void app_begin(const struct app *app, int *argc, char ***argv);
/* A combination of options that makes no sense: one line, status 2. */
_Noreturn void app_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The parallel section. Every worker calls both; each is one barrier, of which Table 2's count
 * holds the first: the second stands for the join that a program without a report would have. */
void bench_start(int worker);
void bench_stop(int worker);
/* What the section took, on node 0 behind bench_stop. */
double bench_ms(void);

/* True on the node that checks, unless --no-check. */
bool check_wanted(void);
/* Notes the first difference found; the program will fail. */
void check_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A number of the application's own for the result line, `key=value`; node 0, before app_finish. */
void app_figure(const char *key, double value);

/* Prints the report on node 0, leaves the job; returns the exit status. */
int app_finish(const char *input, const char *grain, size_t shared_bytes);

/* A clock, ms. */
double now_ms(void);

/* Zeroed, cache-line aligned private memory; never NULL. free() it. */
void *private_alloc(size_t bytes);
/* One line on stderr, status 1, at once: the launcher ends the other nodes. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The half-open range of [0, n) that belongs to one worker: consecutive, sizes differ by one. */
struct span {
    long begin, end;
};

static inline struct span span_of(long n, int worker, int workers)
{
    return (struct span){n * worker / workers, n * (worker + 1) / workers};
}

/* A fixed scrambling of 64 bits (two multiply-and-shift rounds): inputs that need no state. */
static inline uint64_t scramble(uint64_t x)
{
    x = (x + 0x9e3779b97f4a7c15u) * 0xd1342543de82ef95u;
    x = (x ^ (x >> 29)) * 0xaf251af3b0f025b5u;
    return x ^ (x >> 32);
}

/* A number in [0, 1) that depends on x alone. */
static inline double scramble_unit(uint64_t x)
{
    return (double)(scramble(x) >> 11) * 0x1p-53;
}

#endif
