/* Sequential counters of threads side by side, behind a table that is only read: each node writes its own one until it
 * has fetched their page often enough to be worth a line. */
#include "check.h"

#include <time.h>

enum { TABLE = 6, FAULTS = 600 };

struct shared {
    long table[TABLE];
    volatile long counts[8];
};

int main(int argc, char **argv)
{
    struct mg_stats stats;
    struct shared *shared;
    volatile int *enough;
    const struct timespec pause = {.tv_nsec = 50000};

    OK(mg_init(&argc, &argv));
    shared = SHARE("shared", 0, mg_malloc_with(sizeof *shared, 0, MG_SEQUENTIAL));
    enough = SHARE("enough", 0, mg_malloc_with(sizeof *enough, 0, MG_SEQUENTIAL));
    OK(mg_barrier(0, 0));
    do {
        shared->counts[mg_node()]++;
        nanosleep(&pause, NULL);
        stats = stats_now();
        if (stats.read_faults + stats.write_faults >= FAULTS)
            *enough = 1;
    } while (!*enough);
    return mg_finalize();
}
