/*
 * Areas that come and go leave next to nothing in the nodes' own memory, however large they were; with an argument,
 * areas of which nodes wrote all pages, and others read them, or with "unread" did not.
 */
#include "check.h"

#define WARM 2000
#define ROUNDS 8000
/* What an area of which nothing is allocated any more may cost a node for ever, in bytes. */
#define MOST_BYTES 200

/* The same of areas of which every page was used, few and so less exactly; one has 16 KiB of states under lazy release. */
#define WARM_USED 60
#define ROUNDS_USED 200
#define USED_BYTES (2 << 20)
#define MOST_BYTES_USED 4096

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

/* Every page is written by the node that allocates, odd ones by the next node too, and all are read by all. */
static void come_into_use_and_go(int rounds, int read)
{
    for (int i = 0; i < rounds; i++) {
        int maker = i % mg_nodes(), writer = (maker + 1) % mg_nodes();
        char *block = NULL;
        if (mg_node() == maker) {
            block = MUST(mg_malloc(USED_BYTES));
            for (long at = 0; at < USED_BYTES; at += 4096)
                block[at] = (char)i;
            OK(mg_publish("block", block));
        }
        OK(mg_barrier(1, 0));
        block = MUST(mg_lookup("block"));
        if (mg_node() == writer)
            for (long at = 4096; at < USED_BYTES; at += 8192)
                block[at] = (char)(i + 1);
        OK(mg_barrier(1, 0));
        for (long at = 0; read && at < USED_BYTES; at += 4096)
            CHECK(block[at] == (char)(at % 8192 != 0 ? i + 1 : i));
        OK(mg_barrier(1, 0));
        if (mg_node() == maker)
            OK(mg_free(block));
    }
    OK(mg_barrier(1, 0));
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int used = argc > 1, read = used && strcmp(argv[1], "unread") != 0;
    long areas = used ? ROUNDS_USED : ROUNDS, warm = used ? WARM_USED : WARM, before = 0;

    for (int round = 0; round < 2; round++) {
        before = own_kb();
        long count = round == 0 ? warm : areas;
        if (used)
            come_into_use_and_go((int)count, read);
        else
            come_and_go((int)count);
    }
    long grown = own_kb() - before;
    if (grown * 1024 > areas * (used ? MOST_BYTES_USED : MOST_BYTES)) {
        fprintf(stderr, "%ld KiB for %ld areas\n", grown, areas);
        return 1;
    }
    OK(mg_finalize());
    return 0;
}
