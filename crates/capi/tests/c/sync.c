/* Atomics, locks, semaphores, condition variables and barriers among all nodes. */
#include "check.h"

#define ITEMS 60 /* that each node makes, and takes */
#define ROOM 4
enum { INDEX_LOCK = 10, EMPTY, FILLED, QUEUE_LOCK, NOT_FULL, NOT_EMPTY };

struct queue {
    uint64_t items[ROOM];
    uint64_t made, taken, sum;
};

static int me, nodes;
static struct queue *queue; /* set on every node before threads start */

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

static void atomics(void)
{
    enum { COUNTERS = 4, ROUNDS = 400 };
    uint64_t *counters = SHARE("counters", 0, mg_calloc(COUNTERS, sizeof *counters));
    uint32_t *flag = SHARE("flag", nodes - 1, mg_calloc(1, sizeof *flag));
    uint32_t expected;

    for (int i = 0; i < ROUNDS; i++)
        __atomic_fetch_add(&counters[(i + me) % COUNTERS], (uint64_t)1 + (uint64_t)me, __ATOMIC_SEQ_CST);
    do {
        expected = (uint32_t)me;
    } while (!__atomic_compare_exchange_n(flag, &expected, (uint32_t)me + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    meet();
    for (int i = 0; i < COUNTERS; i++)
        CHECK(counters[i] == (uint64_t)ROUNDS / COUNTERS * (uint64_t)(nodes * (nodes + 1) / 2));
    CHECK(*flag == (uint32_t)nodes);
    meet();
}

static void *add_under_locks(void *arg)
{
    uint64_t *sums = arg;

    for (uint32_t i = 0; i < 50; i++) {
        uint32_t id = 100 + i % 3;

        OK(mg_lock(id));
        sums[i % 3] += 1;
        OK(mg_unlock(id));
    }
    return NULL;
}

static void locks(void)
{
    uint64_t *sums = SHARE("sums", 0, mg_calloc(3, sizeof *sums));
    mg_thread thread;

    OK(mg_thread_create(&thread, me, add_under_locks, sums));
    add_under_locks(sums);
    OK(mg_thread_join(thread, NULL));
    meet();
    CHECK(sums[0] + sums[1] + sums[2] == (uint64_t)(2 * 50 * nodes));
    meet();
}

static void *produce_by_semaphores(void *arg)
{
    for (uint64_t i = 1; i <= ITEMS; i++) {
        OK(mg_sem_wait(EMPTY));
        OK(mg_lock(INDEX_LOCK));
        queue->items[queue->made++ % ROOM] = i;
        OK(mg_unlock(INDEX_LOCK));
        OK(mg_sem_post(FILLED, 1));
    }
    return arg;
}

static void consume_by_semaphores(void)
{
    for (int i = 0; i < ITEMS; i++) {
        OK(mg_sem_wait(FILLED));
        OK(mg_lock(INDEX_LOCK));
        CHECK(queue->made > queue->taken && queue->made - queue->taken <= ROOM);
        queue->sum += queue->items[queue->taken++ % ROOM];
        OK(mg_unlock(INDEX_LOCK));
        OK(mg_sem_post(EMPTY, 1));
    }
}

static void *produce_by_conditions(void *arg)
{
    for (uint64_t i = 1; i <= ITEMS; i++) {
        OK(mg_lock(QUEUE_LOCK));
        while (queue->made - queue->taken == ROOM)
            OK(mg_cond_wait(NOT_FULL, QUEUE_LOCK));
        queue->items[queue->made++ % ROOM] = i;
        OK(mg_cond_signal(NOT_EMPTY));
        OK(mg_unlock(QUEUE_LOCK));
    }
    return arg;
}

static void consume_by_conditions(void)
{
    for (int i = 0; i < ITEMS; i++) {
        OK(mg_lock(QUEUE_LOCK));
        while (queue->made == queue->taken)
            OK(mg_cond_wait(NOT_EMPTY, QUEUE_LOCK));
        CHECK(queue->made - queue->taken <= ROOM);
        queue->sum += queue->items[queue->taken++ % ROOM];
        OK(mg_cond_broadcast(NOT_FULL));
        OK(mg_unlock(QUEUE_LOCK));
    }
}

static void bounded_queue(const char *name, void *(*produce)(void *), void (*consume)(void))
{
    mg_thread producer;

    queue = SHARE(name, 0, mg_calloc(1, sizeof *queue));
    meet();
    OK(mg_thread_create(&producer, (me + 1) % nodes, produce, NULL));
    consume();
    OK(mg_thread_join(producer, NULL));
    meet();
    CHECK(queue->made == (uint64_t)(ITEMS * nodes) && queue->taken == queue->made);
    CHECK(queue->sum == (uint64_t)nodes * ITEMS * (ITEMS + 1) / 2);
    meet();
}

static void *come(void *arg)
{
    for (int i = 0; i < 20; i++)
        OK(mg_barrier(7, (uint32_t)(2 * nodes)));
    return arg;
}

static void barriers(void)
{
    uint64_t *phases = SHARE("phases", 0, mg_calloc(64, sizeof *phases));
    mg_thread thread;

    for (uint64_t phase = 1; phase <= 30; phase++) {
        phases[me] = phase;
        OK(mg_barrier((uint32_t)phase % 3, 0));
        for (int node = 0; node < nodes; node++)
            CHECK(phases[node] == phase || phases[node] == phase + 1);
        OK(mg_barrier(5, (uint32_t)nodes));
    }
    /* Two threads a node, counted by number. */
    OK(mg_thread_create(&thread, me, come, NULL));
    come(NULL);
    OK(mg_thread_join(thread, NULL));
    /* Some nodes only. */
    if (me < 2)
        OK(mg_barrier(9, nodes < 2 ? 1 : 2));
    meet();
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    atomics();
    locks();
    if (me == 0)
        OK(mg_sem_post(EMPTY, ROOM));
    bounded_queue("by semaphores", produce_by_semaphores, consume_by_semaphores);
    bounded_queue("by conditions", produce_by_conditions, consume_by_conditions);
    barriers();
    OK(mg_finalize());
    return 0;
}
