/*
 * What an access path must not change (--path): threads that race for a page read it whole and new (ParADE, section 2), and so
 * are prefetched pages, memory that was freed and is used again, large memory, and minipages that share a page.
 *
 *   paths              all of it
 *   paths full MIB     so much memory has no room, and the job goes on
 *   paths killed       node 1 kills itself
 */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#define THREADS 5
#define ROUNDS 150
#define PAGE 4096
#define WORDS (PAGE / sizeof(int))

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

/* The bytes of the page that threads race for, and what each of its words is in this round. */
static volatile int *raced;
static int expected;
static pthread_barrier_t begins, ends;

static void *racer(void *arg)
{
    int late = (int)(intptr_t)arg;

    for (int round = 1; round <= ROUNDS; round++) {
        pthread_barrier_wait(&begins);
        for (int i = 0; i < late; i++)
            sched_yield();
        for (size_t word = 0; word < WORDS; word++)
            if (raced[word] != expected)
                FAIL("round %d, thread %d: word %zu is %d", round, late, word, raced[word]);
        pthread_barrier_wait(&ends);
    }
    return NULL;
}

static void threads_race_for_a_page(void)
{
    pthread_t threads[THREADS];
    int *page = SHARE("raced", 0, mg_malloc(PAGE));

    raced = page;
    struct mg_stats before = stats_now();
    pthread_barrier_init(&begins, NULL, THREADS + 1);
    pthread_barrier_init(&ends, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, racer, (void *)(intptr_t)i) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        if (me == round % nodes)
            for (size_t word = 0; word < WORDS; word++)
                page[word] = round;
        expected = round;
        meet();
        pthread_barrier_wait(&begins);
        pthread_barrier_wait(&ends);
        meet();
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    struct mg_stats after = stats_now();
    CHECK(after.racing_faults - before.racing_faults <= after.read_faults - before.read_faults);
}

static void *reads(void *page)
{
    CHECK(*(volatile int *)page == 7);
    return NULL;
}

/* The node that has the page stands still until two threads of another one have trapped on it. */
static void the_second_fault_of_a_page_is_in_a_race(void)
{
    int *page = SHARE("awaited", 0, mg_malloc(PAGE));
    pid_t *owner = SHARE("owner", 0, mg_malloc(PAGE));

    if (me == 0) {
        page[0] = 7;
        *owner = getpid();
    }
    meet();
    if (me == 1) {
        pid_t stopped = *owner;
        uint64_t before = stats_now().racing_faults;
        pthread_t threads[2];

        CHECK(kill(stopped, SIGSTOP) == 0);
        for (int i = 0; i < 2; i++)
            CHECK(pthread_create(&threads[i], NULL, reads, page) == 0);
        while (stats_now().racing_faults == before) /* soon, or the job's limit of time */
            usleep(1000);
        CHECK(kill(stopped, SIGCONT) == 0);
        for (int i = 0; i < 2; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    }
    meet();
}

static void pages_are_prefetched_and_pushed(void)
{
    enum { PAGES = 96 };
    int *all = SHARE("ahead", 0, mg_malloc(PAGES * PAGE));

    for (int round = 1; round <= 12; round++) {
        if (me == round % nodes) {
            OK(mg_touch_write(all, PAGES * PAGE));
            for (size_t word = 0; word < PAGES * WORDS; word++)
                all[word] = round;
            if (round % 3 == 0)
                OK(mg_push(all, PAGES * PAGE));
        }
        meet();
        OK(mg_prefetch_read(all, PAGES * PAGE));
        for (size_t word = 0; word < PAGES * WORDS; word++)
            CHECK(all[word] == round);
        meet();
    }
}

static void all_zero(const unsigned char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 509)
        CHECK(p[i] == 0);
    CHECK(p[bytes - 1] == 0);
}

static void freed_memory_is_used_again(void)
{
    /* Above 1 MiB an area of its own, which goes back to the system. */
    static const size_t sizes[] = {3000000, 2500000, 1 << 22, 5000, 64};

    for (int round = 0; round < 20; round++) {
        size_t bytes = sizes[round % 5];
        char name[32];

        snprintf(name, sizeof name, "again %d", round);
        unsigned char *p = SHARE(name, round % nodes, mg_calloc(1, bytes));
        all_zero(p, bytes);
        meet();
        if (me == (round + 1) % nodes)
            memset(p, 0xa5, bytes);
        meet();
        CHECK(p[0] == 0xa5 && p[bytes - 1] == 0xa5);
        meet();
        if (me == round % nodes)
            OK(mg_free(p));
        meet();
    }
}

static void large_memory_is_there_from_end_to_end(void)
{
    const size_t bytes = (size_t)96 << 20, step = ((size_t)1 << 20) + 4;
    unsigned char *p = SHARE("large", nodes - 1, mg_malloc(bytes));

    for (size_t i = (size_t)me * step; i < bytes; i += step * (size_t)nodes)
        p[i] = (unsigned char)(i >> 12);
    p[bytes - 1] = 99;
    meet();
    for (size_t i = 0; i < bytes; i += step)
        CHECK(p[i] == (unsigned char)(i >> 12));
    CHECK(p[bytes - 1] == 99);
    meet();
    if (me == 0)
        OK(mg_free(p));
    meet();
}

static void elements_share_pages(void)
{
    enum { COUNT = 600, BYTES = 100 };
    struct element {
        unsigned char bytes[BYTES];
    } *first = SHARE("elements", 0, mg_malloc_array(COUNT, BYTES));

    for (int round = 1; round < 6; round++) {
        for (int i = 0; i < COUNT; i++)
            if ((i + round) % nodes == me)
                memset(mg_element(first, (size_t)i), (i + round) % 251, BYTES);
        meet();
        for (int i = 0; i < COUNT; i++) {
            const unsigned char *element = mg_element(first, (size_t)i);

            CHECK(element[0] == (i + round) % 251 && element[BYTES - 1] == (i + round) % 251);
        }
        meet();
    }
}

static void memory_is_full(const char *mib)
{
    size_t bytes = (size_t)atoi(mib) << 20;

    if (me == 0)
        NONE(mg_malloc(bytes), MG_ELIMIT);
    meet();
    int *small = SHARE("small", 1, mg_malloc(PAGE));
    if (me == 0)
        small[5] = 7;
    meet();
    CHECK(small[5] == 7);
}

static void is_killed(void)
{
    int *page = SHARE("killed", 0, mg_malloc(PAGE));

    page[me] = 1;
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    meet();
    if (me == 1)
        raise(SIGKILL);
    meet();
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    if (argc == 3) {
        memory_is_full(argv[2]);
    } else if (argc == 2) {
        is_killed();
    } else {
        threads_race_for_a_page();
        the_second_fault_of_a_page_is_in_a_race();
        pages_are_prefetched_and_pushed();
        freed_memory_is_used_again();
        large_memory_is_there_from_end_to_end();
        elements_share_pages();
    }
    OK(mg_finalize());
    return 0;
}
