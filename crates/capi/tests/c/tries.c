/*
 * What pthreads programs ask of locks beyond lock and unlock: try and timed forms, read-write locks, once,
 * ids that nobody has, objects keyed by an address. `tries release` has data on release-consistent memory.
 */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, (uint32_t)nodes));
}

static struct timespec in_ms(long ms)
{
    struct timespec time;

    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += ms / 1000;
    time.tv_nsec += ms % 1000 * 1000000;
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

static int has_passed(struct timespec time)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > time.tv_sec || (now.tv_sec == time.tv_sec && now.tv_nsec >= time.tv_nsec);
}

/* Every node in its turn finds every lock free or taken as it is. */
static void try_locks(void)
{
    for (int turn = 0; turn < nodes; turn++) {
        for (uint32_t id = 10; id < 18; id++) {
            meet();
            if (me == turn) {
                OK(mg_trylock(id));
                CODE(mg_trylock(id), MG_EBUSY);
            }
            meet();
            if (me != turn) {
                struct timespec soon = in_ms(20);

                CODE(mg_trylock(id), MG_EBUSY);
                CODE(mg_timedlock(id, &soon), MG_ETIMEDOUT);
                CHECK(has_passed(soon));
            }
            meet();
            if (me == turn)
                OK(mg_unlock(id));
            meet();
            /* Nodes that gave up are in line, and a free lock is had all the same: also by one that is late. */
            if (me == (turn + 1) % nodes) {
                struct timespec past = {.tv_sec = 1};

                OK(mg_timedlock(id, &past));
                OK(mg_unlock(id));
                OK(mg_trylock(id));
                OK(mg_unlock(id));
            }
        }
    }
    meet();
}

/* Whoever has the lock, by whatever call, has it alone. */
static void exclude(enum mg_consistency consistency)
{
    uint64_t *counters = SHARE("exclude", 0, mg_malloc_with(2 * sizeof *counters, 0, consistency));
    uint64_t mine = 0, *sum = SHARE("sum", 0, mg_calloc(1, sizeof *sum));
    uint64_t before;

    meet();
    if (me == 0)
        counters[0] = counters[1] = 0;
    meet();
    before = counters[0];
    CHECK(before == 0);
    meet();
    for (int i = 0; i < 300; i++) {
        struct timespec soon = in_ms(i % 3);
        int code = i % 3 == 0 ? mg_lock(20) : i % 3 == 1 ? mg_trylock(20) : mg_timedlock(20, &soon);

        if (code == MG_OK) {
            counters[0]++;
            counters[1]++;
            CHECK(counters[0] == counters[1]);
            mine++;
            OK(mg_unlock(20));
        } else {
            CODE(code, i % 3 == 1 ? MG_EBUSY : MG_ETIMEDOUT);
        }
    }
    __atomic_fetch_add(sum, mine, __ATOMIC_SEQ_CST);
    meet();
    CHECK(counters[0] == *sum && *sum >= (uint64_t)(100 * nodes));
    meet();
}

static void semaphores(void)
{
    struct timespec soon = in_ms(20), past = {.tv_sec = 1}, wrong = {.tv_nsec = 1000000000};
    uint64_t *taken = SHARE("taken", 0, mg_calloc(1, sizeof *taken));

    CODE(mg_sem_trywait(30), MG_EBUSY);
    CODE(mg_sem_timedwait(30, &soon), MG_ETIMEDOUT);
    CHECK(has_passed(soon));
    CODE(mg_sem_timedwait(30, &wrong), MG_EINVAL);
    CODE(mg_sem_timedwait(30, NULL), MG_EINVAL);
    meet();
    if (me == 0)
        OK(mg_sem_post(30, 2));
    meet();
    /* Two units for all attempts of all nodes; none is lost with a thread that gives up. */
    for (int i = 0; i < 50; i++) {
        struct timespec short_while = in_ms(i % 2);

        if (mg_sem_trywait(30) == MG_OK || mg_sem_timedwait(30, &short_while) == MG_OK) {
            __atomic_fetch_add(taken, 1, __ATOMIC_SEQ_CST);
            OK(mg_sem_post(30, 1));
        }
    }
    meet();
    CHECK(*taken > 0);
    if (me == nodes - 1) {
        struct timespec late = in_ms(60000);

        OK(mg_sem_timedwait(30, &late));
        OK(mg_sem_timedwait(30, &late));
        CODE(mg_sem_timedwait(30, &past), MG_ETIMEDOUT);
        CODE(mg_sem_trywait(30), MG_EBUSY);
    }
    meet();
}

static void conditions(void)
{
    uint64_t *state = SHARE("state", 0, mg_calloc(2, sizeof *state));
    struct timespec soon = in_ms(20), past = {.tv_sec = 1};

    OK(mg_lock(40));
    CODE(mg_cond_timedwait(40, 40, &soon), MG_ETIMEDOUT);
    CHECK(has_passed(soon));
    CODE(mg_cond_timedwait(40, 40, &past), MG_ETIMEDOUT);
    CODE(mg_trylock(40), MG_EBUSY);
    OK(mg_unlock(40));
    CODE(mg_cond_timedwait(40, 40, &soon), MG_EPERM);
    meet();
    /* One after the other, by signals; who times out has not eaten one. */
    for (int round = 0; round < 20; round++) {
        OK(mg_lock(40));
        while (*state % (uint64_t)nodes != (uint64_t)me) {
            struct timespec short_while = in_ms(round % 4);

            if (me % 2 == 0)
                OK(mg_cond_wait(40, 40));
            else
                mg_cond_timedwait(40, 40, &short_while);
        }
        ++*state;
        OK(mg_cond_broadcast(40));
        OK(mg_unlock(40));
    }
    meet();
    CHECK(*state == (uint64_t)(20 * nodes));
    /* A signal is not lost with a thread that times out as it comes. */
    for (uint64_t i = 1; i <= 50; i++) {
        if (me == 0) {
            OK(mg_lock(41));
            state[1] = i;
            OK(mg_cond_signal(41));
            OK(mg_unlock(41));
        } else {
            OK(mg_lock(41));
            while (state[1] < i) {
                struct timespec short_while = in_ms(1);

                if (me == 1)
                    OK(mg_cond_wait(41, 41));
                else
                    mg_cond_timedwait(41, 41, &short_while);
            }
            OK(mg_cond_signal(41)); /* for the next */
            OK(mg_unlock(41));
        }
        meet();
    }
}

static void read_write(enum mg_consistency consistency)
{
    uint64_t *pair = SHARE("pair", 0, mg_malloc_with(2 * sizeof *pair, 0, consistency));

    if (me == 0) {
        OK(mg_rwlock_wrlock(50));
        CODE(mg_rwlock_trywrlock(50), MG_EBUSY);
        CODE(mg_rwlock_rdlock(50), MG_EPERM);
        pair[0] = pair[1] = 0;
        OK(mg_rwlock_unlock(50));
        CODE(mg_rwlock_unlock(50), MG_EPERM);
    }
    meet();
    /* All read at once, and nobody writes then. */
    OK(mg_rwlock_rdlock(50));
    OK(mg_rwlock_tryrdlock(50));
    meet();
    CODE(mg_rwlock_trywrlock(50), MG_EBUSY);
    meet();
    OK(mg_rwlock_unlock(50));
    OK(mg_rwlock_unlock(50));
    meet();
    for (int i = 0; i < 100; i++) {
        if (i % 4 == me % 4) {
            OK(mg_rwlock_wrlock(50));
            pair[0]++;
            pair[1]++;
        } else {
            OK(mg_rwlock_rdlock(50));
        }
        CHECK(pair[0] == pair[1]);
        OK(mg_rwlock_unlock(50));
    }
    meet();
    OK(mg_rwlock_rdlock(50));
    CHECK(pair[0] == (uint64_t)(25 * nodes));
    OK(mg_rwlock_unlock(50));
    meet();
}

static uint64_t *once_ran, *once_seen;

/* The threads of this node that come beside the one that runs it. */
static int comers[3];
static int awaited;

/* Runs while all others of this node wait for it. */
static void count_once(void)
{
    for (int i = 0; i < awaited; i++) {
        int thread;

        while ((thread = __atomic_load_n(&comers[i], __ATOMIC_SEQ_CST)) == 0)
            usleep(1000);
        if (thread != own_thread())
            wait_asleep(thread);
    }
    /* More than may wait of handlers: these are no handler's. */
    for (int i = 0; i < 3000; i++)
        OK(mg_sem_post(61, 1));
    for (int i = 0; i < 3000; i++)
        OK(mg_sem_wait(61));
    ++*once_ran;
    *once_seen = 5;
}

static void *comes(void *arg)
{
    if (arg != NULL)
        __atomic_store_n((int *)arg, own_thread(), __ATOMIC_SEQ_CST);
    OK(mg_once(60, count_once));
    CHECK(*once_seen == 5);
    return arg;
}

static void once(void)
{
    pthread_t threads[3];

    once_ran = SHARE("once_ran", 0, mg_calloc(1, sizeof *once_ran));
    once_seen = SHARE("once_seen", 0, mg_calloc(1, sizeof *once_seen));
    CODE(mg_once(60, NULL), MG_EINVAL);
    meet();
    awaited = 3;
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, comes, &comers[i]) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    awaited = 0;
    meet();
    comes(NULL);
    CHECK(*once_ran == 1);
    meet();
    OK(mg_once_at(once_ran, count_once));
    CHECK(*once_ran == 2);
    meet();
}

static void new_ids(void)
{
    uint32_t *ids = SHARE("ids", 0, mg_calloc(100 * (size_t)nodes, sizeof *ids));

    for (int i = 0; i < 100; i++)
        ids[100 * me + i] = mg_new_id();
    meet();
    for (int i = 0; i < 100 * nodes; i++) {
        CHECK(ids[i] >= UINT32_C(1) << 31 && ids[i] < UINT32_MAX);
        for (int k = 0; k < i; k++)
            CHECK(ids[i] != ids[k]);
    }
    OK(mg_lock(ids[100 * me]));
    OK(mg_unlock(ids[100 * me]));
    OK(mg_barrier(ids[0], (uint32_t)nodes));
}

struct account {
    char lock;
    char condition;
    char barrier;
    char units;
    char rwlock;
    uint64_t balance;
    uint64_t turn;
};

static void addresses(void)
{
    struct account *accounts = SHARE("accounts", 0, mg_calloc(8, sizeof *accounts));
    struct timespec soon = in_ms(20);
    int on_stack;

    CODE(mg_lock_at(&on_stack), MG_ENOTSHARED);
    CODE(mg_barrier_at(NULL, 1), MG_ENOTSHARED);
    for (int i = 0; i < 100; i++) {
        struct account *of = &accounts[i % 8];

        OK(mg_lock_at(&of->lock));
        of->balance++;
        OK(mg_unlock_at(&of->lock));
    }
    OK(mg_barrier_at(&accounts[0].barrier, (uint32_t)nodes));
    for (int i = 0; i < 8; i++)
        CHECK(accounts[i].balance == (uint64_t)((i < 4 ? 13 : 12) * nodes));
    OK(mg_barrier_at(&accounts[0].barrier, (uint32_t)nodes));

    OK(mg_lock_at(&accounts[1].lock));
    while (accounts[1].turn != (uint64_t)me)
        OK(mg_cond_wait_at(&accounts[1].condition, &accounts[1].lock));
    accounts[1].turn++;
    OK(mg_cond_broadcast_at(&accounts[1].condition));
    OK(mg_unlock_at(&accounts[1].lock));
    OK(mg_barrier_at(&accounts[1].barrier, (uint32_t)nodes));

    CODE(mg_sem_trywait_at(&accounts[2].units), MG_EBUSY);
    CODE(mg_sem_timedwait_at(&accounts[2].units, &soon), MG_ETIMEDOUT);
    meet();
    OK(mg_sem_post_at(&accounts[2].units, 1));
    OK(mg_sem_wait_at(&accounts[2].units));
    meet();
    if (me == 0) {
        OK(mg_trylock_at(&accounts[3].lock));
        OK(mg_rwlock_trywrlock_at(&accounts[3].rwlock));
    }
    meet();
    if (me != 0) {
        struct timespec later = in_ms(10);

        CODE(mg_timedlock_at(&accounts[3].lock, &later), MG_ETIMEDOUT);
        CODE(mg_rwlock_tryrdlock_at(&accounts[3].rwlock), MG_EBUSY);
    }
    meet();
    if (me == 0) {
        struct timespec later = in_ms(10);

        CODE(mg_cond_timedwait_at(&accounts[3].condition, &accounts[3].lock, &later), MG_ETIMEDOUT);
        OK(mg_cond_signal_at(&accounts[3].condition));
        OK(mg_rwlock_unlock_at(&accounts[3].rwlock));
        OK(mg_unlock_at(&accounts[3].lock));
    }
    OK(mg_rwlock_rdlock_at(&accounts[3].rwlock));
    OK(mg_rwlock_unlock_at(&accounts[3].rwlock));
    OK(mg_rwlock_wrlock_at(&accounts[3].rwlock));
    OK(mg_rwlock_unlock_at(&accounts[3].rwlock));
    meet();
}

int main(int argc, char **argv)
{
    enum mg_consistency consistency = MG_SEQUENTIAL;

    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    if (argc > 1)
        consistency = (enum mg_consistency)atoi(argv[1]);
    try_locks();
    exclude(consistency);
    semaphores();
    conditions();
    read_write(consistency);
    once();
    new_ids();
    addresses();
    return 0;
}
