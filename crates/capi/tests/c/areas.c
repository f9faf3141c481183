/*
 * Areas of 64 views each, until the system maps no more (vm.max_map_count): a code, and a line on
 * stderr. What was there before is good as before.
 */
#include "check.h"

int main(int argc, char **argv)
{
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");
    uint64_t *first, *last = NULL, *next;
    long mappings, areas = 0;

    CHECK(file != NULL && fscanf(file, "%ld", &mappings) == 1);
    fclose(file);
    OK(mg_init(&argc, &argv));
    first = SHARE("first", 0, mg_calloc(1, sizeof *first));
    if (mg_node() == 0) {
        /* An element of 64 bytes has 63 places beside it, in as many views. */
        while (areas <= mappings / 64 && (next = mg_malloc_array(1, 64)) != NULL) {
            *next = (uint64_t)++areas;
            last = next;
        }
        CHECK(areas > 100 && areas <= mappings / 64);
        CHECK(mg_last_error() == MG_ELIMIT);
        OK(mg_publish("last", last));
    } else {
        areas = (long)*(uint64_t *)MUST(mg_lookup("last"));
        CHECK(areas > 100);
    }
    __atomic_fetch_add(first, 1, __ATOMIC_SEQ_CST);
    OK(mg_barrier(0, (uint32_t)mg_nodes()));
    CHECK(*first == (uint64_t)mg_nodes());
    OK(mg_finalize());
    return 0;
}
