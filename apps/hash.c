/*
 * hash.c - words are counted in a hash table of chains, with a lock a bucket.
 *
 * Shared: the heads of the chains, and a pool of entries a worker; both plain blocks. A worker takes
 * its share of the words, and for each looks along the chain under the bucket's lock, and counts the
 * entry up or puts a new one, of its own pool, in front. Some words are frequent, most are rare.
 */
#include "app.h"

#include <stdio.h>
#include <stdlib.h>

static long words = 40000, buckets = 1024, different = 4000;

struct entry {
    uint64_t word, count;
    int64_t next; /* of the pools; NOTHING at the end */
};

enum { NOTHING = -1 };

static int64_t *heads;
static struct entry *pools;

static const struct app_option options[] = {
    {"words", "words to count", &words, 1, 1 << 24},
    {"buckets", "chains, each with a lock", &buckets, 1, SHM_LOCKS},
    {"different", "words that differ, at most", &different, 1, 1 << 20},
    {0},
};

static const struct app app = {
    .name = "hash",
    .about = "a hash table of chains, a lock a bucket",
    .options = options,
};

/* The i-th word: the product of two even numbers in [0, 1) is small more often than not. */
static uint64_t word_at(long i)
{
    double x = scramble_unit((uint64_t)(2 * i)) * scramble_unit((uint64_t)(2 * i + 1));

    return (uint64_t)(x * (double)different);
}

static long bucket_of(uint64_t word)
{
    return (long)(scramble(~word) % (uint64_t)buckets);
}

static void count_word(uint64_t word, int worker, long *used)
{
    long bucket = bucket_of(word);
    int64_t at;

    shm_lock((uint32_t)bucket);
    for (at = heads[bucket]; at != NOTHING && pools[at].word != word; at = pools[at].next)
        ;
    if (at == NOTHING) {
        at = worker * different + (*used)++;
        pools[at] = (struct entry){.word = word, .next = heads[bucket]};
        heads[bucket] = at;
    }
    pools[at].count++;
    shm_unlock((uint32_t)bucket);
}

static void work(int worker)
{
    struct span mine = span_of(words, worker, shm_workers());
    struct span own = span_of(buckets, worker, shm_workers());
    long used = 0;

    for (long b = own.begin; b < own.end; b++)
        heads[b] = NOTHING;
    bench_start(worker);
    for (long i = mine.begin; i < mine.end; i++)
        count_word(word_at(i), worker, &used);
    bench_stop(worker);
}

/* Each word once, and as often as it is there. */
static void check(void)
{
    uint64_t *expected = private_alloc((size_t)different * sizeof *expected);

    for (long i = 0; i < words; i++)
        expected[word_at(i)]++;
    for (long b = 0; b < buckets; b++)
        for (int64_t at = heads[b]; at != NOTHING; at = pools[at].next) {
            uint64_t word = pools[at].word;

            if (word >= (uint64_t)different || bucket_of(word) != b)
                check_failed("word %llu is in bucket %ld", (unsigned long long)word, b);
            else
                expected[word] -= pools[at].count;
        }
    for (long w = 0; w < different; w++)
        if (expected[w] != 0)
            check_failed("word %ld was not counted %lld times", w, (long long)expected[w]);
    free(expected);
}

int main(int argc, char **argv)
{
    char input[64];
    size_t of_heads, of_pools;

    app_begin(&app, &argc, &argv);
    of_heads = (size_t)buckets * sizeof *heads;
    of_pools = (size_t)different * (size_t)shm_workers() * sizeof *pools;
    heads = shm_plain("hash.heads", of_heads);
    pools = shm_plain("hash.pools", of_pools);
    shm_run(work);
    if (check_wanted())
        check();
    snprintf(input, sizeof input, "%ld words, %ld buckets", words, buckets);
    return app_finish(input, "default", of_heads + of_pools);
}
