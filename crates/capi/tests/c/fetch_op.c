/*
 * Atomic operations where the word lives: exact beside atomic instructions and plain reads of the same words, by all
 * threads of all nodes; a message and its answer each; and refused where they make no sense.
 */
#include "check.h"

#include <pthread.h>

enum { ROUNDS = 300, ALONE = 1000, MOST_THREADS = 8 };

struct words {
    int64_t sum;
    double half;
    int32_t low, high;
    uint64_t greatest;
    int64_t holder; /* of a lock made by mg_compare_exchange */
    int64_t guarded;
    int64_t taken;
};

static struct words *words;
static int64_t *other_page;
static uint64_t exchanged[MOST_THREADS];

static void add(int64_t *word, int64_t value)
{
    OK(mg_fetch_op(word, MG_INT64, MG_SUM, &value, NULL));
}

static void *work(void *arg)
{
    const int64_t me = 1 + mg_node() * MOST_THREADS + (intptr_t)arg, nobody = 0;
    const double half = 0.5;
    const int32_t minus = -1, one = 1;
    int64_t last = 0;

    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t mine = (uint64_t)(round * 1000 + me);
        int64_t before;
        uint64_t was;

        if (round % 4 == 3)
            __atomic_fetch_add(&words->sum, 1, __ATOMIC_SEQ_CST);
        else
            add(&words->sum, 1);
        before = __atomic_load_n(&words->sum, __ATOMIC_SEQ_CST);
        CHECK(before > last);
        last = before;
        OK(mg_fetch_op(&words->half, MG_DOUBLE, MG_SUM, &half, NULL));
        OK(mg_fetch_op(&words->low, MG_INT32, MG_SUM, &minus, NULL));
        OK(mg_fetch_op(&words->high, MG_INT32, MG_SUM, &one, NULL));
        OK(mg_fetch_op(&words->greatest, MG_UINT64, MG_MAX, &mine, &was));
        CHECK(__atomic_load_n(&words->greatest, __ATOMIC_SEQ_CST) >= (was > mine ? was : mine));
        add(other_page, 2);
        /* Each value that was put there is taken once. */
        OK(mg_exchange(&words->taken, MG_INT64, &me, &before));
        CHECK(before >= 0 && before < 1 + mg_nodes() * MOST_THREADS);
        exchanged[(intptr_t)arg] += (uint64_t)before - (uint64_t)me;
        if (round % 10 == 0) {
            do
                OK(mg_compare_exchange(&words->holder, MG_INT64, &nobody, &me, &before));
            while (before != nobody);
            words->guarded++;
            OK(mg_compare_exchange(&words->holder, MG_INT64, &me, &nobody, &before));
            CHECK(before == me);
        }
    }
    return NULL;
}

static void together(void)
{
    pthread_t threads[MOST_THREADS];
    const int all = mg_nodes() * mg_threads();
    uint64_t left;
    int64_t *sum = SHARE("exchanged", 0, mg_calloc(1, sizeof *sum));

    CHECK(mg_threads() <= MOST_THREADS);
    words = SHARE("words", 0, mg_calloc(1, sizeof *words));
    other_page = SHARE("other", mg_nodes() - 1, mg_calloc(1, sizeof *other_page));
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
    for (intptr_t i = 0; i < mg_threads(); i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < mg_threads(); i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        add(sum, (int64_t)exchanged[i]);
    }
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
    CHECK(words->sum == (int64_t)all * ROUNDS);
    CHECK(words->half == all * ROUNDS / 2.0);
    CHECK(words->low == -all * ROUNDS && words->high == all * ROUNDS);
    CHECK(words->greatest / 1000 == ROUNDS - 1);
    CHECK(words->guarded == all * (ROUNDS / 10));
    CHECK(*other_page == (int64_t)all * ROUNDS * 2);
    left = (uint64_t)words->taken;
    CHECK(*sum + (int64_t)left == 0);
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
}

/* The last node counts in a word that node 0 manages: no fault, a message each and nothing moves. */
static void alone(void)
{
    int64_t *word = SHARE("alone", 0, mg_calloc(1, sizeof *word));
    struct mg_stats before, after;

    if (mg_node() == 0)
        *word = 5;
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
    if (mg_node() == mg_nodes() - 1 && mg_nodes() > 1) {
        OK(mg_get_stats(&before, sizeof before));
        for (int i = 0; i < ALONE; i++) {
            const int64_t one = 1;
            int64_t was;

            OK(mg_fetch_op(word, MG_INT64, MG_SUM, &one, &was));
            CHECK(was == 5 + i);
        }
        OK(mg_get_stats(&after, sizeof after));
        CHECK(after.messages_sent - before.messages_sent == ALONE);
        CHECK(after.read_faults == before.read_faults && after.write_faults == before.write_faults);
    }
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
    CHECK(*word == 5 + (mg_nodes() > 1 ? ALONE : 0));
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
}

/* All have read the word, as after a barrier: it comes back to its manager, and each addition is one answer. */
static void read_by_all(void)
{
    int64_t *word = SHARE("read", 0, mg_calloc(1, sizeof *word));

    for (int round = 0; round < 50; round++) {
        OK(mg_barrier(1, (uint32_t)mg_nodes()));
        CHECK(*word == (int64_t)round * mg_nodes());
        OK(mg_barrier(1, (uint32_t)mg_nodes()));
        add(word, 1);
    }
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
    CHECK(*word == 50 * mg_nodes());
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
}

static void refused(void)
{
    int64_t *word = MUST(mg_malloc_with(12, 0, MG_SEQUENTIAL)), own = 0;
    int64_t *relaxed = MUST(mg_malloc_with(8, 0, MG_LAZY_RELEASE));
    int64_t one = 1, was = 77;

    CODE(mg_fetch_op(NULL, MG_INT64, MG_SUM, &one, &was), MG_EINVAL);
    CODE(mg_fetch_op(word, MG_INT64, MG_SUM, NULL, &was), MG_EINVAL);
    CODE(mg_fetch_op(word, (enum mg_type)5, MG_SUM, &one, &was), MG_EINVAL);
    CODE(mg_fetch_op(word, MG_INT64, (enum mg_operation)5, &one, &was), MG_EINVAL);
    CODE(mg_fetch_op((char *)word + 4, MG_INT64, MG_SUM, &one, &was), MG_EINVAL);
    CODE(mg_fetch_op(&own, MG_INT64, MG_SUM, &one, &was), MG_ENOTSHARED);
    CODE(mg_fetch_op(relaxed, MG_INT64, MG_SUM, &one, &was), MG_EINVAL);
    CHECK(strstr(mg_strerror(MG_EINVAL), "release-consistent") != NULL);
    CODE(mg_exchange(word, MG_INT64, NULL, &was), MG_EINVAL);
    CODE(mg_compare_exchange(word, MG_INT64, NULL, &one, &was), MG_EINVAL);
    CODE(mg_compare_exchange(word, MG_INT64, &one, NULL, &was), MG_EINVAL);
    CHECK(was == 77 && own == 0);
    OK(mg_free(relaxed));
    OK(mg_free(word));
    OK(mg_barrier(1, (uint32_t)mg_nodes()));
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    refused();
    alone();
    read_by_all();
    together();
    return 0;
}
