/*
 * conformance.h - the frame of the conformance suite: checks, helpers, and the objects it makes.
 *
 * Rank 0 drives. The others (-p) are agents, and what a check needs another process for is done by
 * children of theirs: on another site. A process started alone forks one agent. Each section runs in a child of its own, so
 * one that hangs or crashes is one line, and the rest goes on.
 */
#ifndef SYSV_CONFORMANCE_H
#define SYSV_CONFORMANCE_H

#include "../common.h"

#include <limits.h>

void report(bool holds, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void skip(const char *why);

#define CHECK(condition) report(condition, __FILE__, __LINE__, "%s does not hold", #condition)

/* The call fails with this errno. */
#define CHECK_ERR(call, error)                                                                              \
    do {                                                                                                    \
        errno = 0;                                                                                          \
        long got_ = (long)(call);                                                                           \
        int errno_ = errno;                                                                                 \
        report(got_ == -1 && errno_ == (error), __FILE__, __LINE__, "%s gives %ld (%s), must be -1 (%s)",   \
               #call, got_, strerror(errno_), #error);                                                      \
    } while (0)

/* The identifier is no more: Linux says EINVAL, POSIX allows EIDRM to some calls. */
#define CHECK_GONE(call)                                                                                    \
    do {                                                                                                    \
        errno = 0;                                                                                          \
        long got_ = (long)(call);                                                                           \
        int errno_ = errno;                                                                                 \
        report(got_ == -1 && (errno_ == EINVAL || errno_ == EIDRM), __FILE__, __LINE__,                     \
               "%s gives %ld (%s), must be -1 (EINVAL)", #call, got_, strerror(errno_));                    \
    } while (0)

#define CHECK_IS(expression, value)                                                                         \
    do {                                                                                                    \
        errno = 0;                                                                                          \
        long got_ = (long)(expression);                                                                     \
        int errno_ = errno;                                                                                 \
        long value_ = (long)(value);                                                                        \
        report(got_ == value_, __FILE__, __LINE__, "%s is %ld (%s), must be %ld", #expression, got_,        \
               strerror(errno_), value_);                                                                   \
    } while (0)

#define CHECK_OK(call) CHECK_IS(call, 0)

/* A process that runs `body` and ends with its result (0 to 255). */
typedef long body(long a, long b, long c);

struct helper {
    int agent; /* -1: forked here */
    pid_t pid;
};

enum { HUNG = -1000 };

struct helper start(body *what, long a, long b, long c);      /* by an agent: on another site */
struct helper start_here(body *what, long a, long b, long c); /* by fork of this process */
int finish(struct helper helper);                             /* its result; -signal; HUNG after 10 s */
bool running(struct helper helper);
void send_signal(struct helper helper, int signal);
int run_other(body *what, long a, long b, long c); /* start and finish */
int run_here(body *what, long a, long b, long c);

/* Keys of the suite's own, 0 to 199; nothing has them at the start of a section. */
key_t key(int n);
/* Objects that are removed at the end of the section in any case; a failure ends the section. */
int new_shm(key_t key, size_t bytes, int flags);
int new_sem(key_t key, int count, int flags);
int new_msg(key_t key, int flags);
int keep_shm(int id), keep_sem(int id), keep_msg(int id); /* the same for an id that is there */

void *attach(int shm, int flags); /* a failure ends the section */
int signal_of_read(const volatile char *at), signal_of_write(volatile char *at); /* 0: no fault */
bool become_nobody(void);                                                        /* false unless root */
/* Waits for a helper to have a handler of its own; false after 5 s. */
bool await_handler(struct helper helper, int signal);
void settle(void); /* long enough for a helper to be blocked in its call */

/* Waits for so many to be counted as waiting; false after 5 s. */
bool await_ncnt(int set, int number, int count);
bool await_zcnt(int set, int number, int count);

int sem_value(int set, int number);
int set_value(int set, int number, int value);
int op(int set, int number, int by, int flags); /* one semop, plain */

void shm_sections(void), sem_sections(void), msg_sections(void), memory_sections(void),
    permission_sections(void), race_sections(void), process_sections(void), mapping_sections(void);
/* Runs a section in a child of its own. */
void section(const char *name, void (*run)(void));

#endif
