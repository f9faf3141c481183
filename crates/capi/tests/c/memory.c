/* Allocation of every kind, seen by all nodes, and used again after it was freed. */
#include "check.h"

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

static void all_bytes(const unsigned char *p, size_t bytes, int value)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != (unsigned char)value)
            FAIL("byte %zu of %zu is %d, not %d", i, bytes, p[i], (unsigned char)value);
}

static void malloc_of_every_size(void)
{
    static const size_t sizes[] = {1,    3,    8,    64,   100,   148,   672,    2000,
                                   2048, 2049, 4095, 4096, 5000, 65536, 65537, 1 << 20};

    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        char name[32];
        size_t bytes = sizes[i];
        unsigned char *p;

        snprintf(name, sizeof name, "malloc %d", i);
        p = SHARE(name, i % nodes, memset(MUST(mg_malloc(bytes)), i + 1, bytes));
        CHECK((uintptr_t)p % (bytes >= 4096 ? 4096 : 8) == 0);
        all_bytes(p, bytes, i + 1);
        meet();
        if (me == (i + 1) % nodes)
            memset(p, i + 101, bytes);
        meet();
        all_bytes(p, bytes, i + 101);
        meet();
        if (me == (i + 2) % nodes)
            OK(mg_free(p));
    }
    meet();
}

static void calloc_is_zero_again(void)
{
    static const size_t sizes[] = {8, 100, 3000, 70000};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int round = 0; round < 20; round++) {
            unsigned char *p = MUST(mg_calloc(1, sizes[i]));

            all_bytes(p, sizes[i], 0);
            memset(p, 0xa5, sizes[i]);
            OK(mg_free(p));
        }
    }
    meet();
}

static void arrays(size_t count, size_t bytes)
{
    char name[32];
    uint32_t *first, **all = calloc(count, sizeof *all);

    snprintf(name, sizeof name, "array %zu", bytes);
    first = SHARE(name, nodes - 1, mg_malloc_array(count, bytes));
    OK(mg_elements(first, count, (void **)all));
    for (size_t i = 0; i < count; i++) {
        CHECK(all[i] == mg_element(first, i));
        if (i % (size_t)nodes == (size_t)me)
            for (size_t word = 0; word < bytes / 4; word++)
                all[i][word] = (uint32_t)(i * 1000 + word);
    }
    meet();
    for (size_t i = 0; i < count; i++)
        for (size_t word = 0; word < bytes / 4; word++)
            CHECK(all[i][word] == (uint32_t)(i * 1000 + word));
    meet();
    if (me == 0)
        OK(mg_free(first));
    meet();
    free(all);
}

static void grains(void)
{
    static const size_t grains[] = {1, 4096, 5000, 16384, 300000, 1 << 24};
    const size_t bytes = 300000;

    for (int i = 0; i < (int)(sizeof grains / sizeof *grains); i++) {
        char name[32];
        unsigned char *p;

        snprintf(name, sizeof name, "grain %d", i);
        p = SHARE(name, 0, mg_malloc_grain(bytes, grains[i]));
        CHECK((uintptr_t)p % 4096 == 0);
        for (size_t at = (size_t)me * 1000; at < bytes; at += (size_t)nodes * 1000)
            memset(p + at, (int)(at / 1000), bytes - at < 1000 ? bytes - at : 1000);
        meet();
        for (size_t at = 0; at < bytes; at += 1000)
            all_bytes(p + at, bytes - at < 1000 ? bytes - at : 1000, (int)(at / 1000));
        meet();
        if (me == nodes - 1)
            OK(mg_free(p));
        meet();
    }
}

/* What was freed comes back, and nobody sees what was in it before. */
static void freed_memory_is_used_again(size_t bytes)
{
    enum { ROUNDS = 40 };
    char name[32];
    uint64_t **box, *used[ROUNDS];
    int again = 0;

    snprintf(name, sizeof name, "box %zu", bytes);
    box = SHARE(name, 0, mg_malloc(sizeof *box));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (me == 0) {
            uint64_t *p = MUST(mg_malloc(bytes));

            for (uint64_t i = 0; i < round; i++)
                again += p == used[i];
            used[round] = p;
            p[0] = round;
            p[bytes / 8 - 1] = ~round;
            *box = p;
        }
        meet();
        CHECK((*box)[0] == round && (*box)[bytes / 8 - 1] == ~round);
        meet();
        if (me == (int)(round % (uint64_t)nodes)) {
            (*box)[0] = 0xdead;
            OK(mg_free(*box));
        }
        meet();
    }
    if (me == 0)
        CHECK(again > 0);
    meet();
}

static void chunks(void)
{
    char *array, *small[8];

    OK(mg_set_chunking(4));
    array = SHARE("chunks", 0, mg_malloc_array(64, 64));
    for (int i = 0; i < 64; i += 4)
        for (int k = 1; k < 4; k++)
            CHECK(mg_element(array, (size_t)(i + k)) == (char *)mg_element(array, (size_t)i) + 64 * k);
    for (int i = me; i < 64; i += nodes)
        memset(mg_element(array, (size_t)i), i + 1, 64);
    meet();
    for (int i = 0; i < 64; i++)
        all_bytes(mg_element(array, (size_t)i), 64, i + 1);
    for (int i = 0; i < 8; i++)
        small[i] = memset(MUST(mg_malloc(40)), i + 1, 40);
    for (int i = 0; i < 8; i++) {
        all_bytes((unsigned char *)small[i], 40, i + 1);
        OK(mg_free(small[i]));
        CODE(mg_free(small[i]), MG_EPERM);
    }
    OK(mg_set_chunking(1));
    meet();
    if (me == nodes - 1)
        OK(mg_free(array));
    meet();
}

/* What is given back leaves the books, even if the next one to use it is smaller. */
static void the_books_balance(void)
{
    uint64_t before = stats_now().shared_bytes;
    static const size_t sizes[] = {100, 60, 100000, 90000, 100000, 3000};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *p = MUST(mg_malloc(sizes[i]));

        CHECK(stats_now().shared_bytes >= before + sizes[i]);
        OK(mg_free(p));
        CHECK(stats_now().shared_bytes == before);
    }
    meet();
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    malloc_of_every_size();
    calloc_is_zero_again();
    arrays(300, 4);
    arrays(300, 72);
    arrays(50, 2048);
    arrays(20, 6000);
    grains();
    freed_memory_is_used_again(64);
    freed_memory_is_used_again(8192);
    freed_memory_is_used_again(200000);
    chunks();
    the_books_balance();
    OK(mg_finalize());
    return 0;
}
