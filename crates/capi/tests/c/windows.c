/*
 * EachN of MIRAGE+ (5.2) with two nodes: they write every eighth byte of one page in turn, one from the first on
 * and one from the fifth. Prints how many pages moved. The argument is the time window in microseconds; with "page" behind
 * it, it is set for the page alone.
 */
#include "check.h"

#include <time.h>

#define PAGE 4096
#define ROUNDS 150

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Computes for a while, so that turns of one byte are not all there is to do. */
static void think(uint64_t ns)
{
    const uint64_t until = now_ns() + ns;

    while (now_ns() < until)
        ;
}

int main(int argc, char **argv)
{
    struct mg_segment_policy policy = {.size = sizeof policy};
    struct mg_segment_info stat;
    volatile unsigned char *page;
    uint64_t *moved, window_us;
    int me;

    OK(mg_init(&argc, &argv));
    CHECK(argc > 1);
    me = mg_node();
    window_us = strtoull(argv[1], NULL, 10);
    if (argc == 2)
        policy.window_us = window_us;
    moved = SHARE("moved", 0, mg_calloc((size_t)mg_nodes(), sizeof *moved));
    if (me == 0)
        OK(mg_segment_create("each", 3 * PAGE, 0600, &policy));
    page = MUST(mg_segment_attach("each", MG_SEGMENT_WAIT));
    page += PAGE;
    OK(mg_barrier(0, 0));
    if (argc > 2 && me == 0)
        OK(mg_segment_set((const void *)page, PAGE, MG_SEGMENT_WINDOW, window_us));
    OK(mg_barrier(0, 0));
    {
        const uint64_t before = stats_now().page_bytes_sent;

        for (int round = 1; round <= ROUNDS; round++)
            for (int i = me * 4; i < PAGE; i += 8) {
                page[i] = (unsigned char)round;
                think(2000);
            }
        moved[me] = (stats_now().page_bytes_sent - before) / PAGE;
    }
    OK(mg_segment_stat("each", &stat, sizeof stat));
    CHECK(stat.window_us == (argc == 2 ? window_us : 0));
    CHECK(stat.write_faults > 0 && stat.longest_wait_ns <= stat.wait_ns);
    CHECK((stat.windows > 0) == (window_us > 0));
    /* Nobody waits for more than a window, and what it takes to be served on a busy machine. */
    CHECK(stat.longest_wait_ns < window_us * 1000 + 2000000000u);
    OK(mg_barrier(0, 0));
    for (int i = 0; i < PAGE; i++)
        CHECK(page[i] == (i % 4 == 0 ? ROUNDS : 0));
    if (me == 0)
        printf("%llu\n", (unsigned long long)(moved[0] + moved[1]));
    OK(mg_barrier(0, 0));
    OK(mg_finalize());
    return 0;
}
