/*
 * A flush of many pages gets one answer. Node 1 has copies of PAGES pages of node 0, writes them, which
 * costs no message, and posts a semaphore of node 0's. That says once that it has them all: or twice,
 * if its thread comes to wait while they arrive.
 */
#include "check.h"

enum { PAGES = 100, PAGE = 4096, FRAME = 32 };

int main(int argc, char **argv)
{
    struct mg_stats before, after;
    unsigned char *p;

    OK(mg_init(&argc, &argv));
    CHECK(mg_nodes() == 2);
    p = SHARE("pages", 0, mg_malloc_with(PAGES * PAGE, PAGE, MG_LAZY_RELEASE));
    if (mg_node() == 0)
        memset(p, 1, PAGES * PAGE);
    OK(mg_barrier(0, 0));
    for (int page = 0; page < PAGES; page++)
        CHECK(p[page * PAGE] == 1);
    OK(mg_barrier(0, 0));
    before = stats_now();
    if (mg_node() == 1) {
        memset(p, 2, PAGES * PAGE);
        OK(mg_sem_post(2, 1));
        after = stats_now();
        CHECK(after.diffs_sent - before.diffs_sent == PAGES);
        CHECK(after.diff_bytes_sent - before.diff_bytes_sent == PAGES * (PAGE + 16));
    } else {
        OK(mg_sem_wait(2));
        after = stats_now();
        CHECK(after.messages_sent - before.messages_sent <= 2);
        CHECK(after.bytes_sent - before.bytes_sent <= 2 * FRAME);
        for (int i = 0; i < PAGES * PAGE; i++)
            CHECK(p[i] == 2);
    }
    OK(mg_barrier(0, 0));
    OK(mg_finalize());
    return 0;
}
