/*
 * Freed memory goes back. Without an argument: arrays of random lengths, elements of freed ones, nodes
 * that allocate most of the shared size in turn, and what the system gets back. With "huge": 1 TiB.
 */
#include "check.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#define MIB ((size_t)1 << 20)
#define LIVE 10
#define ROUNDS 700

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

/* Bytes that the system keeps for this node's shared memory. */
static size_t kept(void)
{
    DIR *descriptors = opendir("/proc/self/fd");
    struct dirent *entry;
    size_t bytes = SIZE_MAX;

    CHECK(descriptors != NULL);
    while ((entry = readdir(descriptors)) != NULL) {
        char path[300], target[64] = "";
        struct stat status;

        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) > 0 && strncmp(target, "/memfd:multigrain ", 18) == 0) {
            CHECK(stat(path, &status) == 0);
            bytes = (size_t)status.st_blocks * 512;
        }
    }
    closedir(descriptors);
    CHECK(bytes != SIZE_MAX);
    return bytes;
}

static size_t random_below(size_t end)
{
    static uint64_t state = 12345;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % end;
}

/* Ten arrays live at a time, each of a length of its own, made and freed by any node. */
static void random_lengths(void)
{
    uint64_t **live = SHARE("live", 0, mg_calloc(LIVE, sizeof *live));
    size_t count[LIVE] = {0};

    for (int round = 0; round < ROUNDS; round++) {
        size_t which = random_below(LIVE), length = 1 + random_below(3000);
        size_t bytes = (size_t)8 << random_below(4);

        if (me == round % nodes) {
            if (live[which] != NULL) {
                size_t last = count[which] - 1;

                CHECK(*(uint64_t *)MUST(mg_element(live[which], last)) == last);
                OK(mg_free(live[which]));
            }
            live[which] = MUST(mg_malloc_array(length, bytes));
            for (size_t i = 0; i < length; i++) {
                uint64_t *element = MUST(mg_element(live[which], i));

                CHECK(*element == 0); /* as new */
                *element = i;
            }
        }
        count[which] = length;
        meet();
    }
    if (me == 0)
        for (int i = 0; i < LIVE; i++)
            OK(mg_free(live[i]));
    meet();
}

static void freed_arrays_have_no_elements(void)
{
    void *array = SHARE("freed", 0, mg_malloc_array(100, 64)), *out[100];

    *(int *)MUST(mg_element(array, (size_t)me)) = me;
    meet();
    if (me == nodes - 1)
        OK(mg_free(array));
    meet();
    NONE(mg_element(array, 0), MG_ENOTSHARED);
    CODE(mg_elements(array, 100, out), MG_ENOTSHARED);
    CODE(mg_free(array), MG_EPERM);
    meet();
}

/* Each in turn has most of what there is: of blocks, elements and small allocations. */
static void nodes_allocate_in_turn(size_t most)
{
    size_t before = kept(), each = 1000;
    char **box = SHARE("box", 0, mg_calloc(1, sizeof *box)), **small = malloc(most / each * sizeof *small);

    for (int turn = 0; turn < 3 * nodes; turn++) {
        if (me == turn % nodes) {
            *box = turn < nodes ? MUST(mg_malloc(most)) : MUST(mg_malloc_array(most / 1024, 1024));
            for (size_t at = 0; at < most; at += 4096)
                (*box)[turn < nodes ? at : 0] = 1;
        }
        meet();
        for (size_t at = 0; turn < nodes && at < most; at += 4096)
            CHECK((*box)[at] == 1);
        meet();
        if (me == (turn + 1) % nodes)
            OK(mg_free(*box));
        meet();
        if (kept() > before + 4 * MIB)
            FAIL("%zu MiB are kept", kept() / MIB);
        meet();
        if (me == turn % nodes) {
            for (size_t i = 0; i < most / each; i++)
                *(small[i] = MUST(mg_malloc(each))) = 1;
            for (size_t i = 0; i < most / each; i++)
                OK(mg_free(small[i]));
            if (kept() > before + 8 * MIB)
                FAIL("%zu MiB are kept of small allocations", kept() / MIB);
        }
        meet();
    }
    free(small);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void huge(void)
{
    const size_t bytes = (size_t)1 << 40;

    NONE(mg_malloc_grain(bytes, bytes), MG_ELIMIT);
    meet();
    for (int round = 0; round < 3; round++) {
        double before = seconds();

        if (me == round % nodes) {
            char *block = MUST(mg_malloc(bytes));

            for (int i = 0; i < 1000; i++)
                block[bytes / 1000 * (size_t)i] = 1;
            OK(mg_free(block));
        }
        meet();
        if (seconds() - before > 10)
            FAIL("%.1f seconds", seconds() - before);
    }
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    if (argc > 1) {
        huge();
    } else {
        random_lengths();
        freed_arrays_have_no_elements();
        nodes_allocate_in_turn(40 * MIB);
    }
    OK(mg_finalize());
    return 0;
}
