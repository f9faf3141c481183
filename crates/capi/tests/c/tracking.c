/*
 * What homes write is found by faults or, if the argument is "scans", without any: node 0 is the home
 * first, then node 1, for it alone writes between two barriers. With the argument "ahead" the first fault of
 * a round opens all that was written in the round before, and in the first round a scan opens what comes next.
 */
#include "check.h"

enum { PAGES = 16, ROUNDS = 5, PAGE = 4096 };

/* Faults of a scan of 16 pages: on 0, 1, 2, which asks for 3 and 4, 3, which opens 4, 5, 6, 10 and 11. */
enum { SCAN = 8 };

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

/* The writer writes every page in every round, and the other node sees it; the writer's faults. */
static uint64_t rounds(unsigned char *p, int writer, int first)
{
    uint64_t before = stats_now().write_faults;

    for (int round = first; round < first + ROUNDS; round++) {
        for (int page = 0; page < PAGES && mg_node() == writer; page++)
            p[page * PAGE + round] = (unsigned char)(round + page);
        meet();
        for (int page = 0; page < PAGES && mg_node() != writer; page++)
            CHECK(p[page * PAGE + round] == (unsigned char)(round + page));
        meet();
    }
    return stats_now().write_faults - before;
}

int main(int argc, char **argv)
{
    int scans = argc > 1 && strcmp(argv[1], "scans") == 0;
    int ahead = argc > 1 && strcmp(argv[1], "ahead") == 0;
    uint64_t trapped = ahead ? SCAN + ROUNDS - 1 : PAGES * ROUNDS;
    uint64_t faults;
    unsigned char *p;

    OK(mg_init(&argc, &argv));
    CHECK(mg_nodes() == 2);
    p = SHARE("pages", 0, mg_malloc_with(PAGES * PAGE, PAGE, MG_LAZY_RELEASE));
    for (int page = 0; page < PAGES && mg_node() == 0; page++)
        p[page * PAGE + ROUNDS * 2] = 1;
    meet();
    for (int page = 0; page < PAGES && mg_node() == 1; page++)
        CHECK(p[page * PAGE + ROUNDS * 2] == 1);
    meet();
    faults = rounds(p, 0, 0);
    CHECK(faults == (mg_node() != 0 || scans ? 0 : trapped));
    /* The first time they are no home's writes. */
    faults = rounds(p, 1, ROUNDS);
    CHECK(faults == (mg_node() != 1 ? 0 : scans ? PAGES : trapped));
    OK(mg_finalize());
    return 0;
}
