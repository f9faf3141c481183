/*
 * Areas of 64 views each, until the system maps no more (vm.max_map_count; or, "limited" after mg_init,
 * RLIMIT_AS): a code, and a line on stderr. What was there before is good as before.
 */
#include "check.h"

#include <sys/resource.h>

/* 128 MiB of addresses more than there are. */
static void limit(void)
{
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    struct rlimit addresses = {pages * 4096 + (128ul << 20), RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &addresses) == 0);
}

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
        if (argc > 1)
            limit();
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
