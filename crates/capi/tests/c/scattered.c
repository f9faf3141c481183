/*
 * Node 1 goes through arrays that node 0 has written, a page at a time in no order. The pages come together as soon as
 * faults have cost what all the rest does; but not where the node needs few of them, nor between locks, nor pages that nobody
 * has touched, whose home the node would become (ADR 67). With
 * "writes" it writes them, as radix sort does.
 */
#include "check.h"

#define PAGES 512
#define WORDS (4096 / sizeof(int64_t))
/* The pages of a block are asked for at the 52nd fault; some more faults are on pages that are on their way. */
#define MOST_MESSAGES 220

struct way {
    const char *what;
    int every; /* it needs one page of so many */
    int fresh; /* nobody has written it */
    int locks; /* it takes a lock, or 2: a read-write lock, after every fourth */
};

static const struct way ways[] = {
    {"all", 1, 0, 0}, {"few", 37, 0, 0}, {"locks", 1, 0, 1}, {"rwlocks", 1, 0, 2}, {"own", 2, 1, 0},
};

static void use(int64_t *array, const struct way *way, int writes)
{
    for (int i = 0; i < PAGES; i += way->every) {
        int page = i * 201 % PAGES;
        int64_t *words = array + (size_t)page * WORDS;

        if (i % 4 == 0 && way->locks == 1) {
            OK(mg_lock(1));
            OK(mg_unlock(1));
        }
        if (i % 4 == 0 && way->locks == 2) {
            OK(mg_rwlock_rdlock(1));
            OK(mg_rwlock_unlock(1));
        }
        if (writes)
            words[1] = ~page;
        else
            CHECK(words[0] == (way->fresh ? 0 : page + 1));
    }
}

static void check_costs(const struct way *way, const struct mg_stats *before)
{
    struct mg_stats after;
    unsigned needed = (PAGES + way->every - 1) / way->every;

    OK(mg_get_stats(&after, sizeof after));
    unsigned long long messages = after.messages_sent - before->messages_sent;
    unsigned long long bytes = after.bytes_received - before->bytes_received;
    if (way->every == 1 && !way->locks ? messages > MOST_MESSAGES : messages < needed && !way->fresh)
        FAIL("%s: %llu messages for %u pages", way->what, messages, needed);
    if (bytes > needed * 4096 * 11 / 10)
        FAIL("%s: %llu bytes for %u pages", way->what, bytes, needed);
}

/* Node 0 writes the pages that node 1 has left alone: it is their home. */
static void write_the_others(int64_t *array)
{
    struct mg_stats before, after;

    OK(mg_get_stats(&before, sizeof before));
    for (int i = 1; i < PAGES; i += 2)
        array[i * WORDS + 2] = i;
    OK(mg_get_stats(&after, sizeof after));
    if (after.messages_sent - before.messages_sent > PAGES / 8)
        FAIL("%llu messages for pages of its own", (unsigned long long)(after.messages_sent - before.messages_sent));
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int writes = argc > 1 && strcmp(argv[1], "writes") == 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int64_t *array = SHARE(ways[i].what, 0, mg_malloc(PAGES * WORDS * sizeof *array));
        struct mg_stats before;

        for (int page = 0; page < PAGES && mg_node() == 0 && !ways[i].fresh; page++)
            array[page * WORDS] = page + 1;
        OK(mg_barrier(0, 0));
        OK(mg_get_stats(&before, sizeof before));
        if (mg_node() == 1) {
            use(array, &ways[i], writes);
            check_costs(&ways[i], &before);
        }
        OK(mg_barrier(0, 0));
        if (ways[i].fresh && mg_node() == 0)
            write_the_others(array);
        OK(mg_barrier(0, 0));
        for (int j = 0; j < PAGES && writes; j += ways[i].every) {
            int page = j * 201 % PAGES;

            CHECK(array[page * WORDS] == (ways[i].fresh ? 0 : page + 1) && array[page * WORDS + 1] == ~page);
        }
        OK(mg_barrier(0, 0));
    }
    OK(mg_finalize());
    return 0;
}
