/* What can be set of a segment, by whom, and what others see of it. */
#include "check.h"

#define PAGE 4096

static uint64_t window_us(const void *p)
{
    struct mg_segment_info stat;

    OK(mg_segment_stat_at(p, &stat, sizeof stat));
    return stat.window_us;
}

int main(int argc, char **argv)
{
    struct mg_segment_policy policy = {.size = sizeof policy, .window_us = 1500};
    char *p, *lazy, *heap;
    int me;

    OK(mg_init(&argc, &argv));
    me = mg_node();
    if (me == 0) {
        OK(mg_segment_create("set", 4 * PAGE, 0600, &policy));
        policy.consistency = MG_LAZY_RELEASE;
        CODE(mg_segment_create("lazy", PAGE, 0600, &policy), MG_EINVAL);
        policy.window_us = 0;
        OK(mg_segment_create("lazy", PAGE, 0600, &policy));
        policy.consistency = MG_SEQUENTIAL;
        policy.window_us = 10000001;
        CODE(mg_segment_create("long", PAGE, 0600, &policy), MG_EINVAL);
    }
    p = MUST(mg_segment_attach("set", MG_SEGMENT_WAIT | MG_SEGMENT_READ_ONLY));
    CHECK(window_us(p) == 1500);
    CODE(mg_segment_set(p, 0, MG_SEGMENT_WINDOW, 1), MG_EACCES);
    CHECK(mg_segment_attach("set", 0) == p);
    CODE(mg_segment_set(p, 0, (enum mg_segment_option)9, 1), MG_EINVAL);
    CODE(mg_segment_set(p, 0, MG_SEGMENT_WINDOW, 10000001), MG_EINVAL);
    CODE(mg_segment_set(p + 1, 0, MG_SEGMENT_WINDOW, 1), MG_EINVAL);
    CODE(mg_segment_set(p, 4 * PAGE + 1, MG_SEGMENT_WINDOW, 1), MG_EINVAL);
    CODE(mg_segment_set(&policy, PAGE, MG_SEGMENT_WINDOW, 1), MG_ENOTSHARED);
    heap = MUST(mg_malloc(PAGE));
    CODE(mg_segment_set(heap, 0, MG_SEGMENT_WINDOW, 1), MG_ENOTSHARED);
    lazy = MUST(mg_segment_attach("lazy", MG_SEGMENT_WAIT));
    CODE(mg_segment_set(lazy, 0, MG_SEGMENT_WINDOW, 1), MG_EINVAL);
    OK(mg_barrier(0, 0));
    for (int node = 0; node < mg_nodes(); node++) {
        if (me == node)
            OK(mg_segment_set(p, 0, MG_SEGMENT_WINDOW, (uint64_t)node * 10 + 10));
        OK(mg_barrier(0, 0));
        CHECK(window_us(p) == (uint64_t)node * 10 + 10);
        OK(mg_barrier(0, 0));
    }
    OK(mg_finalize());
    return 0;
}
