/*
 * Two threads of each node allocate at the same time: what is fresh costs no fault, and the counters
 * miss nothing. Each size is a slab of its own, so both often find it full together.
 */
#include "check.h"

#include <pthread.h>

#define EACH 20000
#define ROUNDS 4

static pthread_barrier_t together;

static void *allocate(void *arg)
{
    for (size_t bytes = 32; bytes < 32 + 16 * ROUNDS; bytes += 16) {
        pthread_barrier_wait(&together);
        for (int i = 0; i < EACH; i++)
            memset(MUST(mg_malloc(bytes)), 1, bytes);
    }
    return arg;
}

int main(int argc, char **argv)
{
    struct mg_stats before, after;
    pthread_t other;
    uint64_t bytes = 0;

    OK(mg_init(&argc, &argv));
    CHECK(pthread_barrier_init(&together, NULL, 2) == 0);
    before = stats_now();
    CHECK(pthread_create(&other, NULL, allocate, NULL) == 0);
    allocate(NULL);
    CHECK(pthread_join(other, NULL) == 0);
    after = stats_now();
    if (after.write_faults != before.write_faults || after.read_faults != before.read_faults)
        FAIL("%llu faults", (unsigned long long)(after.write_faults - before.write_faults));
    if (after.minipages - before.minipages != 2 * EACH * ROUNDS)
        FAIL("%llu minipages", (unsigned long long)(after.minipages - before.minipages));
    for (size_t size = 32; size < 32 + 16 * ROUNDS; size += 16)
        bytes += 2 * EACH * size;
    CHECK(after.shared_bytes - before.shared_bytes >= bytes);
    OK(mg_finalize());
    return 0;
}
