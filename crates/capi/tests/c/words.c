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

static void *other(void *arg)
{
    CHECK(mg_last_error() == MG_OK);
    CHECK(strstr(mg_strerror(MG_EPERM), "lock 7") == NULL);
    return arg;
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
    SAYS(mg_free(&thread), MG_ENOTSHARED, "is not shared memory, or not where an allocation of this kind begins");
    SAYS(mg_set_chunking(0), MG_EINVAL, "chunking level of 0");
    SAYS(mg_get_stats(NULL, 8), MG_EINVAL, "NULL for the statistics");
    SAYS(mg_init(&argc, &argv), MG_EAGAIN, "already");
    CHECK(mg_malloc(SIZE_MAX) == NULL && mg_last_error() == MG_ENOMEM);
    CHECK(strstr(mg_strerror(mg_last_error()), "out of shared memory: ") != NULL);
    CHECK(strstr(mg_strerror(MG_EPERM), "lock 7") == NULL); /* what it means, no longer what happened */
    return mg_finalize();
}
