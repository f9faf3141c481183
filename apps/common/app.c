/* app.c - options, timing and the Table 2 report of app.h. */
#include "app.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* What a node counted in the section. */
struct node_counts {
    struct shm_counts counts;
    uint64_t switches;
};

/* A number of the application's own in the result line. */
struct figure {
    const char *key;
    double value;
};

enum { MAX_FIGURES = 16, SECTION_COUNTS = 15 };

static struct {
    const struct app *app;
    bool check;
    bool failed;
    char difference[256];
    double started_ms, elapsed_ms;
    struct shm_counts at_start; /* this node's, when the parallel section began */
    uint64_t switches_at_start;
    struct node_counts *nodes; /* shared: what each node counted in it */
    struct node_counts total;  /* node 0: over all nodes */
    struct figure figures[MAX_FIGURES];
    int figure_count;
} run = {.check = true};

/* The counts that are the section's alone. */
static uint64_t *section_count(struct shm_counts *c, size_t i)
{
    uint64_t *const all[] = {
        &c->read_faults,   &c->write_faults, &c->messages,        &c->bytes,      &c->competing,
        &c->twins,         &c->diffs,        &c->diff_bytes,      &c->notices,    &c->compute_ns,
        &c->fault_wait_ns, &c->lock_wait_ns, &c->barrier_wait_ns, &c->other_wait_ns,
        &c->racing,
    };

    _Static_assert(sizeof all / sizeof *all == SECTION_COUNTS, "all of them");
    return all[i];
}

double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void die(const char *format, ...)
{
    char line[400];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", run.app ? run.app->name : "app", line);
    _exit(1);
}

void *private_alloc(size_t bytes)
{
    size_t rounded = (bytes + 63) / 64 * 64;
    void *p = aligned_alloc(64, rounded ? rounded : 64);

    if (p == NULL)
        die("no memory for %zu bytes", bytes);
    return memset(p, 0, rounded);
}

/* ---- Options -------------------------------------------------------------------------------- */

_Noreturn static void leave(int status)
{
    shm_finish();
    exit(status);
}

void app_usage(const char *format, ...)
{
    va_list args;

    if (shm_node() == 0) {
        fprintf(stderr, "%s: ", run.app->name);
        va_start(args, format);
        vfprintf(stderr, format, args);
        va_end(args);
        fprintf(stderr, " (--help explains)\n");
    }
    leave(2);
}

_Noreturn static void help(void)
{
    if (shm_node() == 0) {
        printf("%s: %s\n\nusage: %s-%s [flags]\n", run.app->name, run.app->about, run.app->name,
               shm_build());
        for (const struct app_option *o = run.app->options; o->name; o++)
            printf("  --%-10s N  %s (%ld to %ld, default %ld)\n", o->name, o->help, o->min, o->max,
                   *o->value);
        printf("  -t           N  threads; the mg build takes them from `multigrain run -t`\n");
        printf("  --no-check      do not compare with the sequential result\n");
        printf("  --check         compare with it (default)\n");
        printf("  --help          this text\n");
    }
    leave(0);
}

static long number(const char *flag, const char *text, long min, long max)
{
    char *end = NULL;
    long value;

    if (text == NULL)
        app_usage("%s needs a number", flag);
    errno = 0;
    value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < min || value > max)
        app_usage("%s %s: not a number from %ld to %ld", flag, text, min, max);
    return value;
}

/* The option that `flag` ("--rows" or "--rows=5") names; *inline_value is what follows the '='. */
static const struct app_option *find_option(const char *flag, const char **inline_value)
{
    size_t length = strcspn(flag, "=");

    *inline_value = flag[length] == '=' ? flag + length + 1 : NULL;
    for (const struct app_option *o = run.app->options; o->name; o++)
        if (strncmp(flag, "--", 2) == 0 && strlen(o->name) + 2 == length &&
            strncmp(flag + 2, o->name, length - 2) == 0)
            return o;
    return NULL;
}

void app_begin(const struct app *app, int *argc, char ***argv)
{
    long threads = 0;
    const char *problem;

    run.app = app;
    shm_init(argc, argv);
    for (int i = 1; i < *argc; i++) {
        const char *flag = (*argv)[i], *value;
        const struct app_option *option = find_option(flag, &value);

        if (option != NULL)
            *option->value = number(flag, value ? value : (*argv)[++i], option->min, option->max);
        else if (strcmp(flag, "-t") == 0)
            threads = number(flag, (*argv)[++i], 1, 1024);
        else if (strcmp(flag, "--check") == 0)
            run.check = true;
        else if (strcmp(flag, "--no-check") == 0)
            run.check = false;
        else if (strcmp(flag, "--help") == 0)
            help();
        else
            app_usage("unknown flag %s", flag);
    }
    problem = shm_set_threads(threads);
    if (problem != NULL)
        app_usage("-t %ld: %s", threads, problem);
    run.nodes = shm_block("app.counts", (size_t)shm_nodes() * sizeof *run.nodes, APP_PAGE_BYTES);
}

/* ---- The parallel section ------------------------------------------------------------------- */

static bool leads_its_node(int worker)
{
    return worker % shm_threads() == 0;
}

/* Voluntary and involuntary, of all threads of this node. */
static uint64_t context_switches(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        die("getrusage: %s", strerror(errno));
    return (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
}

/* The first worker of the node to leave the barrier starts it. */
static void start_clock(void)
{
    double now = now_ms(), stopped = 0;

    __atomic_compare_exchange(&run.started_ms, &stopped, &now, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
}

void bench_start(int worker)
{
    shm_barrier();
    if (leads_its_node(worker)) {
        shm_get_counts(&run.at_start);
        run.switches_at_start = context_switches();
    }
    start_clock();
}

static void subtract(struct shm_counts *from, struct shm_counts what)
{
    for (size_t i = 0; i < SECTION_COUNTS; i++)
        *section_count(from, i) -= *section_count(&what, i);
}

static void add(struct shm_counts *to, struct shm_counts what)
{
    for (size_t i = 0; i < SECTION_COUNTS; i++)
        *section_count(to, i) += *section_count(&what, i);
}

/* Faults and messages of the section alone; barriers and locks since the start of the program. */
static struct node_counts section_counts(void)
{
    struct node_counts now = {.switches = context_switches() - run.switches_at_start};

    shm_get_counts(&now.counts);
    now.counts.barriers -= 1; /* bench_stop's own */
    subtract(&now.counts, run.at_start);
    return now;
}

static void sum_over_nodes(void)
{
    run.total = run.nodes[0];
    for (int n = 1; n < shm_nodes(); n++) {
        run.total.counts.locks += run.nodes[n].counts.locks;
        run.total.switches += run.nodes[n].switches;
        add(&run.total.counts, run.nodes[n].counts);
    }
}

void bench_stop(int worker)
{
    struct node_counts counts = {0};

    shm_barrier();
    if (worker == 0)
        run.elapsed_ms = now_ms() - run.started_ms;
    if (leads_its_node(worker))
        counts = section_counts();
    shm_barrier();
    if (leads_its_node(worker))
        run.nodes[shm_node()] = counts;
    shm_barrier();
    if (worker == 0)
        sum_over_nodes();
}

double bench_ms(void)
{
    return run.elapsed_ms;
}

/* ---- The verdict and the report ------------------------------------------------------------- */

bool check_wanted(void)
{
    return run.check && shm_node() == 0;
}

void check_failed(const char *format, ...)
{
    va_list args;

    if (run.failed)
        return;
    run.failed = true;
    va_start(args, format);
    vsnprintf(run.difference, sizeof run.difference, format, args);
    va_end(args);
}

void app_figure(const char *key, double value)
{
    if (run.figure_count == MAX_FIGURES)
        die("more than %d figures", (int)MAX_FIGURES);
    run.figures[run.figure_count++] = (struct figure){key, value};
}

static void print_row(const char *who, const struct app_row *row)
{
    printf("  %-9s %-34s %-9s %-6s %-22s %-9s %s\n", who, row->input, row->shared, row->views,
           row->grain, row->barriers, row->locks);
}

static void print_table(const char *input, const char *grain, size_t shared_bytes)
{
    static const struct app_row head = {"input",           "shared",   "views",
                                        "sharing grain", "barriers", "locks"};
    char shared[32], views[32], barriers[32], locks[32];
    struct app_row ours = {input, shared, views, grain, barriers, locks};

    snprintf(shared, sizeof shared, "%.0f KB", (double)shared_bytes / 1024);
    if (run.total.counts.views > 0)
        snprintf(views, sizeof views, "%llu", (unsigned long long)run.total.counts.views);
    else
        snprintf(views, sizeof views, "-");
    snprintf(barriers, sizeof barriers, "%llu", (unsigned long long)run.total.counts.barriers);
    snprintf(locks, sizeof locks, "%llu", (unsigned long long)run.total.counts.locks);

    printf("%s, %s build: %d node%s x %d thread%s\n", run.app->name, shm_build(), shm_nodes(),
           shm_nodes() == 1 ? "" : "s", shm_threads(), shm_threads() == 1 ? "" : "s");
    print_row("", &head);
    if (run.app->paper.input != NULL)
        print_row("paper", &run.app->paper);
    print_row("this run", &ours);
}

static void print_result(const char *verdict, size_t declared)
{
    const struct shm_counts *c = &run.total.counts;

    printf("result app=%s nodes=%d threads=%d ms=%.4f check=%s views=%llu barriers=%llu locks=%llu",
           run.app->name, shm_nodes(), shm_threads(), run.elapsed_ms, verdict,
           (unsigned long long)c->views, (unsigned long long)c->barriers,
           (unsigned long long)c->locks);
    printf(" declared=%zu", declared);
    printf(" shared=%llu read_faults=%llu write_faults=%llu messages=%llu bytes=%llu competing=%llu",
           (unsigned long long)c->shared_bytes, (unsigned long long)c->read_faults,
           (unsigned long long)c->write_faults, (unsigned long long)c->messages,
           (unsigned long long)c->bytes, (unsigned long long)c->competing);
    printf(" racing=%llu", (unsigned long long)c->racing);
    printf(" twins=%llu diffs=%llu diff_bytes=%llu notices=%llu",
           (unsigned long long)c->twins, (unsigned long long)c->diffs,
           (unsigned long long)c->diff_bytes, (unsigned long long)c->notices);
    printf(" switches=%llu compute_ms=%.2f fault_wait_ms=%.2f lock_wait_ms=%.2f",
           (unsigned long long)run.total.switches, (double)c->compute_ns * 1e-6,
           (double)c->fault_wait_ns * 1e-6, (double)c->lock_wait_ns * 1e-6);
    printf(" barrier_wait_ms=%.2f other_wait_ms=%.2f", (double)c->barrier_wait_ns * 1e-6,
           (double)c->other_wait_ns * 1e-6);
    for (int i = 0; i < run.figure_count; i++)
        printf(" %s=%.6g", run.figures[i].key, run.figures[i].value);
    printf(" build=%s\n", shm_build());
    fflush(stdout);
}

int app_finish(const char *input, const char *grain, size_t shared_bytes)
{
    const char *verdict = run.failed ? "failed" : run.check ? "ok" : "skipped";

    if (shm_node() == 0) {
        print_table(input, grain, shared_bytes);
        printf("time: %.2f ms\n", run.elapsed_ms);
        printf("check: %s%s%s\n", verdict, run.failed ? ": " : "", run.difference);
        print_result(verdict, shared_bytes);
    }
    shm_finish();
    return run.failed ? 1 : 0;
}
