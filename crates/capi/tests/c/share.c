/* Who gets a contended minipage how often: every thread works on one place for a while, and says what
 * it has done. share MODE MILLISECONDS THINK_US [THREADS OF NODE 0]
 *
 * add    fetch and add of one word
 * mix    even ranks add, odd ranks read
 * touch  mg_touch_write before each add
 * cross  locked add across the border of two pages
 * store  plain store across that border
 * debug  as cross, and the program steps itself over it */
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { MOST = 64 };

static char mode;
static double run_us, think_us;
static volatile char *place;

struct worker {
    pthread_t thread;
    int adds, number;
    uint64_t done;
    double longest_us;
};

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void add(volatile char *word)
{
#ifdef __x86_64__
    __asm__ volatile("lock addq $1, (%0)" : : "r"(word) : "memory", "cc");
#else
    __atomic_fetch_add((volatile uint64_t *)word, 1, __ATOMIC_SEQ_CST);
#endif
}

static __thread volatile int traps;

static void count_trap(int signal)
{
    (void)signal;
    traps++;
}

/* The program's own steps trap, each once, whatever the runtime does. */
static void add_stepped(volatile char *word)
{
#ifdef __x86_64__
    traps = 0;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq; lock addq $1, (%0); nop; pushfq; andq $~0x100, (%%rsp); popfq"
                     : : "r"(word) : "memory", "cc");
    CHECK(traps == 5 || traps == 6);
#else
    add(word);
#endif
}

static void store(volatile char *word, uint64_t value)
{
#ifdef __x86_64__
    __asm__ volatile("movq %1, (%0)" : : "r"(word), "r"(value) : "memory");
#else
    *(volatile uint64_t *)word = value;
#endif
}

static void *work(void *argument)
{
    struct worker *self = argument;
    double start = now_us(), last = start;

    while (last - start < run_us) {
        double end;

        if (mode == 's')
            store(place, self->done);
        else if (self->adds) {
            if (mode == 't')
                OK(mg_touch_write((char *)place, 8));
            if (mode == 'd')
                add_stepped(place);
            else
                add(place);
        }
        else
            (void)*(volatile uint64_t *)place;
        self->done++;
        end = now_us();
        if (end - last > self->longest_us)
            self->longest_us = end - last;
        last = end;
        while (think_us > 0 && now_us() - end < think_us)
            ;
        if (think_us > 0)
            last = now_us();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[MOST];
    struct mg_stats before, after;
    uint64_t *counter, adds = 0, *sum;
    char *pages;
    int threads, crosses;

    OK(mg_init(&argc, &argv));
    CHECK(argc >= 4);
    mode = argv[1][0];
    run_us = atof(argv[2]) * 1e3;
    think_us = atof(argv[3]);
    threads = argc > 4 && mg_node() == 0 ? atoi(argv[4]) : 1;
    CHECK(threads >= 1 && threads <= MOST);
    crosses = mode == 'c' || mode == 's' || mode == 'd';
    if (mode == 'd')
        CHECK(signal(SIGTRAP, count_trap) != SIG_ERR);
    pages = SHARE("pages", mg_nodes() - 1, mg_malloc_grain(8192, 4096));
    counter = SHARE("counter", 0, mg_malloc(sizeof *counter));
    sum = SHARE("sum", 0, mg_calloc(1, sizeof *sum));
    if (mg_node() == 0)
        *counter = 0;
    if (mg_node() == mg_nodes() - 1)
        memset(pages, 0, 8192);
    place = crosses ? pages + 4096 - 4 : (char *)counter;
    OK(mg_barrier(0, 0));
    before = stats_now();
    for (int i = 0; i < threads; i++) {
        workers[i].number = i;
        workers[i].adds = mode != 'm' || mg_node() % 2 == 0;
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < threads; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0);
        if (workers[i].adds)
            adds += workers[i].done;
    }
    after = stats_now();
    for (int i = 0; i < threads; i++)
        printf("node %d thread %d done %llu longest_us %.0f faults %llu\n", mg_node(), i,
               (unsigned long long)workers[i].done, workers[i].longest_us,
               (unsigned long long)(after.read_faults + after.write_faults - before.read_faults
                                    - before.write_faults));
    fflush(stdout);
    OK(mg_lock(1));
    *sum += adds;
    OK(mg_unlock(1));
    OK(mg_barrier(0, 0));
    if (mg_node() == 0 && mode != 's') {
        uint64_t found;

        memcpy(&found, (const char *)place, sizeof found);
        CHECK(found == *sum);
    }
    return mg_finalize();
}
