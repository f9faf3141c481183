/*
 * Threads of which a cancellation pends. "calls": none of the library's acts on it, in the main thread and in another;
 * "destructors": a thread that has returned is cancelled while a destructor of its own sleeps, or by that.
 */
#include "check.h"

#include <pthread.h>
#include <sys/mman.h>

/* Not buffered: each read is a system call. */
static FILE *zeros;

static void all_calls(void)
{
    char *shared = MUST(mg_malloc(4096));
    long *relaxed = MUST(mg_malloc_with(64, 0, MG_LAZY_RELEASE));

    CODE(mg_init(NULL, NULL), MG_EAGAIN);
    CHECK(mg_malloc_grain((size_t)1 << 31, (size_t)1 << 31) == NULL);
    CHECK(mg_malloc((size_t)1 << 50) == NULL);
    CHECK(mprotect(shared, 4096, PROT_READ) == -1 && errno == EACCES);
    CHECK(munmap(shared, 4096) == -1 && errno == EACCES);
    if (mlockall(MCL_CURRENT) == 0)
        munlockall();
    __atomic_fetch_add(relaxed, 1, __ATOMIC_SEQ_CST);
    OK(mg_lock(100 + (uint32_t)mg_node()));
    CHECK(mg_fread(shared, 1, 4096, zeros) == 4096);
    OK(mg_free(relaxed));
    OK(mg_free(shared));
}

static void *in_a_thread(void *arg)
{
    pthread_cancel(pthread_self());
    all_calls();
    OK(mg_unlock(100 + (uint32_t)mg_node()));
    /* The next holds it as it ends. */
    OK(mg_lock(200 + (uint32_t)mg_node()));
    pthread_testcancel();
    FAIL("the cancellation does not pend any more");
    return arg;
}

static void calls(int argc, char **argv)
{
    mg_thread thread;
    void *result;

    zeros = MUST(fopen("/dev/zero", "r"));
    CHECK(setvbuf(zeros, NULL, _IONBF, 0) == 0);
    pthread_cancel(pthread_self());
    OK(mg_init(&argc, &argv));
    OK(mg_thread_create(&thread, mg_node(), in_a_thread, NULL));
    OK(mg_thread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);
    all_calls();
    OK(mg_barrier(1, 0));
    OK(mg_finalize());
}

static pthread_key_t keys[2];
static volatile pthread_t ending;
static volatile int sleeps;

static void sleeping(void *other)
{
    ending = pthread_self();
    if (other == NULL)
        return;
    sleeps = 1;
    for (int i = 0; i < 50; i++)
        usleep(10000);
}

static void cancels_itself(void *value)
{
    (void)value;
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

static void *returns(void *key)
{
    CHECK(pthread_setspecific(*(pthread_key_t *)key, key) == 0);
    return (void *)7;
}

static void *cancels(void *arg)
{
    while (!sleeps)
        usleep(1000);
    pthread_cancel(ending);
    return arg;
}

static void destructors(int argc, char **argv)
{
    static pthread_key_t more[2];
    pthread_t other;
    mg_thread thread;
    void *result;

    /* Keys of before and after the library's. */
    CHECK(pthread_key_create(&keys[0], sleeping) == 0 && pthread_key_create(&keys[1], cancels_itself) == 0);
    OK(mg_init(&argc, &argv));
    CHECK(pthread_key_create(&more[0], sleeping) == 0 && pthread_key_create(&more[1], cancels_itself) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_key_t *key = i < 2 ? &keys[i] : &more[i - 2];

        sleeps = 0;
        if (i % 2 == 0)
            CHECK(pthread_create(&other, NULL, cancels, NULL) == 0);
        OK(mg_thread_create(&thread, mg_node(), returns, key));
        OK(mg_thread_join(thread, &result));
        CHECK(result == (void *)7);
        if (i % 2 == 0)
            CHECK(pthread_join(other, NULL) == 0);
    }
    OK(mg_barrier(1, 0));
    OK(mg_finalize());
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "destructors") == 0)
        destructors(argc, argv);
    else
        calls(argc, argv);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    printf("came to its end\n");
    return 0;
}
