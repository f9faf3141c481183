/*
 * What a thread's destructors write belongs to what it wrote: who joins the thread sees it. `destructors N`
 * with memory of consistency N.
 */
#include "check.h"

#include <pthread.h>

/* What C++ calls for each thread_local object that it makes. */
extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *library);
extern void *__dso_handle;

enum { ONCE, TWICE, THRICE, OBJECT, DESTRUCTORS };
static const int writes[DESTRUCTORS] = {1, 2, 3, 1};

struct told {
    long destroyed[DESTRUCTORS];
};

static pthread_key_t keys[DESTRUCTORS];
static __thread int calls[DESTRUCTORS];

static void write_one(void *value, int kind)
{
    ((struct told *)value)->destroyed[kind]++;
    if (++calls[kind] < writes[kind])
        CHECK(pthread_setspecific(keys[kind], value) == 0);
}

static void once(void *value)
{
    write_one(value, ONCE);
}

/* These set their value anew, as destructors may that other destructors use. */
static void twice(void *value)
{
    write_one(value, TWICE);
}

/* It uses what is of the job, too. */
static void thrice(void *value)
{
    OK(mg_lock(3));
    write_one(value, THRICE);
    OK(mg_unlock(3));
}

static void object(void *value)
{
    write_one(value, OBJECT);
}

static void *begin(void *arg)
{
    CHECK(__cxa_thread_atexit_impl(object, arg, &__dso_handle) == 0);
    for (int kind = ONCE; kind < OBJECT; kind++)
        CHECK(pthread_setspecific(keys[kind], arg) == 0);
    return (void *)7;
}

static void *returns(void *arg)
{
    return begin(arg);
}

static void *exits(void *arg)
{
    pthread_exit(begin(arg));
}

static void *is_cancelled(void *arg)
{
    begin(arg);
    pthread_cancel(pthread_self());
    pthread_testcancel();
    FAIL("a cancelled thread went on");
}

int main(int argc, char **argv)
{
    void *(*const starts[])(void *) = {returns, exits, is_cancelled};
    void (*const destructors[])(void *) = {once, twice, thrice};
    struct told *told;
    long joined = 0;

    OK(mg_init(&argc, &argv));
    CHECK(argc == 2);
    for (int kind = ONCE; kind < OBJECT; kind++)
        CHECK(pthread_key_create(&keys[kind], destructors[kind]) == 0);
    told = SHARE("told", 0, mg_malloc_with(sizeof *told, 0, (enum mg_consistency)atoi(argv[1])));
    OK(mg_barrier(1, 0));
    for (int i = 0; mg_node() == 0 && i < 30; i++) {
        mg_thread thread;
        void *result;

        OK(mg_thread_create(&thread, i / 3 % mg_nodes(), starts[i % 3], told));
        OK(mg_thread_join(thread, &result));
        CHECK(result == (i % 3 == 2 ? PTHREAD_CANCELED : (void *)7));
        joined++;
        for (int kind = ONCE; kind < DESTRUCTORS; kind++)
            if (told->destroyed[kind] != joined * writes[kind])
                FAIL("thread %d, destructor %d: %ld", i, kind, told->destroyed[kind]);
    }
    OK(mg_barrier(1, 0));
    return 0;
}
