/* What a fault costs, in messages: two nodes, minipages managed by the node that allocated them. */
#include "check.h"

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

static void own_fresh_memory_costs_no_fault(void)
{
    static const size_t sizes[] = {8, 100, 2048, 4096, 65536, 1 << 20};
    struct mg_stats before = stats_now(), after;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int k = 0; k < 10; k++)
            memset(MUST(mg_malloc(sizes[i])), 1, sizes[i]);
    for (size_t i = 0; i < 100; i++)
        memset(MUST(mg_malloc_array(10, 72)), 1, 72);
    after = stats_now();
    CHECK(after.read_faults == before.read_faults && after.write_faults == before.write_faults);
    CHECK(after.local_faults == before.local_faults);
}

int main(int argc, char **argv)
{
    struct mg_stats before, after, owner_before;
    volatile char *page;

    OK(mg_init(&argc, &argv));
    CHECK(mg_nodes() == 2);
    own_fresh_memory_costs_no_fault();
    page = SHARE("page", 0, memset(MUST(mg_malloc(4096)), 7, 4096));
    OK(mg_lock(0)); /* managed by node 0: node 1 has its token from now on, or again */
    OK(mg_unlock(0));
    meet();

    /* A read fetch: request and ack go, the data comes. */
    owner_before = stats_now();
    meet();
    if (mg_node() == 1) {
        before = stats_now();
        CHECK(page[100] == 7);
        after = stats_now();
        CHECK(after.read_faults - before.read_faults == 1);
        CHECK(after.write_faults == before.write_faults);
        CHECK(after.racing_faults == 0);
        CHECK(after.messages_sent - before.messages_sent == 2);
        CHECK(after.messages_received - before.messages_received == 1);
        CHECK(after.page_bytes_sent == before.page_bytes_sent);
        CHECK(after.bytes_received - before.bytes_received >= 4096);
        CHECK(after.bytes_received - before.bytes_received < 4096 + 64);
        /* A copy that is here costs nothing. */
        CHECK(page[200] == 7);
        CHECK(stats_now().read_faults == after.read_faults);
        CHECK(stats_now().messages_sent == after.messages_sent);
    }
    meet();
    if (mg_node() == 0)
        CHECK(stats_now().page_bytes_sent - owner_before.page_bytes_sent == 4096);

    /* An upgrade: no page travels. */
    owner_before = stats_now();
    meet();
    if (mg_node() == 1) {
        before = stats_now();
        page[100] = 8;
        after = stats_now();
        CHECK(after.write_faults - before.write_faults == 1);
        CHECK(after.messages_sent - before.messages_sent == 2); /* request, ack */
        CHECK(after.messages_received - before.messages_received == 1);
        CHECK(after.bytes_received - before.bytes_received < 64);
        page[101] = 9; /* writable now */
        CHECK(stats_now().write_faults == after.write_faults);
        CHECK(stats_now().messages_sent == after.messages_sent);
    }
    meet();
    after = stats_now();
    CHECK(after.page_bytes_sent == owner_before.page_bytes_sent);
    CHECK(after.upgrades - owner_before.upgrades == (mg_node() == 1));
    meet();
    if (mg_node() == 0) {
        CHECK(after.invalidations - owner_before.invalidations == 1);
        /* It comes back: one request, one page. */
        CHECK(page[100] == 8 && page[101] == 9 && page[102] == 7);
    }
    meet();
    OK(mg_finalize());
    return 0;
}
