/* check.h - what every test program of the C interface uses. */
#ifndef CHECK_H
#define CHECK_H

#include <multigrain.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A failed check ends the node at once: the launcher ends the others. */
#define FAIL(...)                                                                   \
    do {                                                                            \
        fprintf(stderr, "%s:%d: node %d: ", __FILE__, __LINE__, mg_node());         \
        fprintf(stderr, __VA_ARGS__);                                               \
        fputc('\n', stderr);                                                        \
        _exit(1);                                                                   \
    } while (0)

#define CHECK(condition)           \
    do {                           \
        if (!(condition))          \
            FAIL("%s", #condition); \
    } while (0)

#define CODE(call, expected)                                                          \
    do {                                                                              \
        int code_ = (call);                                                           \
        if (code_ != (expected))                                                      \
            FAIL("%s is %d (%s), not %s", #call, code_, mg_strerror(code_), #expected); \
    } while (0)

#define OK(call) CODE(call, MG_OK)

/* NULL, for this reason. */
#define NONE(call, reason)                                                  \
    do {                                                                    \
        void *none_ = (call);                                               \
        if (none_ != NULL || mg_last_error() != (reason))                   \
            FAIL("%s is %p, reason %d, not %s", #call, none_, mg_last_error(), #reason); \
    } while (0)

static inline void *must(void *p, int line)
{
    if (p == NULL) {
        fprintf(stderr, "line %d: node %d: NULL: %s\n", line, mg_node(), mg_strerror(mg_last_error()));
        _exit(1);
    }
    return p;
}
#define MUST(call) must(call, __LINE__)

/* Node `owner` makes it, all get it; collective, with a name used once. */
#define SHARE(name, owner, call) \
    (mg_node() == (owner) ? share_own(name, MUST(call)) : MUST(mg_lookup(name)))

static inline void *share_own(const char *name, void *p)
{
    OK(mg_publish(name, p));
    return p;
}

static inline struct mg_stats stats_now(void)
{
    struct mg_stats stats;

    OK(mg_get_stats(&stats, sizeof stats));
    return stats;
}

/* Memory that this process alone has, in bytes. */
static inline double own_bytes(void)
{
    FILE *status = MUST(fopen("/proc/self/status", "r"));
    char line[256];
    long kib = -1;

    while (kib < 0 && fgets(line, sizeof line, status) != NULL)
        (void)sscanf(line, "RssAnon: %ld kB", &kib);
    fclose(status);
    CHECK(kib > 0);
    return (double)kib * 1024;
}

/* The thread that calls, for wait_asleep(). */
static inline int own_thread(void)
{
    return (int)syscall(SYS_gettid);
}

/*
 * Waits until the system says that a thread of this process is in this state. If it never is, the job's
 * time-out tells.
 */
static inline void wait_state(int thread, char wanted)
{
    char path[64], state = 0;

    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    while (state != wanted) {
        FILE *file = fopen(path, "r");

        CHECK(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
        fclose(file);
        usleep(1000);
    }
}

/* Waits until a thread sleeps in the kernel, as who has arrived at a barrier does in the end. */
static inline void wait_asleep(int thread)
{
    wait_state(thread, 'S');
}

/* A thread of this node that is about to wait at its first barrier, and where others are told that it does. */
struct waiting {
    int thread;
    volatile long *told; /* in sequentially consistent memory */
};

/* For another thread of its node: tells when it waits. */
static inline void *tell_when_it_waits(void *arg)
{
    struct waiting *waiting = arg;

    while (stats_now().barriers == 0)
        usleep(1000);
    wait_asleep(waiting->thread);
    *waiting->told = 1;
    return NULL;
}

#endif
