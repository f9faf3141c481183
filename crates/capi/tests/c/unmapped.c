/*
 * A node that cannot map an area, for its address space is limited: the allocation is refused, again and again, and what the others
 * have mapped of it is given back, so that the job's shared size is there when the limit is gone.
 */
#include "check.h"

#include <sys/resource.h>

#define TRIES 8
#define BYTES ((size_t)512 << 20)

/* Bytes of address space in use. */
static rlim_t used(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int limited = argc > 1 ? atoi(argv[1]) : 1;
    struct rlimit before;

    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    OK(mg_barrier(0, 0));
    if (mg_node() == limited) {
        struct rlimit low = { used() + BYTES / 4 * 3, before.rlim_max };

        CHECK(setrlimit(RLIMIT_AS, &low) == 0);
    }
    OK(mg_barrier(0, 0));
    if (mg_node() == 0)
        for (int i = 0; i < TRIES; i++)
            NONE(mg_malloc(BYTES), MG_ELIMIT);
    OK(mg_barrier(0, 0));
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    OK(mg_barrier(0, 0));
    if (mg_node() == 0)
        for (int i = 0; i < 2; i++) {
            int *block = MUST(mg_malloc(BYTES));

            for (size_t at = 0; at < BYTES / sizeof *block; at += 1 << 18)
                CHECK(block[at] == 0);
            block[0] = 7;
        }
    OK(mg_finalize());
    return 0;
}
