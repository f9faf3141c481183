/* sem.c - semaphores: semget, semctl, semop, semtimedop, who waits and who is woken, and SEM_UNDO. */
#include "conformance.h"

#include <pthread.h>

enum { MOST = 32767 };

static int value_pid(int set, int number)
{
    return semctl(set, number, GETPID);
}

static struct semid_ds about(int set)
{
    struct semid_ds stat = {0};

    CHECK_OK(semctl(set, 0, IPC_STAT, (union semun){.buf = &stat}));
    return stat;
}

static int ops(int set, int count, const short (*list)[3])
{
    struct sembuf op[8];

    for (int i = 0; i < count; i++)
        op[i] = (struct sembuf){(unsigned short)list[i][0], list[i][1], list[i][2]};
    return semop(set, op, (size_t)count);
}

#define OPS(set, ...)                                                                                       \
    ops(set, (int)(sizeof((const short[][3]){__VA_ARGS__}) / sizeof(short[3])), (const short[][3]){__VA_ARGS__})

static int timed(int set, int number, int by, int flags, long s, long ns)
{
    struct sembuf one = {(unsigned short)number, (short)by, (short)flags};
    struct timespec limit = {s, ns};

    return semtimedop(set, &one, 1, &limit);
}

/* Helpers: the result is errno, 0 for success. */

static long one_op(long set, long number, long by)
{
    return op((int)set, (int)number, (int)by, 0) == 0 ? 0 : errno;
}

static long op_undo(long set, long number, long by)
{
    return op((int)set, (int)number, (int)by, SEM_UNDO) == 0 ? 0 : errno;
}

static long undo_then_stay(long set, long number, long by)
{
    if (op((int)set, (int)number, (int)by, SEM_UNDO) < 0)
        return errno;
    for (;;)
        pause();
}

static long take_both(long set, long unused, long unused_too)
{
    (void)unused;
    (void)unused_too;
    return OPS((int)set, {0, -1, 0}, {1, -1, 0}) == 0 ? 0 : errno;
}

static void nothing(int signal)
{
    (void)signal;
}

static long op_with_handler(long set, long number, long by)
{
    struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_RESTART};

    sigaction(SIGUSR1, &act, NULL);
    return one_op(set, number, by);
}

static void get(void)
{
    int set, other;

    CHECK_ERR(semget(key(0), 1, 0), ENOENT);
    CHECK_ERR(semget(key(0), 0, IPC_CREAT | 0600), EINVAL);
    CHECK_ERR(semget(key(0), -1, IPC_CREAT | 0600), EINVAL);
    CHECK_ERR(semget(key(0), INT_MAX, IPC_CREAT | 0600), EINVAL);
    CHECK_ERR(semget(key(0), 1, 0), ENOENT);
    set = new_sem(key(0), 3, 0600);
    CHECK_IS(semget(key(0), 3, 0), set);
    CHECK_IS(semget(key(0), 0, 0), set);
    CHECK_IS(semget(key(0), 2, 0600), set);
    CHECK_IS(semget(key(0), 1, IPC_CREAT | 0600), set);
    CHECK_ERR(semget(key(0), 4, 0), EINVAL);
    CHECK_ERR(semget(key(0), 4, IPC_CREAT | 0600), EINVAL);
    CHECK_ERR(semget(key(0), 3, IPC_CREAT | IPC_EXCL | 0600), EEXIST);
    CHECK_ERR(semget(key(0), 4, IPC_CREAT | IPC_EXCL | 0600), EEXIST);
    CHECK_ERR(semget(key(0), -1, 0), EINVAL);
    other = new_sem(IPC_PRIVATE, 1, 0600);
    CHECK(other != set);
    CHECK(new_sem(IPC_PRIVATE, 1, 0600) != other);
    CHECK_IS(about(other).sem_perm.__key, 0);
    CHECK_OK(semctl(set, 0, IPC_RMID));
    CHECK_ERR(semget(key(0), 3, 0), ENOENT);
    CHECK(new_sem(key(0), 1, 0600) != set);
}

static void stat(void)
{
    time_t before = time(NULL);
    int set = new_sem(key(0), 5, 0640);
    struct semid_ds stat = about(set);

    CHECK_IS(stat.sem_nsems, 5);
    CHECK_IS(stat.sem_perm.mode, 0640);
    CHECK_IS(stat.sem_perm.__key, key(0));
    CHECK_IS(stat.sem_perm.uid, geteuid());
    CHECK_IS(stat.sem_perm.cgid, getegid());
    CHECK_IS(stat.sem_otime, 0);
    CHECK(stat.sem_ctime >= before - 1 && stat.sem_ctime <= time(NULL) + 1);
    for (int i = 0; i < 5; i++) {
        CHECK_IS(sem_value(set, i), 0);
        CHECK_IS(value_pid(set, i), 0);
        CHECK_IS(semctl(set, i, GETNCNT), 0);
        CHECK_IS(semctl(set, i, GETZCNT), 0);
    }
    CHECK_OK(set_value(set, 0, 1));
    CHECK_IS(about(set).sem_otime, 0); /* SETVAL is no semop */
    CHECK_ERR(op(set, 0, -2, IPC_NOWAIT), EAGAIN);
    CHECK_IS(about(set).sem_otime, 0); /* nor is one that failed */
    CHECK_OK(op(set, 0, -1, 0));
    stat = about(set);
    CHECK(stat.sem_otime >= before - 1 && stat.sem_otime <= time(NULL) + 1);
    stat.sem_perm.mode = 0604;
    CHECK_OK(semctl(set, 0, IPC_SET, (union semun){.buf = &stat}));
    CHECK_IS(about(set).sem_perm.mode, 0604);
    CHECK_ERR(semctl(set, 0, IPC_STAT, (union semun){.buf = NULL}), EFAULT);
    CHECK_ERR(semctl(-1, 0, IPC_STAT, (union semun){.buf = &stat}), EINVAL);
    CHECK_ERR(semctl(set, 0, 12345), EINVAL);
}

static void control(void)
{
    int set = new_sem(key(0), 4, 0600);
    unsigned short all[4] = {1, 2, 3, 4};

    CHECK_OK(set_value(set, 0, MOST));
    CHECK_IS(sem_value(set, 0), MOST);
    CHECK_ERR(set_value(set, 0, MOST + 1), ERANGE);
    CHECK_ERR(set_value(set, 0, -1), ERANGE);
    CHECK_IS(sem_value(set, 0), MOST);
    CHECK_ERR(set_value(set, 4, 1), EINVAL);
    CHECK_ERR(set_value(set, -1, 1), EINVAL);
    CHECK_ERR(sem_value(set, 4), EINVAL);
    CHECK_ERR(sem_value(set, -1), EINVAL);
    CHECK_ERR(semctl(set, 4, GETNCNT), EINVAL);
    CHECK_ERR(semctl(set, 4, GETZCNT), EINVAL);
    CHECK_ERR(semctl(set, 4, GETPID), EINVAL);
    CHECK_ERR(sem_value(-1, 0), EINVAL);
    CHECK_ERR(sem_value(INT_MAX, 0), EINVAL);
    CHECK_OK(semctl(set, 0, SETALL, (union semun){.array = all}));
    memset(all, 0, sizeof all);
    CHECK_OK(semctl(set, 0, GETALL, (union semun){.array = all}));
    CHECK(all[0] == 1 && all[1] == 2 && all[2] == 3 && all[3] == 4);
    all[0] = 9;
    all[3] = MOST + 1;
    CHECK_ERR(semctl(set, 0, SETALL, (union semun){.array = all}), ERANGE);
    CHECK_IS(sem_value(set, 0), 1);
    CHECK_ERR(semctl(set, 0, SETALL, (union semun){.array = NULL}), EFAULT);
    CHECK_ERR(semctl(set, 0, GETALL, (union semun){.array = NULL}), EFAULT);
    CHECK_OK(set_value(set, 0, 5));
    CHECK_IS(value_pid(set, 0), getpid()); /* SETVAL counts, on Linux */
    {
        struct helper helper = start(one_op, set, 0, 1);

        CHECK_IS(finish(helper), 0);
        CHECK_IS(value_pid(set, 0), helper.pid);
        CHECK_IS(sem_value(set, 0), 6);
    }
    CHECK_OK(semctl(set, 0, IPC_RMID));
    CHECK_GONE(sem_value(set, 0));
    CHECK_GONE(op(set, 0, 1, 0));
    CHECK_GONE(semctl(set, 0, IPC_RMID));
    CHECK_IS(run_other(one_op, set, 0, 1), EINVAL);
}

static void information(void)
{
    int set = new_sem(key(0), 3, 0600), highest, found = 0;
    struct semid_ds stat;
    struct seminfo info;

    highest = semctl(0, 0, IPC_INFO, (union semun){.buf = (struct semid_ds *)&info});
    CHECK(highest >= 0);
    CHECK(info.semmsl >= 3 && info.semopm >= 8 && info.semvmx == MOST && info.semmni >= 1);
    highest = semctl(0, 0, SEM_INFO, (union semun){.buf = (struct semid_ds *)&info});
    CHECK(highest >= 0);
    CHECK(info.semusz >= 1); /* sets there are */
    CHECK(info.semaem >= 3); /* semaphores in them */
    for (int i = 0; i <= highest; i++)
        if (semctl(i, 0, SEM_STAT, (union semun){.buf = &stat}) == set)
            found += stat.sem_perm.__key == key(0) && stat.sem_nsems == 3;
    CHECK_IS(found, 1);
}

static void errors(void)
{
    int set = new_sem(key(0), 2, 0600);
    struct sembuf many[600] = {{0}};
    struct timespec bad = {0, 1000000000};

    CHECK_ERR(semop(set, many, 0), EINVAL);
    CHECK_ERR(semop(set, many, 501), E2BIG);
    CHECK_ERR(semop(set, many, (size_t)-1), E2BIG);
    for (int i = 0; i < 500; i++)
        many[i] = (struct sembuf){0, 1, 0};
    CHECK_OK(semop(set, many, 500));
    CHECK_IS(sem_value(set, 0), 500);
    CHECK_ERR(op(set, 2, 1, 0), EFBIG);
    CHECK_ERR(op(set, 65535, 1, 0), EFBIG);
    CHECK_ERR(OPS(set, {0, 1, 0}, {2, 1, 0}), EFBIG);
    CHECK_IS(sem_value(set, 0), 500);
    CHECK_ERR(op(-1, 0, 1, 0), EINVAL);
    CHECK_ERR(op(INT_MAX, 0, 1, 0), EINVAL);
    CHECK_ERR(semop(set, (struct sembuf *)8, 1), EFAULT);
    CHECK_OK(set_value(set, 0, MOST));
    CHECK_ERR(op(set, 0, 1, 0), ERANGE);
    CHECK_ERR(op(set, 0, MOST, IPC_NOWAIT), ERANGE);
    CHECK_IS(sem_value(set, 0), MOST);
    CHECK_ERR(OPS(set, {0, 1, 0}, {0, -1, 0}), ERANGE);
    CHECK_OK(OPS(set, {0, -1, 0}, {0, 1, 0}));
    CHECK_OK(op(set, 0, -MOST, 0));
    CHECK_IS(sem_value(set, 0), 0);
    CHECK_ERR(op(set, 0, -1, IPC_NOWAIT), EAGAIN);
    CHECK_ERR(op(set, 0, -32768, IPC_NOWAIT), EAGAIN);
    CHECK_OK(op(set, 0, 0, 0));
    CHECK_OK(op(set, 0, 1, 0));
    CHECK_ERR(op(set, 0, 0, IPC_NOWAIT), EAGAIN);
    CHECK_ERR(semtimedop(set, many, 1, &bad), EINVAL);
    bad = (struct timespec){-1, 0};
    CHECK_ERR(semtimedop(set, many, 1, &bad), EINVAL);
    bad = (struct timespec){0, -1};
    CHECK_ERR(semtimedop(set, many, 1, &bad), EINVAL);
    CHECK_ERR(semtimedop(set, many, 1, (struct timespec *)8), EFAULT);
}

static void all_or_none(void)
{
    int set = new_sem(key(0), 3, 0600);
    double began;

    CHECK_ERR(OPS(set, {0, 1, 0}, {1, -1, IPC_NOWAIT}), EAGAIN);
    CHECK_IS(sem_value(set, 0), 0);
    CHECK_IS(value_pid(set, 0), 0);
    CHECK_OK(OPS(set, {0, 1, 0}, {0, -1, 0}));
    CHECK_ERR(OPS(set, {0, -1, IPC_NOWAIT}, {0, 1, 0}), EAGAIN);
    CHECK_OK(OPS(set, {0, 2, 0}, {0, -1, 0}, {0, -1, 0}, {0, 0, 0}));
    CHECK_OK(OPS(set, {0, 0, 0}, {0, 1, 0})); /* a lock */
    CHECK_ERR(OPS(set, {0, 0, IPC_NOWAIT}, {0, 1, IPC_NOWAIT}), EAGAIN);
    CHECK_IS(sem_value(set, 0), 1);
    CHECK_OK(OPS(set, {0, -1, 0}, {0, 0, 0}));
    CHECK_OK(OPS(set, {0, 5, 0}, {1, 6, 0}, {2, 7, 0}));
    CHECK_IS(sem_value(set, 0), 5);
    CHECK_IS(sem_value(set, 2), 7);
    CHECK_ERR(OPS(set, {0, -5, 0}, {1, -6, 0}, {2, -8, IPC_NOWAIT}), EAGAIN);
    CHECK_IS(sem_value(set, 0), 5);
    CHECK_IS(sem_value(set, 1), 6);
    CHECK_ERR(OPS(set, {0, -5, 0}, {2, MOST, 0}), ERANGE);
    CHECK_IS(sem_value(set, 0), 5);
    CHECK_OK(OPS(set, {0, -5, 0}, {0, 0, 0}, {1, -6, 0}, {1, 0, 0}, {2, -7, 0}, {2, 0, 0}));
    CHECK_IS(value_pid(set, 1), getpid());
    /* Only the operation that cannot go decides whether to wait. */
    {
        struct sembuf two[2] = {{0, -1, 0}, {1, -1, IPC_NOWAIT}};
        struct timespec limit = {0, 500000000};

        began = now_s();
        CHECK_ERR(semtimedop(set, two, 2, &limit), EAGAIN);
        CHECK(now_s() - began >= 0.499);
        two[0].sem_flg = IPC_NOWAIT;
        two[1].sem_flg = 0;
        began = now_s();
        CHECK_ERR(semtimedop(set, two, 2, &limit), EAGAIN);
        CHECK(now_s() - began < 0.4);
    }
}

static void timeouts(void)
{
    int set = new_sem(key(0), 1, 0600);
    struct helper helper;
    double began = now_s();

    CHECK_ERR(timed(set, 0, -1, 0, 0, 100000000), EAGAIN);
    CHECK(now_s() - began >= 0.099);
    CHECK(now_s() - began < 2);
    CHECK_IS(semctl(set, 0, GETNCNT), 0);
    began = now_s();
    CHECK_ERR(timed(set, 0, -1, 0, 0, 0), EAGAIN);
    CHECK_ERR(timed(set, 0, -1, IPC_NOWAIT, 10, 0), EAGAIN);
    CHECK(now_s() - began < 1);
    CHECK_OK(timed(set, 0, 1, 0, 0, 0));
    CHECK_OK(timed(set, 0, -1, 0, 1, 0));
    CHECK_OK(timed(set, 0, 1, 0, 1, 0));
    CHECK_ERR(timed(set, 0, 0, 0, 0, 50000000), EAGAIN);
    CHECK_IS(semctl(set, 0, GETZCNT), 0);
    CHECK_OK(semtimedop(set, &(struct sembuf){0, -1, 0}, 1, NULL));
    began = now_s();
    helper = start(one_op, set, 0, 1);
    CHECK_OK(timed(set, 0, -1, 0, 5, 0)); /* comes in time */
    CHECK(now_s() - began < 5);
    CHECK_IS(finish(helper), 0);
}

static void waiting(void)
{
    int set = new_sem(key(0), 3, 0600);
    struct helper a, b;

    a = start(one_op, set, 0, -1);
    CHECK(await_ncnt(set, 0, 1));
    CHECK_IS(semctl(set, 0, GETZCNT), 0);
    CHECK_IS(semctl(set, 1, GETNCNT), 0);
    CHECK(running(a));
    CHECK_OK(op(set, 1, 1, 0)); /* another semaphore */
    CHECK_IS(semctl(set, 0, GETNCNT), 1);
    CHECK_OK(op(set, 0, 1, 0));
    CHECK_IS(finish(a), 0);
    CHECK_IS(sem_value(set, 0), 0);
    CHECK_IS(value_pid(set, 0), a.pid);
    CHECK_IS(semctl(set, 0, GETNCNT), 0);
    CHECK_OK(set_value(set, 0, 2));
    a = start(one_op, set, 0, 0);
    b = start_here(one_op, set, 0, 0);
    CHECK(await_zcnt(set, 0, 2));
    CHECK_IS(semctl(set, 0, GETNCNT), 0);
    CHECK_OK(op(set, 0, -1, 0));
    CHECK_IS(semctl(set, 0, GETZCNT), 2);
    CHECK_OK(op(set, 0, -1, 0));
    CHECK_IS(finish(a), 0);
    CHECK_IS(finish(b), 0);
    /* SETVAL and SETALL wake as well. */
    a = start(one_op, set, 0, -3);
    CHECK(await_ncnt(set, 0, 1));
    CHECK_OK(set_value(set, 0, 2));
    CHECK_IS(semctl(set, 0, GETNCNT), 1);
    CHECK_OK(set_value(set, 0, 4));
    CHECK_IS(finish(a), 0);
    CHECK_IS(sem_value(set, 0), 1);
    a = start(one_op, set, 0, 0);
    CHECK(await_zcnt(set, 0, 1));
    CHECK_OK(semctl(set, 0, SETALL, (union semun){.array = (unsigned short[3]){0, 0, 0}}));
    CHECK_IS(finish(a), 0);
    /* Two wait; the first who came goes first. */
    a = start(one_op, set, 0, -1);
    CHECK(await_ncnt(set, 0, 1));
    b = start_here(one_op, set, 0, -1);
    CHECK(await_ncnt(set, 0, 2));
    CHECK_OK(op(set, 0, 1, 0));
    CHECK_IS(finish(a), 0);
    CHECK(running(b));
    CHECK_OK(op(set, 0, 1, 0));
    CHECK_IS(finish(b), 0);
    /* A later one that can go, goes. */
    a = start_here(one_op, set, 0, -2);
    CHECK(await_ncnt(set, 0, 1));
    b = start(one_op, set, 0, -1);
    CHECK(await_ncnt(set, 0, 2));
    CHECK_OK(op(set, 0, 1, 0));
    CHECK_IS(finish(b), 0);
    CHECK(running(a));
    CHECK_OK(op(set, 0, 2, 0));
    CHECK_IS(finish(a), 0);
    /* One woken wakes the next: the first gives what the second waits for. */
    a = start(one_op, set, 1, -1);
    CHECK(await_ncnt(set, 1, 1));
    CHECK_OK(OPS(set, {0, 1, 0}, {1, 1, 0}));
    CHECK_IS(finish(a), 0);
    CHECK_IS(sem_value(set, 0), 1);
    CHECK_OK(op(set, 0, -1, 0));
    /* A waiter for two semaphores holds none of them. */
    a = start(take_both, set, 0, 0);
    CHECK(await_ncnt(set, 0, 1));
    CHECK_OK(op(set, 0, 1, 0));
    CHECK(await_ncnt(set, 1, 1));
    CHECK_IS(semctl(set, 0, GETNCNT), 0);
    CHECK_IS(sem_value(set, 0), 1);
    CHECK_OK(op(set, 0, -1, 0)); /* so it can be taken away */
    CHECK_OK(op(set, 1, 1, 0));
    CHECK_IS(sem_value(set, 1), 1);
    CHECK(running(a));
    CHECK_OK(op(set, 0, 1, 0));
    CHECK_IS(finish(a), 0);
    CHECK_IS(sem_value(set, 0), 0);
    CHECK_IS(sem_value(set, 1), 0);
}

static void interrupted(void)
{
    int set = new_sem(key(0), 1, 0600);
    struct helper helper[4];

    helper[0] = start(op_with_handler, set, 0, -1);
    CHECK(await_ncnt(set, 0, 1));
    send_signal(helper[0], SIGUSR1);
    CHECK_IS(finish(helper[0]), EINTR); /* in spite of SA_RESTART */
    CHECK_IS(semctl(set, 0, GETNCNT), 0);
    helper[0] = start(one_op, set, 0, -1);
    CHECK(await_ncnt(set, 0, 1));
    send_signal(helper[0], SIGKILL);
    CHECK_IS(finish(helper[0]), -SIGKILL);
    CHECK(await_ncnt(set, 0, 0));
    CHECK_OK(op(set, 0, 1, 0)); /* not for the dead */
    CHECK_IS(sem_value(set, 0), 1);
    helper[0] = start(op_with_handler, set, 0, 0);
    CHECK(await_zcnt(set, 0, 1));
    send_signal(helper[0], SIGUSR1);
    CHECK_IS(finish(helper[0]), EINTR);
    CHECK_IS(semctl(set, 0, GETZCNT), 0);
    CHECK_OK(set_value(set, 0, 1));
    for (int i = 0; i < 4; i++)
        helper[i] = i % 2 ? start_here(one_op, set, 0, i < 2 ? -5 : 0) : start(one_op, set, 0, i < 2 ? -5 : 0);
    CHECK(await_ncnt(set, 0, 2));
    CHECK(await_zcnt(set, 0, 2));
    CHECK_OK(semctl(set, 0, IPC_RMID));
    for (int i = 0; i < 4; i++)
        CHECK_IS(finish(helper[i]), EIDRM);
}

static long restarting_taker(long set, long count, long unused)
{
    struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_RESTART};

    (void)unused;
    sigaction(SIGUSR1, &act, NULL);
    if (op((int)set, 1, 1, 0) < 0) /* ready for the storm */
        return errno;
    while (count > 0) {
        if (op((int)set, 0, -1, 0) == 0)
            count--;
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

static void signal_storm(void)
{
    enum { COUNT = 200 };
    int set = new_sem(key(0), 2, 0600);
    struct helper helper = start(restarting_taker, set, COUNT, 0), near = start_here(restarting_taker, set, COUNT, 0);

    CHECK_OK(timed(set, 1, -2, 0, 5, 0));
    for (int i = 0; i < 2 * COUNT; i++) {
        send_signal(helper, SIGUSR1);
        send_signal(near, SIGUSR1);
        if (op(set, 0, 1, 0) < 0)
            CHECK_OK(-1);
        send_signal(near, SIGUSR1);
    }
    CHECK_IS(finish(helper), 0);
    CHECK_IS(finish(near), 0);
    CHECK_IS(sem_value(set, 0), 0);
    CHECK_IS(semctl(set, 0, GETNCNT), 0);
}

/* Undo. */

static long undo_several(long set, long unused, long unused_too)
{
    (void)unused;
    (void)unused_too;
    return OPS((int)set, {0, -1, SEM_UNDO}, {1, 3, SEM_UNDO}, {2, -1, 0}) == 0 ? 0 : errno;
}

static long undo_too_far(long set, long unused, long unused_too)
{
    (void)unused;
    (void)unused_too;
    if (op((int)set, 0, MOST, SEM_UNDO) < 0 || op((int)set, 0, -MOST, 0) < 0 || op((int)set, 0, 2, SEM_UNDO) == 0)
        return 1; /* 32,769 to be undone are too many */
    return errno;
}

static long undo_failed_call(long set, long unused, long unused_too)
{
    (void)unused;
    (void)unused_too;
    return OPS((int)set, {0, 1, SEM_UNDO}, {1, -1, IPC_NOWAIT}) == 0 ? 0 : errno;
}

static long undo_in_parent(long set, long unused, long unused_too)
{
    pid_t child;

    (void)unused;
    (void)unused_too;
    if (op((int)set, 0, -1, SEM_UNDO) < 0)
        return errno;
    child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    return sem_value((int)set, 0) == 4 ? 0 : 200; /* the child had nothing to undo */
}

static void *take_with_undo(void *set)
{
    return (void *)(intptr_t)op(*(int *)set, 0, -1, SEM_UNDO);
}

static long undo_in_thread(long set, long unused, long unused_too)
{
    int id = (int)set;
    pthread_t thread;
    void *result;

    (void)unused;
    (void)unused_too;
    if (pthread_create(&thread, NULL, take_with_undo, &id) != 0 || pthread_join(thread, &result) != 0 || result != NULL)
        return 201;
    return sem_value(id, 0) == 4 ? 0 : 200; /* the process lives */
}

static long undo_then_exec(long set, long unused, long unused_too)
{
    (void)unused;
    (void)unused_too;
    if (op((int)set, 0, -1, SEM_UNDO) < 0)
        return errno;
    execl("/bin/sleep", "sleep", "100", (char *)NULL);
    return 202;
}

static bool is_exec(pid_t pid)
{
    char path[64], name[32] = "";
    double until = now_s() + 5;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    while (now_s() < until) {
        FILE *file = fopen(path, "r");

        if (file != NULL) {
            if (fgets(name, sizeof name, file) == NULL)
                name[0] = '\0';
            fclose(file);
        }
        if (strncmp(name, "sleep", 5) == 0)
            return true;
        sleep_ms(1);
    }
    return false;
}

static void undo(void)
{
    int set = new_sem(key(0), 3, 0600);
    struct helper helper, waiter;

    CHECK_OK(set_value(set, 0, 5));
    CHECK_OK(set_value(set, 2, 5));
    helper = start(op_undo, set, 0, -2);
    CHECK_IS(finish(helper), 0);
    CHECK_IS(sem_value(set, 0), 5); /* at exit */
    CHECK_IS(value_pid(set, 0), helper.pid);
    CHECK_IS(run_here(op_undo, set, 0, 3), 0);
    CHECK_IS(sem_value(set, 0), 5);
    helper = start(undo_then_stay, set, 0, -5);
    CHECK_OK(timed(set, 0, 0, 0, 5, 0));
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(sem_value(set, 0), 5);
    CHECK_IS(value_pid(set, 0), helper.pid); /* the dead one's */
    CHECK_IS(run_other(undo_several, set, 0, 0), 0);
    CHECK_IS(sem_value(set, 0), 5);
    CHECK_IS(sem_value(set, 1), 0);
    CHECK_IS(sem_value(set, 2), 4); /* was without undo */
    CHECK_IS(run_other(undo_in_parent, set, 0, 0), 0);
    CHECK_IS(sem_value(set, 0), 5);
    CHECK_IS(run_other(undo_in_thread, set, 0, 0), 0);
    CHECK_IS(sem_value(set, 0), 5);
    /* A waiter is woken by what is undone. */
    helper = start(undo_then_stay, set, 0, -5);
    CHECK_OK(timed(set, 0, 0, 0, 5, 0));
    waiter = start_here(one_op, set, 0, -5);
    CHECK(await_ncnt(set, 0, 1));
    send_signal(helper, SIGTERM);
    CHECK_IS(finish(helper), -SIGTERM);
    CHECK_IS(finish(waiter), 0);
    CHECK_IS(sem_value(set, 0), 0);
    CHECK_IS(value_pid(set, 0), waiter.pid);
    CHECK_IS(run_other(undo_failed_call, set, 0, 0), EAGAIN);
    CHECK_IS(sem_value(set, 0), 0);
    CHECK_IS(run_other(undo_too_far, set, 0, 0), ERANGE);
    CHECK_IS(sem_value(set, 0), 0);
}

static void undo_cleared(void)
{
    int set = new_sem(key(0), 2, 0600);
    struct helper helper;

    CHECK_OK(set_value(set, 0, 5));
    helper = start(undo_then_stay, set, 0, -5);
    CHECK_OK(timed(set, 0, 0, 0, 5, 0));
    CHECK_OK(set_value(set, 0, 3)); /* clears */
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(sem_value(set, 0), 3);
    helper = start(undo_then_stay, set, 0, -3);
    CHECK_OK(timed(set, 0, 0, 0, 5, 0));
    CHECK_OK(set_value(set, 1, 9)); /* another one: does not */
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(sem_value(set, 0), 3);
    helper = start(undo_then_stay, set, 0, -3);
    CHECK_OK(timed(set, 0, 0, 0, 5, 0));
    CHECK_OK(semctl(set, 0, SETALL, (union semun){.array = (unsigned short[2]){1, 1}}));
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(sem_value(set, 0), 1);
    /* Less is left than is to be undone: 0. */
    CHECK_OK(set_value(set, 0, 0));
    helper = start(undo_then_stay, set, 0, 4);
    CHECK_OK(timed(set, 0, -3, 0, 5, 0));
    CHECK_IS(sem_value(set, 0), 1);
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(sem_value(set, 0), 0);
    /* More than fits: 32,767. */
    CHECK_OK(set_value(set, 0, 1));
    helper = start(undo_then_stay, set, 0, -1);
    CHECK_OK(timed(set, 0, 0, 0, 5, 0));
    CHECK_OK(op(set, 0, MOST, 0));
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(sem_value(set, 0), MOST);
    /* The set is gone before the process. */
    CHECK_OK(set_value(set, 0, 1));
    helper = start(undo_then_stay, set, 0, -1);
    CHECK_OK(timed(set, 0, 0, 0, 5, 0));
    CHECK_OK(semctl(set, 0, IPC_RMID));
    set = new_sem(key(0), 1, 0600);
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(sem_value(set, 0), 0);
}

static void undo_exec(void)
{
    int set = new_sem(key(0), 1, 0600);
    struct helper helper;

    CHECK_OK(set_value(set, 0, 1));
    helper = start_here(undo_then_exec, set, 0, 0);
    CHECK_OK(timed(set, 0, 0, 0, 5, 0));
    CHECK(is_exec(helper.pid));
    CHECK_IS(sem_value(set, 0), 0); /* exec keeps it to be undone */
    send_signal(helper, SIGTERM);
    CHECK_IS(finish(helper), -SIGTERM);
    CHECK_IS(sem_value(set, 0), 1);
    helper = start(undo_then_exec, set, 0, 0); /* the same on another site */
    CHECK_OK(timed(set, 0, 0, 0, 5, 0));
    settle();
    CHECK_IS(sem_value(set, 0), 0);
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(sem_value(set, 0), 1);
}

static long counts_under(long set, long shm, long count)
{
    volatile long *at = shmat((int)shm, NULL, 0);

    if (at == (void *)-1)
        return 100;
    for (long i = 0; i < count; i++) {
        if (op((int)set, 0, -1, SEM_UNDO) < 0)
            return errno;
        at[0]++;
        at[600]--;
        if (op((int)set, 0, 1, SEM_UNDO) < 0)
            return errno;
    }
    return 0;
}

static void mutex(void)
{
    enum { COUNT = 500 };
    int set = new_sem(key(0), 1, 0600), shm = new_shm(key(0), 2 * PAGE, 0600);
    volatile long *at = attach(shm, 0);
    struct helper helper[4];

    CHECK_OK(set_value(set, 0, 1));
    for (int i = 0; i < 4; i++)
        helper[i] = i % 2 ? start_here(counts_under, set, shm, COUNT) : start(counts_under, set, shm, COUNT);
    for (int i = 0; i < 4; i++)
        CHECK_IS(finish(helper[i]), 0);
    CHECK_IS(at[0], 4 * COUNT);
    CHECK_IS(at[600], -4 * COUNT);
    CHECK_IS(sem_value(set, 0), 1);
}

static void many_sets(void)
{
    enum { COUNT = 100 };
    int set[COUNT];
    long wrong = 0;

    for (int i = 0; i < COUNT; i++) {
        set[i] = new_sem(key(i), 1 + i % 5, 0600);
        wrong += set_value(set[i], i % 5, i) != 0;
    }
    for (int i = 0; i < COUNT; i++)
        wrong += sem_value(semget(key(i), 0, 0), i % 5) != i;
    CHECK_IS(wrong, 0);
    CHECK_IS(run_other(one_op, set[50], 0, -50), 0);
    for (int i = 0; i < COUNT; i++)
        wrong += semctl(set[i], 0, IPC_RMID) != 0;
    CHECK_IS(wrong, 0);
    set[0] = new_sem(key(0), 1000, 0600); /* a large set */
    CHECK_OK(set_value(set[0], 999, 3));
    CHECK_IS(run_other(one_op, set[0], 999, -3), 0);
    CHECK_IS(sem_value(set[0], 999), 0);
}

void sem_sections(void)
{
    section("semget", get);
    section("semctl IPC_STAT", stat);
    section("semctl", control);
    section("semctl SEM_INFO", information);
    section("semop errors", errors);
    section("semop all or none", all_or_none);
    section("semtimedop", timeouts);
    section("semop waiting", waiting);
    section("semop EINTR EIDRM", interrupted);
    section("semop signals", signal_storm);
    section("SEM_UNDO", undo);
    section("SEM_UNDO cleared", undo_cleared);
    section("SEM_UNDO exec", undo_exec);
    section("semop mutex", mutex);
    section("100 sets", many_sets);
}
