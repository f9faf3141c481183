/*
 * Compression of pages that are sent (MIRAGE+ 3.4, ADR 52): how many bytes go with each code, that random pages go as
 * they are after few attempts, that a page which comes to compress is noticed, and that what arrives is what was
 * written. At least two nodes.
 */
#include "check.h"

#define PAGE 4096
#define PAGES 128
#define BYTES ((uint64_t)PAGES * PAGE)
#define WORDS (PAGE / sizeof(uint64_t))
#define ROUNDS 200

static const enum mg_compression CODES[] = {MG_COMPRESS_RUN_LENGTH, MG_COMPRESS_LZ4, MG_COMPRESS_ZSTD};

static uint64_t noise(uint64_t place)
{
    place += 0x9e3779b97f4a7c15u;
    place = (place ^ place >> 30) * 0xbf58476d1ce4e5b9u;
    place = (place ^ place >> 27) * 0x94d049bb133111ebu;
    return place ^ place >> 31;
}

/* Words with a little that repeats: numbers that count, and floating point numbers of few digits. */
static uint64_t records(uint64_t place)
{
    double value = (double)(place % 100) / 4;
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return place % 2 == 0 ? place / 16 : bits;
}

static uint64_t one_word(uint64_t place)
{
    (void)place;
    return 0x1234567812345678u;
}

/* All pages, each once, none beside the one before: no runs. */
static unsigned scattered(unsigned turn)
{
    unsigned page = 0;

    for (unsigned bit = 1; bit < PAGES; bit <<= 1)
        page = page << 1 | (turn & bit ? 1 : 0);
    return page;
}

static struct mg_segment_info stat_of(const void *p)
{
    struct mg_segment_info stat;

    OK(mg_segment_stat_at(p, &stat, sizeof stat));
    return stat;
}

/* Node 0 fills a segment, the last one reads it: what node 0 has sent of it. */
static struct mg_segment_info send(struct mg_segment_policy policy, uint64_t (*word)(uint64_t), int in_runs)
{
    int last = mg_nodes() - 1;
    struct mg_segment_info sent;
    uint64_t *words;

    policy.size = sizeof policy;
    if (mg_node() == 0)
        OK(mg_segment_create("sent", BYTES, 0600, &policy));
    words = MUST(mg_segment_attach("sent", MG_SEGMENT_WAIT));
    sent = stat_of(words);
    CHECK(sent.compression == policy.compression && sent.raw_bytes == 0 && sent.sent_bytes == 0);
    if (mg_node() == 0)
        for (size_t i = 0; i < PAGES * WORDS; i++)
            words[i] = word(i);
    OK(mg_barrier(0, 0));
    if (mg_node() == last)
        for (unsigned turn = 0; turn < PAGES; turn++) {
            unsigned page = in_runs ? turn : scattered(turn);

            for (size_t i = page * WORDS; i < (page + 1) * WORDS; i++)
                CHECK(words[i] == word(i));
        }
    OK(mg_barrier(0, 0));
    sent = stat_of(words);
    if (mg_node() == 0)
        OK(mg_segment_remove("sent"));
    OK(mg_barrier(0, 0));
    OK(mg_segment_detach(words));
    OK(mg_barrier(0, 0));
    return sent;
}

#define SHOW(sent)                                                                                  \
    "%llu bytes of %llu, %llu pages of %llu tried", (unsigned long long)(sent).sent_bytes,          \
        (unsigned long long)(sent).raw_bytes, (unsigned long long)(sent).pages_compressed,          \
        (unsigned long long)(sent).pages_tried

/* With each code, under each consistency. */
static void counts(enum mg_compression code, enum mg_consistency consistency)
{
    struct mg_segment_policy policy = {.consistency = consistency, .compression = code};
    struct mg_segment_info sent;

    for (int in_runs = 0; in_runs < 2; in_runs++) {
        sent = send(policy, one_word, in_runs);
        if (mg_node() == 0 && (sent.raw_bytes != BYTES || sent.sent_bytes > BYTES / 64
                               || sent.pages_compressed != PAGES || sent.pages_tried != PAGES))
            FAIL(SHOW(sent));
        sent = send(policy, noise, in_runs);
        if (mg_node() == 0 && (sent.raw_bytes != BYTES || sent.sent_bytes != BYTES
                               || sent.pages_compressed != 0 || sent.pages_tried == 0))
            FAIL(SHOW(sent));
        if (mg_node() == 0 && !in_runs && sent.pages_tried > PAGES / 10)
            FAIL(SHOW(sent));
        sent = send(policy, records, in_runs);
        /* No word of them is repeated, which is all that the run-length code sees. */
        if (mg_node() == 0
            && (code == MG_COMPRESS_RUN_LENGTH ? sent.sent_bytes != BYTES : sent.sent_bytes > BYTES * 3 / 4))
            FAIL(SHOW(sent));
    }
    policy.grain = 4 * PAGE;
    sent = send(policy, one_word, 0);
    if (mg_node() == 0 && (sent.raw_bytes != BYTES || sent.sent_bytes > BYTES / 64))
        FAIL(SHOW(sent));
}

/* Two nodes write one page in turn, which does not compress at first and then does. */
static void one_page(enum mg_compression code)
{
    struct mg_segment_policy policy = {.size = sizeof policy, .compression = code};
    struct mg_segment_info random, sent;
    uint64_t *words;
    int me = mg_node();

    if (me == 0)
        OK(mg_segment_create("one", PAGE, 0600, &policy));
    words = MUST(mg_segment_attach("one", MG_SEGMENT_WAIT));
    random = stat_of(words);
    for (uint64_t round = 0; round < 4 * ROUNDS; round++) {
        uint64_t (*word)(uint64_t) = round < 2 * ROUNDS ? noise : one_word;

        if (round == 2 * ROUNDS)
            random = stat_of(words);
        if (me == (int)(round % 2))
            for (size_t i = 0; i < WORDS; i++) {
                if (round > 0 && round != 2 * ROUNDS)
                    CHECK(words[i] == word((round - 1) * WORDS + i));
                words[i] = word(round * WORDS + i);
            }
        OK(mg_barrier(0, 0));
    }
    sent = stat_of(words);
    if (me < 2) {
        CHECK(random.raw_bytes >= (ROUNDS - 1) * PAGE && random.raw_bytes == random.sent_bytes);
        if (random.pages_tried < 5 || random.pages_tried > 12 || random.pages_compressed != 0)
            FAIL(SHOW(random));
        if (sent.pages_compressed < ROUNDS - 66)
            FAIL(SHOW(sent));
    }
    OK(mg_barrier(0, 0));
    OK(mg_segment_detach(words));
    if (me == 0)
        OK(mg_segment_remove("one"));
}

int main(int argc, char **argv)
{
    const enum mg_consistency consistencies[] = {MG_SEQUENTIAL, MG_EAGER_RELEASE, MG_LAZY_RELEASE};
    struct mg_segment_policy policy = {.size = sizeof policy, .compression = (enum mg_compression)4};
    struct mg_segment_info sent;

    OK(mg_init(&argc, &argv));
    CHECK(mg_nodes() > 1);
    CODE(mg_segment_create("none", PAGE, 0600, &policy), MG_EINVAL);
    policy.compression = MG_COMPRESS_NONE;
    sent = send(policy, one_word, 1);
    if (mg_node() == 0)
        CHECK(sent.raw_bytes == BYTES && sent.sent_bytes == BYTES && sent.pages_tried == 0);
    for (size_t code = 0; code < sizeof CODES / sizeof *CODES; code++) {
        for (size_t of = 0; of < sizeof consistencies / sizeof *consistencies; of++)
            counts(CODES[code], consistencies[of]);
        one_page(CODES[code]);
    }
    OK(mg_finalize());
    return 0;
}
