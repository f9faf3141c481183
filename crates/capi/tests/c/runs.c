/*
 * Scans get their minipages in runs (ADR 35): what comes is right whatever others do, it takes few faults and
 * messages, and what nobody has written is not sent. Arguments: "counts" under sequential consistency, "released" under release
 * consistency, with "eager" under that, "zeros" under either.
 */
#include "check.h"

#include <stdbool.h>

#define PAGE 4096
#define PAGES ((size_t)512)
#define ROUNDS 6

static struct mg_stats since(struct mg_stats before)
{
    struct mg_stats now;

    OK(mg_get_stats(&now, sizeof now));
    now.read_faults -= before.read_faults;
    now.write_faults -= before.write_faults;
    now.messages_sent -= before.messages_sent;
    now.page_bytes_sent -= before.page_bytes_sent;
    return now;
}

static const struct mg_stats NONE_YET;

/* Each word says where it is, and in which round it was written. */
static uint64_t word(size_t index, unsigned round)
{
    return (uint64_t)round << 32 | index;
}

static void few(const char *what, uint64_t count, uint64_t most)
{
    if (count > most)
        FAIL("%s: %llu, more than %llu", what, (unsigned long long)count, (unsigned long long)most);
}

/* Reads and writes of whole arrays, far fewer faults than minipages. */
static void counts(void)
{
    int last = mg_nodes() - 1;
    size_t words = PAGES * PAGE / sizeof(uint64_t);
    uint64_t *array = SHARE("counts", 0, mg_malloc(PAGES * PAGE));
    uint64_t *fresh = SHARE("fresh", 0, mg_malloc(PAGES * PAGE));
    struct mg_stats before;

    if (mg_node() == 0)
        for (size_t i = 0; i < words; i++)
            array[i] = word(i, 1);
    OK(mg_barrier(0, 0));
    before = since(NONE_YET);
    if (mg_node() == last) {
        for (size_t i = 0; i < words; i++)
            CHECK(array[i] == word(i, 1));
        few("faults of a scan that reads", since(before).read_faults, 16);
        few("messages of a scan that reads", since(before).messages_sent, 48);
        before = since(NONE_YET);
        for (size_t i = 0; i < words; i++)
            array[i] = word(i, 2);
        few("faults of a scan that writes", since(before).write_faults, 16);
        few("messages of a scan that writes", since(before).messages_sent, 48);
    }
    OK(mg_barrier(0, 0));
    before = since(NONE_YET);
    if (mg_node() == last)
        memset(fresh, 3, PAGES * PAGE);
    OK(mg_barrier(0, 0));
    if (last > 0 && since(before).page_bytes_sent != 0)
        FAIL("%llu bytes of zeros were sent", (unsigned long long)since(before).page_bytes_sent);
    OK(mg_barrier(0, 0));
    if (mg_node() == 0)
        for (size_t i = 0; i < PAGES * PAGE; i++)
            CHECK(((char *)fresh)[i] == 3);

    /* Here and there: nothing more than what is touched. */
    OK(mg_barrier(0, 0));
    before = since(NONE_YET);
    OK(mg_barrier(0, 0));
    if (mg_node() == 0)
        for (size_t i = 0; i < PAGES; i += 8)
            CHECK(array[i * PAGE / sizeof(uint64_t)] == word(i * PAGE / sizeof(uint64_t), 2));
    OK(mg_barrier(0, 0));
    if (mg_node() == last && last > 0) {
        struct mg_stats sent = since(before);

        if (sent.page_bytes_sent != PAGES / 8 * PAGE)
            FAIL("%llu bytes for %zu pages", (unsigned long long)sent.page_bytes_sent, PAGES / 8);
    }
    OK(mg_barrier(0, 0));
    /* All others' copies go by runs as well. */
    if (mg_node() == last)
        for (size_t page = 0; page < PAGES; page++)
            CHECK(array[page * PAGE / sizeof(uint64_t)] == word(page * PAGE / sizeof(uint64_t), 2));
    OK(mg_barrier(0, 0));
    if (mg_node() == 0) {
        before = since(NONE_YET);
        OK(mg_free(array));
        few("messages of a free", since(before).messages_sent, 16);
    }
    OK(mg_barrier(0, 0));
}

/* The same from the end to the beginning, and by memcpy to a place that lies alike in its page. */
static void down(void)
{
    int last = mg_nodes() - 1;
    unsigned char *array = SHARE("down", 0, mg_malloc(PAGES * PAGE));
    unsigned char *copy = MUST(aligned_alloc(PAGE, PAGES * PAGE));
    struct mg_stats before;

    for (int round = 1; round <= 3; round++) {
        if (mg_node() == 0)
            memset(array, round, PAGES * PAGE);
        OK(mg_barrier(0, 0));
        before = since(NONE_YET);
        if (mg_node() == last && round == 1)
            memcpy(copy, array, PAGES * PAGE);
        for (size_t i = PAGES * PAGE; mg_node() == last && round == 2 && i-- > 0;)
            copy[i] = array[i];
        for (size_t i = PAGES * PAGE; mg_node() == last && round == 3 && i-- > 0;)
            copy[i] = array[i] = 3;
        if (mg_node() == last) {
            few("faults of a scan that goes down", since(before).read_faults + since(before).write_faults, 24);
            for (size_t i = 0; i < PAGES * PAGE; i++)
                CHECK(copy[i] == round);
        }
        OK(mg_barrier(0, 0));
    }
    free(copy);
}

/* Every second page and every fifth, up and down, read and written: few faults, and what others need stays there. Under
 * release consistency each page that is here to be read traps when it is written. */
static void strided(bool sequential)
{
    int last = mg_nodes() - 1;
    size_t words = PAGE / sizeof(uint64_t), taken = 0;
    uint64_t *array = SHARE("strided", 0, mg_malloc(PAGES * PAGE));
    struct mg_stats before;

    for (unsigned round = 1; round <= 4; round++) {
        const size_t step = round % 2 ? 2 : 5;

        if (mg_node() == 0)
            for (size_t page = 0; page < PAGES; page++)
                array[page * words] = word(page, round);
        OK(mg_barrier(0, 0));
        before = since(NONE_YET);
        for (size_t at = 0; mg_node() == last && at < PAGES; at += step) {
            const size_t page = round > 2 ? PAGES - 1 - at : at;

            CHECK(array[page * words] == word(page, round));
            if (round == 2)
                array[page * words] = word(page, 9);
            taken++;
            /* Node 0 has it all and answers in order: what was asked for ahead is here when it answers this. */
            CHECK(mg_lookup("strided") == array);
        }
        if (mg_node() == last) {
            few("read faults of a strided scan", since(before).read_faults, 16);
            few("write faults of a strided scan", since(before).write_faults, sequential ? PAGES / step * 3 / 4 : taken);
        }
        OK(mg_barrier(0, 0));
        if (mg_node() == 0)
            for (size_t page = 0; page < PAGES; page++)
                CHECK(array[page * words] == word(page, round == 2 && page % step == 0 ? 9 : round));
        OK(mg_barrier(0, 0));
    }
    CHECK(taken == (mg_node() == last ? PAGES + 2 * ((PAGES + 4) / 5) : 0));
}

/* First writes, first reads and first writes over what another node wrote, under release consistency. */
static void released(bool eager)
{
    /* Under eager release a page that was written first costs each side two more when it is released (MGS, 1WGR). */
    uint64_t release = eager ? 2 * PAGES : 0;
    int last = mg_nodes() - 1;
    size_t words = PAGES * PAGE / sizeof(uint64_t), item = 32, count = words / item;
    uint64_t *array = SHARE("released", 0, mg_malloc(PAGES * PAGE));
    void *fine = SHARE("fine", 0, mg_malloc_array(count, item * sizeof(uint64_t)));
    struct mg_stats before;

    if (mg_node() == 0)
        for (size_t i = 0; i < words; i++)
            array[i] = word(i, 1);
    OK(mg_barrier(0, 0));
    before = since(NONE_YET);
    if (mg_node() == last) {
        for (size_t i = 0; i < words; i++)
            CHECK(array[i] == word(i, 1));
        few("faults of a first scan", since(before).read_faults, 32);
    }
    /* Of who asks, and of who answers. */
    OK(mg_barrier(0, 0));
    few("messages of a first scan", since(before).messages_sent, 96);
    before = since(NONE_YET);
    if (mg_node() == last)
        for (size_t i = 0; i < words; i++)
            ((uint64_t *)MUST(mg_element(fine, i / item)))[i % item] = word(i, 2);
    few("faults of a scan of what nobody wrote", since(before).write_faults, 400);
    OK(mg_barrier(0, 0));
    few("messages of a scan of what nobody wrote", since(before).messages_sent, 128 + release);
    if (mg_node() == 0)
        for (size_t i = 0; i < words; i++) {
            CHECK(((uint64_t *)MUST(mg_element(fine, i / item)))[i % item] == word(i, 2));
            array[i] = word(i, 3);
        }
    OK(mg_barrier(0, 0));
    before = since(NONE_YET);
    if (mg_node() == last)
        for (size_t i = 0; i < words; i++)
            array[i] = word(i, 4);
    few("faults of a scan that writes what another node wrote", since(before).write_faults, 100);
    OK(mg_barrier(0, 0));
    for (size_t i = 0; i < words; i++)
        CHECK(array[i] == word(i, 4));
    OK(mg_barrier(0, 0));
}

/* All nodes scan at once, each writes its words of every page; then objects that share pages. */
static void together(size_t object)
{
    size_t count = PAGES * PAGE / object / 4, words = object / sizeof(uint64_t);
    char name[32];
    char *array;

    snprintf(name, sizeof name, "together %zu", object);
    array = SHARE(name, 0, mg_malloc_array(count, object));
    for (unsigned round = 1; round <= ROUNDS; round++) {
        for (size_t i = 0; i < count; i++) {
            uint64_t *item = MUST(mg_element(array, i));
            size_t mine = (size_t)mg_node();

            for (size_t j = mine; j < words; j += (size_t)mg_nodes()) {
                CHECK(item[j] == (round == 1 ? 0 : word(i * words + j, round - 1)));
                item[j] = word(i * words + j, round);
            }
        }
        OK(mg_barrier(0, 0));
        for (size_t i = 0; i < count; i++) {
            uint64_t *item = MUST(mg_element(array, i));

            for (size_t j = 0; j < words; j++)
                CHECK(item[j] == word(i * words + j, round));
        }
        OK(mg_barrier(0, 0));
    }
}

/* Node 0 writes into pages of zeros here and there while the last node goes through them: nothing is lost. */
static void zeros(unsigned round)
{
    int last = mg_nodes() - 1;
    size_t words = PAGE / sizeof(uint64_t);
    volatile uint64_t *array;
    char name[32];

    snprintf(name, sizeof name, "zeros %u", round);
    array = SHARE(name, 0, mg_malloc(PAGES * PAGE));
    OK(mg_barrier(0, 0));
    if (mg_node() == 0)
        for (size_t i = 0; i < PAGES; i++) {
            size_t page = i * 37 % PAGES;

            array[page * words] = page + 1;
            for (volatile int pause = 0; pause < 4000; pause++)
                ;
        }
    if (mg_node() == last)
        for (size_t page = 0; page < PAGES; page++)
            array[page * words + 1] = page + 1;
    OK(mg_barrier(0, 0));
    for (size_t page = 0; page < PAGES; page++)
        if (array[page * words] != page + 1 || array[page * words + 1] != page + 1)
            FAIL("round %u: page %zu lost what a node wrote", round, page);
    OK(mg_barrier(0, 0));
    if (mg_node() == 0)
        OK(mg_free((void *)array));
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    if (argc > 1 && strcmp(argv[1], "counts") == 0) {
        counts();
        down();
        strided(true);
    } else if (argc > 1 && strcmp(argv[1], "released") == 0) {
        released(argc > 2);
        strided(false);
    } else if (argc > 1 && strcmp(argv[1], "zeros") == 0) {
        for (unsigned round = 0; round < 10; round++)
            zeros(round);
    } else {
        for (size_t object = 512; object <= 4 * PAGE; object *= 4)
            together(object);
    }
    OK(mg_finalize());
    return 0;
}
