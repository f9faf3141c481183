/*
 * Memory of every consistency, used by the rules of release consistency, which the sequential kind
 * fulfils as well. The argument is what the job was told, if anything.
 */
#include "check.h"

#define LOCK 3
#define SEMAPHORE 4
#define PAGE(p) ((uintptr_t)(p) / 4096)

static const enum mg_consistency kinds[] = {MG_DEFAULT, MG_SEQUENTIAL, MG_EAGER_RELEASE,
                                            MG_LAZY_RELEASE, MG_AUTO};
static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

/* What the default stands for in this job. */
static enum mg_consistency meaning(enum mg_consistency kind, const char *job)
{
    if (kind != MG_DEFAULT)
        return kind;
    if (job == NULL || strcmp(job, "sequential") == 0)
        return MG_SEQUENTIAL;
    if (strcmp(job, "auto") == 0)
        return MG_AUTO;
    return strcmp(job, "eager-release") == 0 ? MG_EAGER_RELEASE : MG_LAZY_RELEASE;
}

/* All nodes write to every page, each to bytes of its own, and all see the bytes of all. */
static void all_write(unsigned char *p, size_t bytes)
{
    for (int round = 1; round <= 2; round++) {
        for (size_t i = (size_t)me; i < bytes; i += (size_t)nodes)
            p[i] = (unsigned char)(i * 7 + (size_t)round);
        meet();
        for (size_t i = 0; i < bytes; i++)
            if (p[i] != (unsigned char)(i * 7 + (size_t)round))
                FAIL("byte %zu of %zu is %d in round %d", i, bytes, p[i], round);
        meet();
    }
}

static void blocks(enum mg_consistency kind)
{
    static const size_t sizes[] = {1, 64, 148, 2048, 2049, 4096, 9000, 65536, 70000};
    static const size_t grains[] = {0, 1, 64, 4096, 8192, 100000};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizeof grains / sizeof *grains; k++) {
            int owner = (int)(i + k) % nodes;
            char name[64];
            unsigned char *p;

            snprintf(name, sizeof name, "block %d %zu %zu", kind, i, k);
            p = SHARE(name, owner, mg_malloc_with(sizes[i], grains[k], kind));
            CHECK((uintptr_t)p % (sizes[i] > 2048 ? 4096 : 8) == 0);
            all_write(p, sizes[i]);
            if (me == (owner + 1) % nodes) {
                OK(mg_free(p));
                CODE(mg_free(p), MG_EPERM);
            }
            meet();
        }
    }
}

static void arrays(enum mg_consistency kind)
{
    static const size_t sizes[] = {4, 72, 2048, 6000};
    enum { COUNT = 60 };

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[64];
        uint32_t *array, *all[COUNT];

        snprintf(name, sizeof name, "array %d %zu", kind, i);
        array = SHARE(name, nodes - 1, mg_malloc_array_with(COUNT, sizes[i], kind));
        OK(mg_elements(array, COUNT, (void **)all));
        for (size_t k = 0; k < COUNT; k++) {
            CHECK(all[k] == mg_element(array, k));
            for (size_t word = (size_t)me; word < sizes[i] / 4; word += (size_t)nodes)
                all[k][word] = (uint32_t)(k * 10000 + word);
        }
        meet();
        for (size_t k = 0; k < COUNT; k++)
            for (size_t word = 0; word < sizes[i] / 4; word++)
                CHECK(all[k][word] == (uint32_t)(k * 10000 + word));
        meet();
        if (me == 0)
            OK(mg_free(array));
        meet();
    }
}

/* Locks, semaphores, thread starts and joins order as barriers do. */
static void *twice(void *arg)
{
    uint64_t *pair = arg;

    pair[1] = 2 * pair[0];
    return NULL;
}

static void orders(enum mg_consistency kind)
{
    char name[64];
    uint64_t *pair;
    mg_thread thread;

    snprintf(name, sizeof name, "pair %d", kind);
    pair = SHARE(name, 0, mg_malloc_with(2 * sizeof *pair, 0, kind));
    if (me == 0)
        pair[0] = pair[1] = 0;
    meet();
    for (int i = 0; i < 100; i++) {
        OK(mg_lock(LOCK));
        CHECK(pair[0] == pair[1]);
        pair[0]++;
        pair[1]++;
        OK(mg_unlock(LOCK));
    }
    meet();
    CHECK(pair[0] == 100 * (uint64_t)nodes && pair[1] == pair[0]);
    meet();
    if (me == 0) {
        pair[0] = 77;
        OK(mg_sem_post(SEMAPHORE, 1));
    }
    if (me == nodes - 1) {
        OK(mg_sem_wait(SEMAPHORE));
        CHECK(pair[0] == 77);
        pair[0] = 21;
        OK(mg_thread_create(&thread, 0, twice, pair));
        OK(mg_thread_join(thread, NULL));
        CHECK(pair[1] == 42);
    }
    meet();
}

/* Small allocations of release memory fill pages; sequential ones have views of their own. */
static void places(enum mg_consistency kind, enum mg_consistency is)
{
    enum { COUNT = 200 };
    int neighbours = 0;
    uint64_t before = stats_now().minipages;
    char *last = NULL, *all[COUNT];

    for (int i = 0; i < COUNT; i++) {
        all[i] = MUST(mg_malloc_with(500, 0, kind));
        neighbours += i > 0 && PAGE(all[i]) == PAGE(last);
        last = all[i];
    }
    if (is == MG_SEQUENTIAL) {
        CHECK(neighbours == 0);
    } else {
        CHECK(neighbours >= COUNT - 1 - COUNT / 8 - 1);
        CHECK(stats_now().minipages - before <= COUNT / 8); /* less if used before */
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char *other = MUST(mg_malloc_with(500, 0, kinds[k]));

        if (kind != MG_DEFAULT && kinds[k] != MG_DEFAULT && kinds[k] != kind)
            for (int i = 0; i < COUNT; i++)
                CHECK(PAGE(other) != PAGE(all[i]));
        OK(mg_free(other));
    }
    for (int i = 0; i < COUNT; i++)
        OK(mg_free(all[i]));
    meet();
}

/* A grain as large as the allocation makes it a minipage of its own, whatever the consistency. */
static void own_minipages(enum mg_consistency kind)
{
    uint64_t before = stats_now().minipages;
    char *one = MUST(mg_malloc_with(720, 720, kind));
    char *two = MUST(mg_malloc_with(720, 720, kind));

    CHECK(PAGE(one) != PAGE(two));
    CHECK(stats_now().minipages - before == 2);
    meet();
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        places(kinds[i], meaning(kinds[i], argc > 1 ? argv[1] : NULL));
        own_minipages(kinds[i]);
        blocks(kinds[i]);
        arrays(kinds[i]);
        orders(kinds[i]);
    }
    OK(mg_finalize());
    return 0;
}
