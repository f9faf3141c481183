/*
 * Areas that come and go leave next to nothing in the nodes' own memory, however large they were.
 */
#include "check.h"

#define WARM 2000
#define ROUNDS 8000
/* What an area of which nothing is allocated any more may cost a node for ever, in bytes. */
#define MOST_BYTES 200

static long own_kb(void)
{
    char line[256];
    long kb = -1;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        sscanf(line, "RssAnon: %ld kB", &kb);
    fclose(status);
    CHECK(kb > 0);
    return kb;
}

static void come_and_go(int rounds)
{
    for (int i = 0; i < rounds / mg_nodes(); i++) {
        char *block = MUST(mg_malloc(3000000));
        block[5] = 1;
        OK(mg_free(block));
    }
    OK(mg_barrier(1, 0));
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    come_and_go(WARM);
    long before = own_kb();
    come_and_go(ROUNDS);
    long areas = ROUNDS, grown = own_kb() - before;
    if (grown * 1024 > areas * MOST_BYTES) {
        fprintf(stderr, "%ld KiB for %ld areas\n", grown, areas);
        return 1;
    }
    OK(mg_finalize());
    return 0;
}
