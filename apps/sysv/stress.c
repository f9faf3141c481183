/*
 * stress.c - P processes of T threads each, a segment of N pages, R rounds of a random mix:
 *  - words changed by plain instructions under one of several semaphores (semop as a mutex);
 *  - words changed by __atomic instructions of 1, 2, 4 and 8 bytes, and by compare and exchange;
 *  - each thread's own words, plain, in pages that everybody writes: false sharing;
 *  - runs of the own words over a page's end, written and read back at once.
 * At the end the sums come out exactly, and the own words are what each thread's record says.
 */
#include "common.h"

#include <pthread.h>

enum {
    WORD = 8,
    WORDS_A_PAGE = PAGE / WORD,
    LOCKS = 4,
    MAX_THREADS = 16,
    LOCKED = 64,  /* words of a page changed under semaphores */
    ATOMIC = 64,  /* after them */
    OWNED = WORDS_A_PAGE - LOCKED - ATOMIC,
};

struct totals { /* in the meeting page */
    uint64_t locked, atomic; /* what all say they have added */
    long holder[LOCKS];      /* who is inside */
};

static long pages = 16, rounds = 2000, threads = 2;
static uint64_t seed = 1;
static uint64_t *words;
static struct totals *totals;

struct worker {
    pthread_t thread;
    int number; /* in the whole job */
    uint64_t random, locked, atomic;
    uint64_t *record; /* what its own words hold */
};

static int workers(void)
{
    return job.all * (int)threads;
}

/* The own word `index` of `worker`: they lie side by side, everybody's turn by turn, in every page. */
static uint64_t *own_word(int worker, long index)
{
    long nth = index * workers() + worker;

    return words + nth / OWNED * WORDS_A_PAGE + LOCKED + ATOMIC + nth % OWNED;
}

static long own_words(void)
{
    return pages * OWNED / workers();
}

static void change_locked(struct worker *me)
{
    long page = (long)(next_random(&me->random) % (uint64_t)pages);
    long at = (long)(next_random(&me->random) % LOCKED);
    int number = SEM_OWN + (int)(at % LOCKS);
    uint64_t by = next_random(&me->random) % 1000;

    /* Undo counts for the process, so a thread's -1 and +1 go together in any case. */
    lock(number);
    enter_alone(&totals->holder[at % LOCKS]);
    words[page * WORDS_A_PAGE + at] += by;
    for (volatile int pause = 0; pause < 200; pause++)
        ;
    leave_alone(&totals->holder[at % LOCKS]);
    unlock(number);
    me->locked += by;
}

static void change_atomic(struct worker *me)
{
    long page = (long)(next_random(&me->random) % (uint64_t)pages);
    long at = (long)(next_random(&me->random) % ATOMIC);
    uint64_t *word = words + page * WORDS_A_PAGE + LOCKED + at;
    uint64_t seen;

    /* A word is always changed with one width: the low bytes of a word take no carry. */
    switch (at % 4) {
    case 0: __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST); break;
    case 1: __atomic_fetch_add((uint32_t *)word, 1, __ATOMIC_RELAXED); break;
    case 2: __atomic_fetch_add((uint16_t *)word + at % 3, 1, __ATOMIC_ACQ_REL); break;
    default:
        seen = __atomic_load_n(word, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(word, &seen, seen + 1, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            ;
    }
    me->atomic++;
}

static void change_own(struct worker *me)
{
    long index = (long)(next_random(&me->random) % (uint64_t)own_words());
    volatile uint64_t *word = own_word(me->number, index);

    if (*word != me->record[index])
        fail("worker %d: own word %ld is %#lx, must be %#lx", me->number, index, *word, me->record[index]);
    *word = me->record[index] = next_random(&me->random);
}

static void change_own_run(struct worker *me)
{
    long first = (long)(next_random(&me->random) % (uint64_t)own_words());

    for (long i = first; i < first + 64 && i < own_words(); i++)
        *own_word(me->number, i) = me->record[i] = next_random(&me->random);
    for (long i = first; i < first + 64 && i < own_words(); i++)
        if (*(volatile uint64_t *)own_word(me->number, i) != me->record[i])
            fail("worker %d: own word %ld of a run was lost", me->number, i);
}

static void *work(void *argument)
{
    struct worker *me = argument;

    for (long round = 0; round < rounds; round++) {
        uint64_t what = next_random(&me->random) % 16;

        if (what < 4)
            change_locked(me);
        else if (what < 10)
            change_atomic(me);
        else if (what < 15)
            change_own(me);
        else
            change_own_run(me);
    }
    return NULL;
}

static uint64_t atomic_in(const uint64_t *word, long at)
{
    switch (at % 4) {
    case 1: return *(const uint32_t *)word;
    case 2: return ((const uint16_t *)word)[at % 3];
    default: return *word;
    }
}

static void check_sums(const struct totals *must_be)
{
    uint64_t locked = 0, atomic = 0;

    for (long page = 0; page < pages; page++) {
        const uint64_t *first = words + page * WORDS_A_PAGE;

        for (long at = 0; at < LOCKED; at++)
            locked += first[at];
        for (long at = 0; at < ATOMIC; at++)
            atomic += atomic_in(first + LOCKED + at, at);
    }
    if (locked != must_be->locked)
        fail("words under semaphores: %lu, must be %lu", locked, must_be->locked);
    if (atomic != must_be->atomic)
        fail("words of atomic instructions: %lu, must be %lu", atomic, must_be->atomic);
}

int main(int argc, char **argv)
{
    static const unsigned short ones[LOCKS] = {1, 1, 1, 1};
    struct worker worker[MAX_THREADS] = {0};
    double took;
    int option;

    job_name(argv[0]);
    while ((option = getopt(argc, argv, JOB_OPTIONS "N:r:t:s:")) != -1) {
        switch (option) {
        case 'N': pages = number(optarg, 1); break;
        case 'r': rounds = number(optarg, 1); break;
        case 't': threads = number(optarg, 1); break;
        case 's': seed = (uint64_t)number(optarg, 0); break;
        default:
            if (!job_option(option))
                usage("[-N PAGES] [-r ROUNDS] [-t THREADS, at most 16] [-s SEED]");
        }
    }
    if (threads > MAX_THREADS)
        usage("[-N PAGES] [-r ROUNDS] [-t THREADS, at most 16] [-s SEED]");
    meet(1, (size_t)pages * PAGE, LOCKS, ones);
    words = job.data;
    totals = (struct totals *)job.meeting->word;
    if (own_words() < 1)
        fail("%ld pages are too few for %d threads", pages, workers());
    for (int i = 0; i < threads; i++) {
        worker[i].number = job.rank * (int)threads + i;
        worker[i].random = scramble(seed * 1000 + (uint64_t)worker[i].number);
        worker[i].record = calloc((size_t)own_words(), sizeof(uint64_t));
        if (worker[i].record == NULL)
            fail_errno("calloc");
    }
    barrier();
    took = now_s();
    for (int i = 0; i < threads; i++)
        if ((errno = pthread_create(&worker[i].thread, NULL, work, &worker[i])) != 0)
            fail_errno("pthread_create");
    for (int i = 0; i < threads; i++) {
        pthread_join(worker[i].thread, NULL);
        __atomic_fetch_add(&totals->locked, worker[i].locked, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&totals->atomic, worker[i].atomic, __ATOMIC_SEQ_CST);
    }
    barrier();
    took = now_s() - took;
    check_sums(totals);
    for (int i = 0; i < threads; i++) {
        for (long word = 0; word < own_words(); word++)
            if (*own_word(worker[i].number, word) != worker[i].record[word])
                fail("worker %d: own word %ld is %#lx at the end, must be %#lx", worker[i].number, word,
                     *own_word(worker[i].number, word), worker[i].record[word]);
        free(worker[i].record);
    }
    barrier();
    if (job.rank == 0)
        printf("stress: %d processes x %ld threads, %ld pages, %ld rounds, %lu under semaphores, %lu atomic, "
               "%.2f us a round: ok\n",
               job.all, threads, pages, rounds, totals->locked, totals->atomic, took * 1e6 / (double)rounds);
    return part();
}
