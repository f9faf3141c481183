/*
 * A million minipages of 64 bytes in one call, written on node 0 and read on the last node: some of
 * them, or all if asked for. What they cost a node is less than 64 bytes each, beside page tables.
 */
#include "check.h"

#define COUNT 1000000

/* Memory of this process that is neither shared nor a file's, in bytes. */
int main(int argc, char **argv)
{
    uint64_t step = argc > 1 && strcmp(argv[1], "all") == 0 ? 1 : 997;
    double before, each;
    void *array, **all;

    OK(mg_init(&argc, &argv));
    before = own_bytes();
    if (mg_node() == 0) {
        struct mg_stats stats = stats_now();

        array = MUST(mg_malloc_array(COUNT, 64));
        all = MUST(malloc(COUNT * sizeof *all));
        OK(mg_elements(array, COUNT, all));
        for (uint64_t i = 0; i < COUNT; i++)
            *(uint64_t *)all[i] = i * 3;
        CHECK(stats_now().minipages - stats.minipages == COUNT);
        CHECK(stats_now().write_faults == stats.write_faults);
        OK(mg_publish("million", array));
        free(all);
    }
    array = MUST(mg_lookup("million"));
    if (mg_node() == mg_nodes() - 1)
        for (uint64_t i = 0; i < COUNT; i += step)
            CHECK(*(uint64_t *)MUST(mg_element(array, i)) == i * 3);
    OK(mg_barrier(0, 0));
    each = (own_bytes() - before) / COUNT;
    printf("node %d: %.1f bytes a minipage\n", mg_node(), each);
    CHECK(each < 64);
    if (mg_node() == 0)
        OK(mg_free(array));
    OK(mg_finalize());
    return 0;
}
