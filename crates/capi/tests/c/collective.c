/* Collective operations: every one with every type, over threads and nodes, small and large, right and wrong. */
#include "check.h"

#include <pthread.h>

enum { ARRAY = 10000 }; /* doubles: several pieces */

static int local, total;
static double *shared; /* node 0's; all write their own part */

struct pair {
    double low, high;
};

/* Not commutative: the last digits in the order of places. */
static void append(void *into, const void *with)
{
    *(uint64_t *)into = *(uint64_t *)into * 10 + *(const uint64_t *)with % 10;
}

static void widen(void *into, const void *with)
{
    struct pair *one = into;
    const struct pair *other = with;

    if (other->low < one->low)
        one->low = other->low;
    if (other->high > one->high)
        one->high = other->high;
}

static void numbers(uint32_t id, uint32_t threads, uint32_t place)
{
    int32_t i32[2] = {(int32_t)place, -(int32_t)place}, sum[2];
    int64_t i64 = (int64_t)place << 40;
    uint64_t u64 = UINT64_MAX;
    float f = place + 0.5f;
    double d = place % 2 == 0 ? 1.0 : 0.0, all = 0;
    int expected = total * (total - 1) / 2;

    OK(mg_allreduce(id, threads, place, i32, sum, 2, MG_INT32, MG_SUM));
    CHECK(sum[0] == expected && sum[1] == -expected);
    OK(mg_allreduce(id, threads, place, &i64, &i64, 1, MG_INT64, MG_MAX));
    CHECK(i64 == (int64_t)(total - 1) << 40);
    OK(mg_allreduce(id, threads, place, &u64, &u64, 1, MG_UINT64, MG_SUM));
    CHECK(u64 == (uint64_t)-(int64_t)total);
    OK(mg_allreduce(id, threads, place, &f, &f, 1, MG_FLOAT, MG_MIN));
    CHECK(f == 0.5f);
    OK(mg_allreduce(id, threads, place, &d, &all, 1, MG_DOUBLE, MG_AND));
    CHECK(all == (total == 1 ? 1.0 : 0.0));
    OK(mg_allreduce(id, threads, place, &d, &all, 1, MG_DOUBLE, MG_OR));
    CHECK(all == 1.0);
}

/* In another order of places the last bits differ; in this one they do not, whoever comes first. */
static void orders(uint32_t id, uint32_t threads, uint32_t place)
{
    double value = place % 3 == 0 ? 1e16 : place % 3 == 1 ? 1.0 : -1e16, first, again;
    int round;

    OK(mg_allreduce(id, threads, place, &value, &first, 1, MG_DOUBLE, MG_SUM));
    for (round = 0; round < 20; round++) {
        if ((round + place) % 3 == 0)
            usleep(100);
        OK(mg_allreduce(id, threads, place, &value, &again, 1, MG_DOUBLE, MG_SUM));
        CHECK(memcmp(&first, &again, sizeof first) == 0);
    }
}

static void others(uint32_t id, uint32_t threads, uint32_t place)
{
    uint32_t root = (uint32_t)total - 1, at;
    int64_t mine = place + 1, sum = -7;
    uint64_t digit = place + 1, digits = 0;
    struct pair range = {-(double)place, place};
    char text[40] = "nothing";
    double *array = malloc(ARRAY * sizeof *array);

    OK(mg_reduce(id, threads, place, root, &mine, place == root ? &sum : NULL, 1, MG_INT64, MG_SUM));
    CHECK(sum == (place == root ? (int64_t)total * (total + 1) / 2 : -7));
    OK(mg_scan(id, threads, place, &mine, &sum, 1, MG_INT64, MG_SUM));
    CHECK(sum == mine * (mine + 1) / 2);
    for (at = 1; at <= place + 1; at++)
        digits = digits * 10 + at % 10;
    OK(mg_scan_with(id, threads, place, &digit, &digit, 1, sizeof digit, append));
    CHECK(digit % 1000 == (place == 0 ? 1 : digits % 1000));
    OK(mg_allreduce_with(id, threads, place, &range, &range, 1, sizeof range, widen));
    CHECK(range.low == -(double)root && range.high == root);
    OK(mg_reduce_with(id, threads, place, 0, &range, &range, 1, sizeof range, widen));
    if (place == root)
        strcpy(text, "what the last thread has to say");
    OK(mg_broadcast(id, threads, place, root, text, sizeof text));
    CHECK(strcmp(text, "what the last thread has to say") == 0);

    for (at = 0; at < ARRAY; at++)
        array[at] = place * at;
    OK(mg_allreduce(id, threads, place, array, array, ARRAY, MG_DOUBLE, MG_SUM));
    for (at = 0; at < ARRAY; at++)
        CHECK(array[at] == (double)total * (total - 1) / 2 * at);
    OK(mg_scan(id, threads, place, array, array, ARRAY, MG_DOUBLE, MG_MAX));
    CHECK(array[1] == (double)total * (total - 1) / 2);
    free(array);
}

/* A collective operation is a barrier: what was written before is there, and values may be shared memory. */
static void meets(uint32_t id, uint32_t threads, uint32_t place)
{
    double sum = 0, own;
    int at;

    shared[place * 512] = place + 1;
    OK(mg_allreduce(id, threads, place, &shared[place * 512], &shared[place * 512 + 1], 1, MG_DOUBLE, MG_SUM));
    own = shared[place * 512 + 1];
    for (at = 0; at < total; at++)
        sum += shared[at * 512];
    CHECK(sum == own && sum == (double)total * (total + 1) / 2);
    OK(mg_barrier(id, threads));
    shared[place * 512] = 0;
}

static void wrong(uint32_t place)
{
    int64_t value = 1;

    CODE(mg_allreduce(7, 0, (uint32_t)total, &value, &value, 1, MG_INT64, MG_SUM), MG_EINVAL);
    CODE(mg_reduce(7, 0, place, (uint32_t)total, &value, &value, 1, MG_INT64, MG_SUM), MG_EINVAL);
    CODE(mg_allreduce(7, 0, place, NULL, &value, 1, MG_INT64, MG_SUM), MG_EINVAL);
    CODE(mg_allreduce(7, 0, place, &value, &value, 0, MG_INT64, MG_SUM), MG_EINVAL);
    CODE(mg_allreduce(7, 0, place, &value, &value, 1, (enum mg_type)9, MG_SUM), MG_EINVAL);
    CODE(mg_allreduce(7, 0, place, &value, &value, 1, MG_INT64, (enum mg_operation)5), MG_EINVAL);
    CODE(mg_allreduce(7, 0, place, &value, &value, SIZE_MAX / 64, MG_INT64, MG_SUM), MG_EINVAL);
    CODE(mg_broadcast(7, 0, place, 0, &value, SIZE_MAX / 2 + 1), MG_EINVAL);
    CODE(mg_allreduce_with(7, 0, place, &value, &value, 1, 0, append), MG_EINVAL);
    CODE(mg_allreduce_with(7, 0, place, &value, &value, 1, 8, NULL), MG_EINVAL);
    CODE(mg_allreduce_with(7, 0, place, &value, &value, 1, 1 << 20, append), MG_EINVAL);
}

static void *thread(void *argument)
{
    uint32_t place = (uint32_t)(mg_node() * local + (int)(intptr_t)argument), id;

    wrong(place);
    for (id = 0; id < 3; id++) {
        /* Announced together, and each thread by itself. */
        uint32_t threads = id % 2 == 0 ? 0 : (uint32_t)total;

        numbers(id, threads, place);
        orders(id, threads, place);
        others(id, threads, place);
        meets(id, threads, place);
    }
    return NULL;
}

/* Two threads of one node disagree: the second is told, and has not come. */
static void *disagrees(void *argument)
{
    int32_t value = 1;

    *(volatile int *)argument = own_thread();
    OK(mg_allreduce(9, 2, 0, &value, &value, 1, MG_INT32, MG_SUM));
    CHECK(value == 3);
    return NULL;
}

static void disagree(void)
{
    int32_t value = 2;
    float number = 2;
    volatile int other_thread = 0;
    pthread_t other;

    CHECK(pthread_create(&other, NULL, disagrees, (void *)&other_thread) == 0);
    while (stats_now().barriers == 0)
        usleep(1000);
    wait_asleep(other_thread);
    CODE(mg_allreduce(9, 2, 1, &number, &number, 1, MG_FLOAT, MG_SUM), MG_EPERM);
    CHECK(strstr(mg_strerror(MG_EPERM), "threads disagree: sum of 1 x int32, and sum of 1 x float") != NULL);
    CODE(mg_allreduce(9, 2, 0, &value, &value, 1, MG_INT32, MG_SUM), MG_EPERM);
    CHECK(strstr(mg_strerror(MG_EPERM), "two threads came with place 0") != NULL);
    OK(mg_allreduce(9, 2, 1, &value, &value, 1, MG_INT32, MG_SUM));
    CHECK(value == 3 && pthread_join(other, NULL) == 0);
}

/* The node that manages the operation waits; what the other one then says ends the job. */
static void nodes_disagree(void)
{
    struct waiting own = {.thread = own_thread()};
    mg_thread thread;
    int64_t value = 1;

    own.told = SHARE("told", 0, mg_malloc_with(sizeof *own.told, 0, MG_SEQUENTIAL));
    if (mg_node() == 1)
        OK(mg_thread_create(&thread, 1, tell_when_it_waits, &own));
    while (mg_node() == 0 && *own.told == 0)
        usleep(1000);
    mg_allreduce(1, 2, (uint32_t)mg_node(), &value, &value, 1, MG_INT64, mg_node() == 0 ? MG_SUM : MG_MAX);
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    int at;

    OK(mg_init(&argc, &argv));
    local = mg_threads();
    total = mg_nodes() * local;
    if (argc > 1 && strcmp(argv[1], "threads-disagree") == 0) {
        disagree();
        return mg_finalize();
    }
    if (argc > 1 && strcmp(argv[1], "nodes-disagree") == 0) {
        nodes_disagree();
        return mg_finalize();
    }
    shared = SHARE("shared", 0, mg_calloc((size_t)total * 512, sizeof *shared));
    OK(mg_barrier(100, (uint32_t)mg_nodes()));
    for (at = 1; at < local; at++)
        CHECK(pthread_create(&threads[at], NULL, thread, (void *)(intptr_t)at) == 0);
    thread(0);
    for (at = 1; at < local; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
    return mg_finalize();
}
