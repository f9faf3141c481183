/* A million minipages of 64 bytes in one call, written on node 0, read in part on the last node. */
#include "check.h"

#define COUNT 1000000

int main(int argc, char **argv)
{
    void *array, **all;

    OK(mg_init(&argc, &argv));
    if (mg_node() == 0) {
        struct mg_stats before = stats_now();

        array = MUST(mg_malloc_array(COUNT, 64));
        all = malloc(COUNT * sizeof *all);
        OK(mg_elements(array, COUNT, all));
        for (uint64_t i = 0; i < COUNT; i++)
            *(uint64_t *)all[i] = i * 3;
        CHECK(stats_now().minipages - before.minipages == COUNT);
        CHECK(stats_now().write_faults == before.write_faults);
        OK(mg_publish("million", array));
        free(all);
    }
    array = MUST(mg_lookup("million"));
    if (mg_node() == mg_nodes() - 1)
        for (uint64_t i = 0; i < COUNT; i += 997)
            CHECK(*(uint64_t *)MUST(mg_element(array, i)) == i * 3);
    OK(mg_barrier(0, 0));
    if (mg_node() == 0)
        OK(mg_free(array));
    OK(mg_finalize());
    return 0;
}
