/*
 * posix_sem.c - named POSIX semaphores: what sem_overview(7) and its pages say, errno for errno, and that all processes of
 * the job have the same ones. Rank 0 checks alone first; then all count under one, pass a token round, and wait for each
 * other in every way there is.
 */
#include "common.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/stat.h>

enum { NAMES = 8, TOKENS = 64, LONGEST = 251 };

struct shared {
    long holder, counted;
    long turns;
    long threads;
};

static char name_[NAMES + TOKENS][64];
static int checks;
static long rounds = 200;

/* Names of this job's own: the first NAMES, and one for each rank's token. */
static const char *name(int n)
{
    if (name_[n][0] == '\0')
        snprintf(name_[n], sizeof name_[n], "/multigrain-%x-%d", (unsigned)job.key, n);
    return name_[n];
}

static void unlink_names(void)
{
    for (int i = 0; i < NAMES + TOKENS; i++)
        sem_unlink(name(i));
}

#define CHECK(condition) (checks++, (condition) ? (void)0 : fail("line %d: %s does not hold", __LINE__, #condition))

#define CHECK_IS(expression, value)                                                                          \
    do {                                                                                                     \
        long got_ = (long)(expression), must_be_ = (long)(value);                                            \
        int errno_ = errno;                                                                                  \
        checks++;                                                                                            \
        if (got_ != must_be_)                                                                                \
            fail("line %d: %s is %ld (%s), must be %ld", __LINE__, #expression, got_, strerror(errno_),      \
                 must_be_);                                                                                  \
    } while (0)

#define CHECK_ERR(call, error)                                                                               \
    do {                                                                                                     \
        errno = 0;                                                                                           \
        long got_ = (long)(call);                                                                            \
        int errno_ = errno;                                                                                  \
        checks++;                                                                                            \
        if (got_ != -1 || errno_ != (error))                                                                 \
            fail("line %d: %s gives %ld (%s), must be -1 (%s)", __LINE__, #call, got_, strerror(errno_),     \
                 #error);                                                                                    \
    } while (0)

/* sem_open, -1 for SEM_FAILED. */
static long try_open(const char *what, int flags, mode_t mode, unsigned value)
{
    sem_t *s = sem_open(what, flags, mode, value);

    if (s == SEM_FAILED)
        return -1;
    if (sem_close(s) < 0)
        fail_errno("sem_close");
    return 0;
}

static sem_t *must_open(const char *what, int flags, unsigned value)
{
    sem_t *s = sem_open(what, flags, 0600, value);

    if (s == SEM_FAILED)
        fail_errno(what);
    return s;
}

static int value_of(sem_t *s)
{
    int value = -1;

    CHECK_IS(sem_getvalue(s, &value), 0);
    return value;
}

static struct timespec after_ms(clockid_t clock, long ms)
{
    struct timespec t;

    clock_gettime(clock, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static void reap(pid_t child)
{
    int status;

    if (waitpid(child, &status, 0) != child)
        fail_errno("waitpid");
    if (status != 0)
        fail("a child ended with status %#x", (unsigned)status);
}

static pid_t must_fork(void)
{
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child < 0)
        fail_errno("fork");
    return child;
}

static void names(void)
{
    char longest[LONGEST + 10];

    CHECK_ERR(try_open("", O_CREAT, 0600, 0), EINVAL);
    CHECK_ERR(try_open("/", O_CREAT, 0600, 0), EINVAL);
    CHECK_ERR(try_open("/a/b", O_CREAT, 0600, 0), EINVAL);
    longest[0] = '/';
    memset(longest + 1, 'x', LONGEST + 1);
    longest[LONGEST + 2] = '\0';
    CHECK_ERR(try_open(longest, O_CREAT, 0600, 0), ENAMETOOLONG);
    snprintf(longest, sizeof longest, "/%0*d", LONGEST, (int)job.key);
    CHECK_IS(try_open(longest, O_CREAT | O_EXCL, 0600, 0), 0);
    CHECK_IS(sem_unlink(longest), 0);
    CHECK_ERR(sem_unlink(longest), ENOENT);
    CHECK_ERR(try_open(name(0), 0, 0, 0), ENOENT);
    CHECK_ERR(try_open(name(0), O_EXCL, 0, 0), ENOENT);
    CHECK_IS(try_open(name(0) + 1, O_CREAT, 0600, 3), 0); /* the slash may be left out */
    CHECK_IS(try_open(name(0), 0, 0, 0), 0);
    CHECK_IS(try_open(name(0), O_CREAT, 0600, 5), 0);
    CHECK_ERR(try_open(name(0), O_CREAT | O_EXCL, 0600, 5), EEXIST);
    CHECK_IS(sem_unlink(name(0)), 0);
    CHECK_ERR(sem_unlink(name(0)), ENOENT);
    CHECK_ERR(try_open(name(0), 0, 0, 0), ENOENT);
}

static void values(void)
{
    sem_t *s;

    CHECK_ERR(try_open(name(0), O_CREAT, 0600, (unsigned)SEM_VALUE_MAX + 1), EINVAL);
    CHECK_ERR(try_open(name(0), 0, 0, 0), ENOENT);
    s = must_open(name(0), O_CREAT | O_EXCL, SEM_VALUE_MAX);
    CHECK_IS(value_of(s), SEM_VALUE_MAX);
    CHECK_ERR(sem_post(s), EOVERFLOW);
    CHECK_IS(sem_wait(s), 0);
    CHECK_IS(sem_post(s), 0);
    CHECK_IS(sem_close(s), 0);
    CHECK_IS(try_open(name(0), O_CREAT, 0600, (unsigned)SEM_VALUE_MAX + 1), 0); /* it is there: no value */
    CHECK_IS(sem_unlink(name(0)), 0);
    s = must_open(name(0), O_CREAT, 2);
    CHECK_IS(value_of(s), 2);
    CHECK_IS(sem_trywait(s), 0);
    CHECK_IS(sem_wait(s), 0);
    CHECK_ERR(sem_trywait(s), EAGAIN);
    CHECK_IS(value_of(s), 0);
    errno = 77;
    CHECK_IS(sem_post(s), 0);
    CHECK_IS(errno, 77);
    CHECK_IS(value_of(s), 1);
    CHECK_IS(sem_close(s), 0);
    s = must_open(name(0), 0, 0); /* lives without anybody */
    CHECK_IS(value_of(s), 1);
    CHECK_IS(sem_close(s), 0);
    CHECK_IS(sem_unlink(name(0)), 0);
}

static void twice(void)
{
    sem_t *s = must_open(name(0), O_CREAT | O_EXCL, 1), *again = must_open(name(0), 0, 0), *other;

    CHECK(s == again);
    CHECK_IS(sem_close(s), 0);
    CHECK_IS(sem_wait(again), 0);
    CHECK_IS(sem_unlink(name(0)), 0);
    other = must_open(name(0), O_CREAT | O_EXCL, 5); /* the name is free, the semaphore lives */
    CHECK(other != again);
    CHECK_IS(sem_post(again), 0);
    CHECK_IS(value_of(again), 1);
    CHECK_IS(value_of(other), 5);
    CHECK_IS(sem_close(again), 0);
    CHECK_IS(value_of(other), 5);
    CHECK_IS(sem_unlink(name(0)), 0);
    CHECK_IS(sem_close(other), 0);
}

static void times(void)
{
    sem_t *s = must_open(name(0), O_CREAT | O_EXCL, 1);
    struct timespec past = {1, 0}, wrong = {1, 1000000000}, soon;
    double before;

    CHECK_IS(sem_timedwait(s, &past), 0); /* what can be had at once is */
    CHECK_ERR(sem_timedwait(s, &past), ETIMEDOUT);
    CHECK_ERR(sem_timedwait(s, &wrong), EINVAL);
    wrong.tv_nsec = -1;
    CHECK_ERR(sem_clockwait(s, CLOCK_MONOTONIC, &wrong), EINVAL);
    CHECK_ERR(sem_clockwait(s, CLOCK_PROCESS_CPUTIME_ID, &past), EINVAL);
    CHECK_ERR(sem_clockwait(s, CLOCK_MONOTONIC, &past), ETIMEDOUT);
    before = now_s();
    soon = after_ms(CLOCK_REALTIME, 50);
    CHECK_ERR(sem_timedwait(s, &soon), ETIMEDOUT);
    CHECK(now_s() - before > 0.045);
    before = now_s();
    soon = after_ms(CLOCK_MONOTONIC, 50);
    CHECK_ERR(sem_clockwait(s, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
    CHECK(now_s() - before > 0.045);
    CHECK_IS(sem_post(s), 0);
    CHECK_IS(value_of(s), 1); /* those who gave up take nothing */
    soon = after_ms(CLOCK_MONOTONIC, 5000);
    CHECK_IS(sem_clockwait(s, CLOCK_MONOTONIC, &soon), 0);
    CHECK_IS(sem_close(s), 0);
    CHECK_IS(sem_unlink(name(0)), 0);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
    (void)number;
    signals++;
}

static void catch_with(int flags)
{
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = flags};

    if (sigaction(SIGUSR1, &action, NULL) < 0)
        fail_errno("sigaction");
    signals = 0;
}

/* A child that sends a signal and then posts. */
static pid_t sender(sem_t *posted)
{
    pid_t child = must_fork();

    if (child == 0) {
        sleep_ms(50);
        if (kill(getppid(), SIGUSR1) < 0)
            _exit(1);
        sleep_ms(50);
        _exit(sem_post(posted) < 0);
    }
    return child;
}

static void interrupted(void)
{
    sem_t *s = must_open(name(0), O_CREAT | O_EXCL, 0);
    struct timespec late = after_ms(CLOCK_REALTIME, 20000);
    pid_t child;

    catch_with(0);
    child = sender(s);
    CHECK_ERR(sem_wait(s), EINTR);
    CHECK_IS(signals, 1);
    CHECK_IS(sem_wait(s), 0);
    reap(child);
    catch_with(0);
    child = sender(s);
    CHECK_ERR(sem_timedwait(s, &late), EINTR);
    CHECK_IS(sem_timedwait(s, &late), 0);
    reap(child);
    catch_with(SA_RESTART);
    child = sender(s);
    CHECK_IS(sem_wait(s), 0);
    CHECK_IS(signals, 1);
    reap(child);
    CHECK_IS(value_of(s), 0);
    CHECK_IS(sem_close(s), 0);
    CHECK_IS(sem_unlink(name(0)), 0);
}

/* A child has what its parent has open, though that closes it, and nobody else knows its name. */
static void forked(void)
{
    sem_t *there = must_open(name(0), O_CREAT | O_EXCL, 0), *back = must_open(name(1), O_CREAT | O_EXCL, 0);
    pid_t child;

    CHECK_IS(sem_unlink(name(0)), 0);
    CHECK_IS(sem_unlink(name(1)), 0);
    for (int i = 0; i < 20; i++) {
        child = must_fork();
        if (child == 0)
            _exit(sem_wait(there) < 0 || sem_post(back) < 0);
        CHECK_IS(sem_post(there), 0);
        CHECK_IS(sem_wait(back), 0);
        reap(child);
    }
    child = must_fork();
    if (child == 0) {
        pid_t grandchild = fork();

        if (grandchild == 0) { /* its parent is gone before it looks */
            sleep_ms(50);
            _exit(sem_wait(there) < 0 || sem_post(back) < 0);
        }
        _exit(grandchild < 0);
    }
    reap(child);
    sleep_ms(100);
    CHECK_IS(sem_post(there), 0);
    CHECK_IS(sem_close(there), 0);
    CHECK_IS(sem_wait(back), 0);
    CHECK_IS(sem_close(back), 0);
}

/* A waiter that is killed takes nothing. */
static void killed(void)
{
    sem_t *s = must_open(name(0), O_CREAT | O_EXCL, 0);
    pid_t child = must_fork();
    int status;

    if (child == 0)
        _exit(sem_wait(s));
    sleep_ms(100);
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child)
        fail_errno("waitpid");
    CHECK_IS(sem_post(s), 0);
    CHECK_IS(value_of(s), 1);
    CHECK_IS(sem_wait(s), 0);
    CHECK_IS(sem_close(s), 0);
    CHECK_IS(sem_unlink(name(0)), 0);
}

static int as_nobody(void)
{
    if (setgid(65534) < 0 || setuid(65534) < 0)
        return 1;
    CHECK_ERR(try_open(name(0), 0, 0, 0), EACCES);
    CHECK_ERR(try_open(name(0), O_CREAT, 0666, 0), EACCES);
    CHECK_ERR(try_open(name(0), O_CREAT | O_EXCL, 0666, 0), EEXIST);
    CHECK_IS(try_open(name(1), 0, 0, 0), 0);
    CHECK_ERR(sem_unlink(name(0)), EACCES);
    CHECK_ERR(sem_unlink(name(1)), EACCES);
    return 0;
}

static void rights(void)
{
    mode_t mask = umask(077);
    sem_t *s;
    pid_t child;

    if (geteuid() != 0) {
        umask(mask);
        return;
    }
    CHECK_IS(try_open(name(0), O_CREAT | O_EXCL, 0666, 0), 0); /* what the umask leaves: 0600 */
    umask(0);
    CHECK_IS(try_open(name(1), O_CREAT | O_EXCL, 0666, 0), 0);
    umask(mask);
    child = must_fork();
    if (child == 0)
        _exit(as_nobody());
    reap(child);
    s = must_open(name(2), O_CREAT | O_EXCL, 1);
    child = must_fork();
    if (child == 0) /* rights are asked for when it is opened */
        _exit(setuid(65534) < 0 || sem_wait(s) < 0 || sem_post(s) < 0);
    reap(child);
    CHECK_IS(sem_close(s), 0);
    for (int i = 0; i < 3; i++)
        CHECK_IS(sem_unlink(name(i)), 0);
}

/* Semaphores without a name are the C library's. */
static void unnamed(void)
{
    sem_t s;
    struct timespec past = {1, 0};

    CHECK_IS(sem_init(&s, 0, 1), 0);
    CHECK_IS(sem_wait(&s), 0);
    CHECK_ERR(sem_trywait(&s), EAGAIN);
    CHECK_ERR(sem_timedwait(&s, &past), ETIMEDOUT);
    CHECK_ERR(sem_clockwait(&s, CLOCK_MONOTONIC, &past), ETIMEDOUT);
    CHECK_IS(sem_post(&s), 0);
    CHECK_IS(value_of(&s), 1);
    CHECK_IS(sem_destroy(&s), 0);
}

static void count_under(sem_t *mutex, struct shared *shared)
{
    if (sem_wait(mutex) < 0)
        fail_errno("sem_wait");
    enter_alone(&shared->holder);
    shared->counted++;
    leave_alone(&shared->holder);
    if (sem_post(mutex) < 0)
        fail_errno("sem_post");
}

/* Turns of a token: who has it posts that of the next one. Each turn is waited for in another way. */
static void pass_token(struct shared *shared)
{
    sem_t *mine = must_open(name(NAMES + job.rank), O_CREAT, 0), *next;
    struct timespec late;

    next = must_open(name(NAMES + (job.rank + 1) % job.all), O_CREAT, 0);
    if (job.rank == 0)
        CHECK_IS(sem_post(mine), 0);
    for (long i = 0; i < rounds; i++) {
        switch (i % 4) {
        case 0: CHECK_IS(sem_wait(mine), 0); break;
        case 1:
            late = after_ms(CLOCK_REALTIME, 100000);
            CHECK_IS(sem_timedwait(mine, &late), 0);
            break;
        case 2:
            late = after_ms(CLOCK_MONOTONIC, 100000);
            CHECK_IS(sem_clockwait(mine, CLOCK_MONOTONIC, &late), 0);
            break;
        default:
            while (sem_trywait(mine) < 0) {
                if (errno != EAGAIN)
                    fail_errno("sem_trywait");
                sched_yield();
            }
        }
        if (shared->turns != i * job.all + job.rank)
            fail("turn %ld of rank %d came after %ld others", i, job.rank, shared->turns);
        shared->turns++;
        CHECK_IS(sem_post(next), 0);
    }
    barrier();
    CHECK_IS(value_of(mine), job.rank == 0 ? 1 : 0);
    CHECK_IS(sem_close(mine), 0);
    if (job.all > 1)
        CHECK_IS(sem_close(next), 0);
    barrier();
    CHECK_IS(sem_unlink(name(NAMES + job.rank)), 0);
}

static void *thread(void *semaphore)
{
    sem_t *s = semaphore;

    for (int i = 0; i < 10; i++)
        if (sem_wait(s) < 0)
            fail_errno("sem_wait in a thread");
    return NULL;
}

/* Threads of all processes wait at one semaphore, which rank 0 posts as often as all of them wait. */
static void threads(void)
{
    enum { EACH = 3 };
    sem_t *s = must_open(name(3), O_CREAT, 0);
    pthread_t id[EACH];

    for (int i = 0; i < EACH; i++)
        if (pthread_create(&id[i], NULL, thread, s) != 0)
            fail("pthread_create");
    if (job.rank == 0)
        for (int i = 0; i < job.all * EACH * 10; i++)
            CHECK_IS(sem_post(s), 0);
    for (int i = 0; i < EACH; i++)
        pthread_join(id[i], NULL);
    barrier();
    CHECK_IS(value_of(s), 0);
    CHECK_IS(sem_close(s), 0);
}

int main(int argc, char **argv)
{
    int option;
    struct shared *shared;
    sem_t *mutex;

    job_name(argv[0]);
    while ((option = getopt(argc, argv, JOB_OPTIONS "r:")) != -1) {
        if (option == 'r')
            rounds = number(optarg, 1);
        else if (!job_option(option))
            usage("[-r ROUNDS]");
    }
    job.removes = unlink_names;
    meet(1, sizeof *shared, 0, NULL);
    if (job.all > TOKENS)
        fail("more than %d processes", TOKENS);
    shared = job.data;
    if (job.rank == 0) {
        names();
        values();
        twice();
        times();
        interrupted();
        forked();
        killed();
        rights();
        unnamed();
    }
    barrier();
    /* Whoever is first makes it. */
    mutex = must_open(name(4), O_CREAT, 1);
    for (long i = 0; i < rounds; i++)
        count_under(mutex, shared);
    barrier();
    CHECK_IS(shared->counted, rounds * job.all);
    pass_token(shared);
    threads();
    barrier();
    if (job.rank == 0) {
        CHECK_IS(sem_unlink(name(3)), 0);
        CHECK_IS(sem_unlink(name(4)), 0);
    }
    barrier();
    CHECK_ERR(try_open(name(4), 0, 0, 0), ENOENT); /* the others see that it has no name */
    CHECK_IS(value_of(mutex), 1);                   /* and still have it */
    CHECK_IS(sem_close(mutex), 0);
    barrier();
    if (job.rank == 0)
        printf("posix_sem: %d processes, %ld rounds, %d checks of rank 0: ok\n", job.all, rounds, checks);
    return part();
}
