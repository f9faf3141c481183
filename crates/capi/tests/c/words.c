/* What failed is said by mg_strerror in words of its own, to the thread that asks, until the next failure. */
#include "check.h"

#include <pthread.h>

#define SAYS(call, code, words)                                             \
    do {                                                                    \
        CODE(call, code);                                                   \
        CHECK(mg_last_error() == (code));                                   \
        if (strstr(mg_strerror(code), words) == NULL)                       \
            FAIL("%s: %s, without \"%s\"", #call, mg_strerror(code), words); \
    } while (0)

/* Holds lock 8, and read-write lock 5, while the main thread tries. */
static void *holder(void *both)
{
    OK(mg_lock(8));
    OK(mg_rwlock_wrlock(5));
    pthread_barrier_wait(both);
    pthread_barrier_wait(both);
    OK(mg_rwlock_unlock(5));
    OK(mg_unlock(8));
    return NULL;
}

static void not_to_be_had(void)
{
    struct timespec past = {0, 0};
    pthread_barrier_t both;
    pthread_t thread;
    int *p = MUST(mg_calloc(4, sizeof *p));
    char text[80];

    CHECK(pthread_barrier_init(&both, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, holder, &both) == 0);
    pthread_barrier_wait(&both);
    SAYS(mg_trylock(8), MG_EBUSY, "lock 8 is held by another thread");
    SAYS(mg_timedlock(8, &past), MG_ETIMEDOUT, "the deadline came first: lock 8 is held by another thread");
    SAYS(mg_rwlock_tryrdlock(5), MG_EBUSY, "read-write lock 5 is held by other threads");
    SAYS(mg_rwlock_trywrlock(5), MG_EBUSY, "read-write lock 5 is held by other threads");
    pthread_barrier_wait(&both);
    CHECK(pthread_join(thread, NULL) == 0 && pthread_barrier_destroy(&both) == 0);
    OK(mg_rwlock_rdlock(5));
    SAYS(mg_rwlock_trywrlock(5), MG_EBUSY, "read-write lock 5 is held by this thread already");
    OK(mg_rwlock_unlock(5));
    OK(mg_rwlock_wrlock(5));
    SAYS(mg_rwlock_tryrdlock(5), MG_EBUSY, "read-write lock 5 is held by this thread already");
    SAYS(mg_rwlock_trywrlock(5), MG_EBUSY, "read-write lock 5 is held by this thread already");
    SAYS(mg_rwlock_wrlock(5), MG_EPERM, "read-write lock 5 is held by this thread already, to write");
    OK(mg_rwlock_unlock(5));
    SAYS(mg_sem_trywait(9), MG_EBUSY, "semaphore 9 has no unit");
    SAYS(mg_sem_timedwait(9, &past), MG_ETIMEDOUT, "the deadline came first: semaphore 9 has no unit");
    OK(mg_lock(7));
    SAYS(mg_trylock(7), MG_EBUSY, "lock 7 is held by this thread already");
    SAYS(mg_cond_timedwait(6, 7, &past), MG_ETIMEDOUT, "the deadline came first: no signal came on condition 6");
    OK(mg_unlock(7));
    snprintf(text, sizeof text, "semaphore at %p has no unit", (void *)(p + 1));
    SAYS(mg_sem_trywait_at(p + 1), MG_EBUSY, text);
}

static void *other(void *arg)
{
    CHECK(mg_last_error() == MG_OK);
    CHECK(strstr(mg_strerror(MG_EPERM), "lock 7") == NULL);
    return arg;
}

/* What fails as a system call does gives -1 and errno; its words are those of errno, by either number. */
static void system_calls(void)
{
    char own[8] = {0}, *shared = MUST(mg_calloc(8, 1));
    FILE *full = fopen("/dev/full", "w");

    for (int i = 0; i < 2; i++) {
        char *buffer = i == 0 ? own : shared;
        CHECK(mg_read(-1, buffer, 8) == -1 && errno == EBADF && mg_last_error() == MG_ESYS);
        CHECK(strstr(mg_strerror(MG_ESYS), "read: Bad file descriptor") != NULL);
        CHECK(strstr(mg_strerror(-1), "read: Bad file descriptor") != NULL);
        CHECK(mg_send(1 << 20, buffer, 8, 0) == -1 && errno == EBADF);
        CHECK(strstr(mg_strerror(mg_last_error()), "send: Bad file descriptor") != NULL);
        CHECK(mg_element(NULL, 1) == NULL && strstr(mg_strerror(-1), "Bad file") == NULL);
        if (full != NULL) {
            setvbuf(full, NULL, _IONBF, 0);
            CHECK(mg_fwrite(buffer, 1, 8, full) == 0 && errno == ENOSPC);
            CHECK(strstr(mg_strerror(mg_last_error()), "fwrite: No space left on device") != NULL);
        }
    }
    if (full != NULL)
        fclose(full);
}

/* Shared memory, but no allocation: other words than for a global. */
static void not_where_it_begins(void)
{
    const char *why = "but no live allocation of this kind begins there: it was freed, or it lies inside of one";
    char *bytes = MUST(mg_malloc(100)), *array = MUST(mg_malloc_array(10, 8));

    SAYS(mg_free(bytes + 1), MG_ENOTSHARED, why);
    CHECK(mg_realloc(array, 8) == NULL);
    CHECK(mg_last_error() == MG_ENOTSHARED);
    CHECK(strstr(mg_strerror(MG_ENOTSHARED), "is that of an array, which keeps its size: make another one") != NULL);
    CHECK(mg_usable_size(array) == 0 && mg_last_error() == MG_ENOTSHARED);
    CHECK(strstr(mg_strerror(MG_ENOTSHARED), "is that of an array, whose elements have the size that") != NULL);
    SAYS(mg_free(mg_element(array, 1)), MG_ENOTSHARED, "lies inside of an array, which is one allocation");
    OK(mg_free(array));
    OK(mg_free(bytes));
    CHECK(mg_realloc(bytes, 4096) == NULL && mg_last_error() == MG_EPERM);
    CHECK(strstr(mg_strerror(MG_EPERM), "realloc of 0x") != NULL);
    CHECK(strstr(mg_strerror(MG_EPERM), ", which is free already") != NULL);
}

/* In no allocation: what lies near is named, and that memory was freed, where it is known. */
static void beside(void)
{
    struct mg_segment_info stat;
    const int64_t one = 1;
    char *bytes = MUST(mg_malloc(64)), *array = MUST(mg_malloc_array(4, 4 << 20)), near[64];

    snprintf(near, sizeof near, "it lies behind the place of one, 64 bytes at %p", (void *)bytes);
    SAYS(mg_fetch_op(bytes + 64, MG_INT64, MG_SUM, &one, NULL), MG_ENOTSHARED, near);
    SAYS(mg_segment_stat_at(bytes, &stat, sizeof stat), MG_ENOTSHARED, "but of no named segment: what mg_malloc");
    OK(mg_free(bytes));
    OK(mg_free(array));
    SAYS(mg_fetch_op(array, MG_INT64, MG_SUM, &one, NULL), MG_ENOTSHARED, "is that of shared memory which was freed");
    SAYS(mg_segment_stat_at(array, &stat, sizeof stat), MG_ENOTSHARED, "is that of shared memory which was freed");
    CHECK(mg_read(0, array, 8) == -1 && errno == EFAULT && mg_last_error() == MG_ENOTSHARED);
    CHECK(mg_write(1, array, 8) == -1 && errno == EFAULT && mg_last_error() == MG_ENOTSHARED);
    CHECK(strstr(mg_strerror(MG_ENOTSHARED), "is that of shared memory which was freed") != NULL);
}

static void not_attached(void)
{
    const char *why = "is not where a segment begins that this node is attached to";
    char name[32], *segment;

    snprintf(name, sizeof name, "of node %d", mg_node());
    OK(mg_segment_create(name, 100, 0600, NULL));
    segment = MUST(mg_segment_attach(name, 0));
    SAYS(mg_segment_detach(segment + 1), MG_ENOTSHARED, why);
    OK(mg_segment_detach(segment));
    SAYS(mg_segment_detach(segment), MG_ENOTSHARED, why);
    OK(mg_segment_remove(name));
}

int main(int argc, char **argv)
{
    pthread_t thread;

    OK(mg_init(&argc, &argv));
    SAYS(mg_unlock(7), MG_EPERM, "unlock of lock 7, which this thread does not hold");
    OK(mg_lock(7));
    CHECK(strstr(mg_strerror(MG_EPERM), "lock 7") != NULL); /* what goes well changes nothing */
    SAYS(mg_lock(7), MG_EPERM, "lock 7 is held by this thread already");
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0 && pthread_join(thread, NULL) == 0);
    OK(mg_unlock(7));
    SAYS(mg_thread_join(0x1234, NULL), MG_EINVAL, "thread 0x1234 does not exist");
    SAYS(mg_free(&thread), MG_ENOTSHARED, "is not shared memory: globals, stacks and malloc memory are private");
    not_where_it_begins();
    /* What one node frees is another's at once. */
    OK(mg_barrier(1, 0));
    if (mg_node() == 0)
        beside();
    OK(mg_barrier(1, 0));
    not_attached();
    SAYS(mg_set_chunking(0), MG_EINVAL, "chunking level of 0");
    SAYS(mg_get_stats(NULL, 8), MG_EINVAL, "NULL for the statistics");
    CHECK(mg_element(MUST(mg_malloc_array(10, 8)), 10) == NULL);
    CHECK(strstr(mg_strerror(MG_EINVAL), "index 10, counted from 0, of an array of 10 elements") != NULL);
    if (mg_node() == 0)
        not_to_be_had();
    system_calls();
    SAYS(mg_init(&argc, &argv), MG_EAGAIN, "already");
    CHECK(mg_malloc(SIZE_MAX) == NULL && mg_last_error() == MG_ENOMEM);
    CHECK(strstr(mg_strerror(mg_last_error()), "out of shared memory: ") != NULL);
    CHECK(strstr(mg_strerror(MG_EPERM), "lock 7") == NULL); /* what it means, no longer what happened */
    return mg_finalize();
}
