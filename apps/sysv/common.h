/*
 * common.h - how the processes of one job find each other over plain System V IPC, whoever comes
 * first, on one machine or on several; and how the last one out removes everything.
 *
 * A job is `-p P` started processes, each of which may be `-c C` processes by fork: P x C in all. They
 * meet under one key: by default a hash of the program's name, because ftok gives another key on each
 * machine for a file that is not shared; `-k` takes a number, or a path for ftok.
 *
 * The set of semaphores is made by whoever wins IPC_CREAT | IPC_EXCL, and is usable once sem_otime is
 * not 0. The segment needs no making: it is zero. Its first page hands out ranks and counts who left.
 */
#ifndef SYSV_COMMON_H
#define SYSV_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    MAX_CHILDREN = 64,
    MAX_EXTRA = 8,    /* semaphores of the program's own */
    SEM_MUTEX = 0,    /* of the meeting page */
    SEM_BARRIER = 1,  /* two, used in turn */
    SEM_OWN = 3,      /* the program's own begin here */
    SEM_ALL = SEM_OWN + MAX_EXTRA,
};

union semun { /* ours to declare, says semctl(2) */
    int val;
    struct semid_ds *buf;
    unsigned short *array;
};

/* The first page of the segment. */
struct meeting {
    int come;
    int left;
    long word[32]; /* what a program tells all the others */
};

static struct job {
    const char *name;
    key_t key;
    int started;  /* -p */
    int each;     /* -c */
    int all;      /* started * each */
    int rank;     /* 0 .. all - 1, in the order of arrival */
    int seconds;  /* -w: the watchdog */
    int shm, sem; /* identifiers */
    unsigned barriers;
    struct meeting *meeting;
    void *data; /* the program's part of the segment, zero at first */
    pid_t children[MAX_CHILDREN];
    int msg, extra_shm; /* removed at the end where not -1 */
    void (*removes)(void); /* and what else is to be removed */
} job = {.started = 1, .seconds = 120, .shm = -1, .sem = -1, .msg = -1, .extra_shm = -1};

static inline void remove_all(void)
{
    if (job.removes != NULL)
        job.removes();
    if (job.shm >= 0)
        shmctl(job.shm, IPC_RMID, NULL);
    if (job.extra_shm >= 0)
        shmctl(job.extra_shm, IPC_RMID, NULL);
    if (job.msg >= 0)
        msgctl(job.msg, IPC_RMID, NULL);
    if (job.sem >= 0)
        semctl(job.sem, 0, IPC_RMID);
}

/* Says what is wrong and takes the others down: their next call meets EIDRM. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void fail(const char *format, ...)
{
    char text[600], line[700];
    va_list list;

    fflush(stdout);
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    snprintf(line, sizeof line, "%s: rank %d: %s\n", job.name, job.rank, text);
    fputs(line, stderr); /* one write: lines of several processes do not mix */
    remove_all();
    _exit(1);
}

__attribute__((noreturn)) static inline void fail_errno(const char *what)
{
    fail("%s: %s", what, strerror(errno));
}

/* Time is up, or somebody ends us: nothing may be left. Plain system calls, allowed here in practice. */
static inline void give_up(int signal)
{
    const char *text = signal == SIGALRM ? ": timed out\n" : ": ended by a signal\n";

    remove_all();
    if (write(2, job.name, strlen(job.name)) < 0 || write(2, text, strlen(text)) < 0)
        _exit(2);
    _exit(1);
}

static inline void catch_ends(void (*handler)(int))
{
    signal(SIGALRM, handler);
    signal(SIGTERM, handler);
    signal(SIGINT, handler);
    signal(SIGHUP, handler);
}

static inline double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

/* splitmix64: the same numbers everywhere. */
static inline uint64_t scramble(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t next_random(uint64_t *state)
{
    return scramble((*state)++);
}

static inline uint64_t checksum(uint64_t sum, const void *bytes, size_t length)
{
    const unsigned char *b = bytes;

    for (size_t i = 0; i < length; i++)
        sum = (sum ^ b[i]) * 0x100000001b3u; /* FNV-1a */
    return sum;
}

/* One operation, begun again after a signal. */
static inline void sem_one(int set, int number, int by, int flags)
{
    struct sembuf op = {(unsigned short)number, (short)by, (short)flags};

    while (semop(set, &op, 1) < 0)
        if (errno != EINTR)
            fail_errno("semop");
}

static inline void lock(int number)
{
    sem_one(job.sem, number, -1, SEM_UNDO);
}

static inline void unlock(int number)
{
    sem_one(job.sem, number, 1, SEM_UNDO);
}

/*
 * Everybody takes one off the semaphore and waits for zero. Rank 0, once through, fills the other one,
 * which all have left by then; who comes there sooner is held up by its being zero.
 */
static inline void barrier(void)
{
    int mine = SEM_BARRIER + (int)(job.barriers % 2), other = SEM_BARRIER + (int)((job.barriers + 1) % 2);

    sem_one(job.sem, mine, -1, 0);
    sem_one(job.sem, mine, 0, 0);
    if (job.rank == 0)
        sem_one(job.sem, other, job.all, 0);
    job.barriers++;
}

static inline key_t key_of(const char *text)
{
    char *end;
    long number = strtol(text, &end, 0);

    if (end == text || *end != '\0') {
        key_t key = ftok(text, 'M');
        if (key == -1)
            fail_errno(text);
        return key;
    }
    return (key_t)number;
}

static inline void job_name(const char *argv0)
{
    const char *slash = strrchr(argv0, '/');

    job.name = slash ? slash + 1 : argv0;
    job.key = (key_t)(checksum(0xcbf29ce484222325u, job.name, strlen(job.name)) & 0x3fffff00) | 0x40000000;
}

static inline long number(const char *text, long least)
{
    char *end;
    long n = strtol(text, &end, 0);

    if (end == text || *end != '\0' || n < least) {
        fprintf(stderr, "%s: not a number of at least %ld: %s\n", job.name, least, text);
        exit(2);
    }
    return n;
}

/* For what is done under a lock: that nobody else does it at the same time, though there is an occasion. */
static inline void enter_alone(volatile long *holder)
{
    if (*holder != 0)
        fail("rank %ld is inside, under a lock that was given to us", *holder - 1);
    *holder = job.rank + 1;
    sched_yield();
}

static inline void leave_alone(volatile long *holder)
{
    if (*holder != job.rank + 1)
        fail("rank %ld came inside, under a lock that is ours", *holder - 1);
    *holder = 0;
}

#define JOB_OPTIONS "p:c:k:w:"
#define JOB_USAGE "[-p PROCESSES] [-c FORKED-IN-EACH] [-k KEY-OR-PATH] [-w SECONDS]"

__attribute__((noreturn)) static inline void usage(const char *more)
{
    fprintf(stderr, "usage: %s " JOB_USAGE " %s\n", job.name, more);
    exit(2);
}

/* Takes one of JOB_OPTIONS; false where it is none. */
static inline bool job_option(int option)
{
    switch (option) {
    case 'p': job.started = (int)number(optarg, 1); return true;
    case 'c': job.each = (int)number(optarg, 1); return true;
    case 'k': job.key = key_of(optarg); return true;
    case 'w': job.seconds = (int)number(optarg, 1); return true;
    default: return false;
    }
}

static inline int get_semaphores(int own, const unsigned short *values)
{
    double until = now_s() + job.seconds;
    struct semid_ds about;
    union semun arg;

    for (;;) {
        int set = semget(job.key, SEM_OWN + own, IPC_CREAT | IPC_EXCL | 0600);

        if (set >= 0) {
            unsigned short all[SEM_ALL] = {[SEM_MUTEX] = 0, [SEM_BARRIER] = (unsigned short)job.all};

            memcpy(all + SEM_OWN, values, (size_t)own * sizeof *values);
            arg.array = all;
            if (semctl(set, 0, SETALL, arg) < 0)
                fail_errno("SETALL");
            sem_one(set, SEM_MUTEX, 1, 0); /* sets sem_otime: the others may begin */
            return set;
        }
        if (errno != EEXIST)
            fail_errno("semget");
        set = semget(job.key, SEM_OWN + own, 0);
        while (set >= 0) {
            arg.buf = &about;
            if (semctl(set, 0, IPC_STAT, arg) < 0)
                break; /* removed meanwhile: the end of a job before ours */
            if (about.sem_otime != 0)
                return set;
            if (now_s() > until)
                fail("semaphores of key %#x were never made ready", (unsigned)job.key);
            sleep_ms(1);
        }
        if (set < 0 && errno != ENOENT)
            fail_errno("semget of the others' set");
    }
}

static inline int get_segment(key_t key, size_t bytes)
{
    for (;;) {
        int id = shmget(key, bytes, IPC_CREAT | IPC_EXCL | 0600);

        if (id >= 0)
            return id;
        if (errno == EEXIST && (id = shmget(key, bytes, 0)) >= 0)
            return id;
        if (errno != ENOENT)
            fail_errno("shmget");
    }
}

/* Where this process is to be several, makes the others. */
static inline void fork_children(void)
{
    fflush(stdout);
    for (int i = 1; i < job.each; i++) {
        pid_t child = fork();

        if (child < 0)
            fail_errno("fork");
        if (child == 0) {
            memset(job.children, 0, sizeof job.children);
            alarm((unsigned)job.seconds); /* alarms are not inherited */
            return;
        }
        job.children[i] = child;
    }
}

/*
 * Meets the other processes: `data` bytes of segment, `own` semaphores of the program's with these
 * values. `least`: so many processes at least; one started alone forks them.
 */
static inline void meet(int least, size_t data, int own, const unsigned short *values)
{
    if (job.each == 0)
        job.each = job.started >= least ? 1 : (least + job.started - 1) / job.started;
    job.all = job.started * job.each;
    if (job.all < least || job.each > MAX_CHILDREN || job.all > 1000) {
        fprintf(stderr, "%s: %d processes (-p times -c) are too few or too many\n", job.name, job.all);
        exit(2);
    }
    catch_ends(give_up);
    alarm((unsigned)job.seconds);
    fork_children();
    job.sem = get_semaphores(own, values);
    job.shm = get_segment(job.key, PAGE + data);
    job.meeting = shmat(job.shm, NULL, 0);
    if (job.meeting == (void *)-1)
        fail_errno("shmat");
    job.data = (char *)job.meeting + PAGE;
    lock(SEM_MUTEX);
    job.rank = job.meeting->come++;
    unlock(SEM_MUTEX);
    if (job.rank >= job.all)
        fail("more processes came than -p and -c say (%d)", job.all);
    barrier();
}

/* Leaves: detaches, the last one removes all; waits for forked children, whose failure is ours. */
static inline int part(void)
{
    bool last;
    int status, result = 0;

    lock(SEM_MUTEX);
    last = ++job.meeting->left == job.all;
    unlock(SEM_MUTEX);
    if (shmdt(job.meeting) < 0)
        fail_errno("shmdt");
    if (last)
        remove_all();
    for (int i = 0; i < MAX_CHILDREN; i++) {
        if (job.children[i] == 0)
            continue;
        if (waitpid(job.children[i], &status, 0) < 0 || status != 0)
            result = 1;
    }
    if (result != 0)
        fprintf(stderr, "%s: a forked process failed\n", job.name);
    return result;
}

#endif
