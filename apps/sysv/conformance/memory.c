/*
 * memory.c - a segment is memory: system calls read and write it, futexes and everything built on
 * them work in it, between processes. Before each call the pages are made another site's.
 */
#include "conformance.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>

enum { PAGES = 16, LENGTH = 3 * PAGE + 100, AT = PAGE - 50 }; /* what calls move: over page ends */

static int segment;
static char *seg;

static long touches(long id, long unused, long unused_too)
{
    char *at = shmat((int)id, NULL, 0);

    (void)unused;
    (void)unused_too;
    if (at == (void *)-1)
        return 100;
    for (int page = 0; page < PAGES; page++)
        __atomic_fetch_add((int *)(at + page * PAGE), 0, __ATOMIC_SEQ_CST); /* a write that changes nothing */
    return 0;
}

static void away(void)
{
    if (run_other(touches, segment, 0, 0) != 0)
        CHECK_IS(-1, 0);
}

static unsigned char byte(long i, int salt)
{
    return (unsigned char)scramble((uint64_t)(i * 31 + salt));
}

static void make(void)
{
    segment = new_shm(IPC_PRIVATE, PAGES * PAGE, 0600);
    seg = attach(segment, 0);
}

/* The text at AT, from here, then made another's. */
static void fill(int salt)
{
    for (long i = 0; i < LENGTH; i++)
        seg[AT + i] = (char)byte(i, salt);
    away();
}

static void clear(void)
{
    memset(seg, 0, PAGES * PAGE);
    away();
}

static bool is_text(const char *at, int salt)
{
    for (long i = 0; i < LENGTH; i++)
        if ((unsigned char)at[i] != byte(i, salt))
            return false;
    return true;
}

static long other_sees(long id, long at, long salt)
{
    char *there = shmat((int)id, NULL, SHM_RDONLY);

    return there == (void *)-1 ? 100 : !is_text(there + at, (int)salt);
}

static void files(void)
{
    static char plain[LENGTH];
    int fd = memfd_create("conformance", 0), fds[2];
    struct iovec *vector;
    FILE *stream;

    make();
    CHECK_OK(pipe(fds));
    fill(1);
    CHECK_IS(write(fds[1], seg + AT, LENGTH), LENGTH);
    CHECK_IS(read(fds[0], plain, LENGTH), LENGTH);
    CHECK(is_text(plain, 1));
    CHECK_IS(write(fds[1], plain, LENGTH), LENGTH);
    clear();
    CHECK_IS(read(fds[0], seg + AT, LENGTH), LENGTH);
    CHECK(is_text(seg + AT, 1));
    CHECK_IS(run_other(other_sees, segment, AT, 1), 0);
    fill(2);
    CHECK_IS(pwrite(fd, seg + AT, LENGTH, 10), LENGTH);
    CHECK_IS(pread(fd, plain, LENGTH, 10), LENGTH);
    CHECK(is_text(plain, 2));
    clear();
    CHECK_IS(pread(fd, seg + AT, LENGTH, 10), LENGTH);
    CHECK(is_text(seg + AT, 2));
    CHECK_IS(run_other(other_sees, segment, AT, 2), 0);
    /* The vector too lies in the segment. */
    fill(3);
    vector = (struct iovec *)(seg + 8 * PAGE - 16);
    vector[0] = (struct iovec){seg + AT, 1000};
    vector[1] = (struct iovec){seg + AT + 1000, LENGTH - 1000};
    away();
    CHECK_IS(pwritev(fd, vector, 2, 0), LENGTH);
    CHECK_IS(pread(fd, plain, LENGTH, 0), LENGTH);
    CHECK(is_text(plain, 3));
    memset(seg + AT, 0, LENGTH);
    away();
    CHECK_IS(preadv(fd, vector, 2, 0), LENGTH);
    CHECK(is_text(seg + AT, 3));
    stream = fdopen(dup(fd), "r+");
    clear();
    rewind(stream);
    CHECK_IS(fread(seg + AT, 1, LENGTH, stream), LENGTH);
    CHECK(is_text(seg + AT, 3));
    away();
    rewind(stream);
    CHECK_IS(fwrite(seg + AT, 1, LENGTH, stream), LENGTH);
    CHECK_OK(fclose(stream));
    /* From one attach of a page to the other of the same. */
    {
        char *again = attach(segment, SHM_RDONLY);

        fill(4);
        CHECK_IS(write(fds[1], again + AT, LENGTH), LENGTH);
        away();
        CHECK_IS(read(fds[0], seg + 8 * PAGE, LENGTH), LENGTH);
        CHECK(is_text(again + 8 * PAGE, 4));
        CHECK_IS(write(fds[1], "abc", 3), 3);
        CHECK_ERR(read(fds[0], again, 3), EFAULT); /* read-only */
        CHECK_IS(read(fds[0], plain, 3), 3);
        CHECK_OK(shmdt(again));
        CHECK_ERR(write(fds[1], again, 3), EFAULT); /* gone */
        CHECK_ERR(pread(fd, again, 3, 0), EFAULT);
    }
}

static void sockets(void)
{
    static char plain[LENGTH];
    int stream[2], datagram[2], *pair, passed;
    struct msghdr *header;
    struct cmsghdr *control;

    make();
    CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, stream));
    CHECK_OK(socketpair(AF_UNIX, SOCK_DGRAM, 0, datagram));
    fill(1);
    CHECK_IS(send(stream[0], seg + AT, LENGTH, 0), LENGTH);
    CHECK_IS(recv(stream[1], plain, LENGTH, MSG_WAITALL), LENGTH);
    CHECK(is_text(plain, 1));
    CHECK_IS(send(stream[0], plain, LENGTH, 0), LENGTH);
    clear();
    CHECK_IS(recv(stream[1], seg + AT, LENGTH, MSG_WAITALL), LENGTH);
    CHECK(is_text(seg + AT, 1));
    /* A datagram is received whole, at once, or lost. */
    fill(2);
    CHECK_IS(send(datagram[0], seg + AT, LENGTH, 0), LENGTH);
    CHECK_IS(send(datagram[0], "next", 4, 0), 4);
    clear();
    CHECK_IS(recv(datagram[1], seg + AT, LENGTH, 0), LENGTH);
    CHECK(is_text(seg + AT, 2));
    CHECK_IS(recv(datagram[1], plain, LENGTH, 0), 4);
    /* Header, vector, text and control, each in a page of its own; a descriptor goes with it. */
    clear();
    header = (struct msghdr *)seg;
    control = (struct cmsghdr *)(seg + 6 * PAGE);
    *(struct iovec *)(seg + 5 * PAGE) = (struct iovec){seg + AT, 100};
    *header = (struct msghdr){.msg_iov = (struct iovec *)(seg + 5 * PAGE), .msg_iovlen = 1, .msg_control = control};
    header->msg_controllen = CMSG_SPACE(sizeof(int));
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &stream[0], sizeof(int));
    memcpy(seg + AT, "hello", 6);
    away();
    CHECK_IS(sendmsg(datagram[0], header, 0), 100);
    memset(seg + AT, 0, 100);
    memset(control, 0, CMSG_SPACE(sizeof(int)));
    away();
    CHECK_IS(recvmsg(datagram[1], header, 0), 100);
    CHECK(strcmp(seg + AT, "hello") == 0);
    memcpy(&passed, CMSG_DATA(control), sizeof(int));
    CHECK(header->msg_controllen > 0 && control->cmsg_type == SCM_RIGHTS);
    CHECK_IS(write(passed, "x", 1), 1);
    CHECK_IS(read(stream[1], plain, 1), 1);
    /* Calls that put descriptors, addresses and options there. */
    clear();
    pair = (int *)(seg + 4);
    CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    CHECK_IS(write(pair[0], "y", 1), 1);
    clear();
    CHECK_OK(pipe((int *)seg));
    CHECK_IS(write(((int *)seg)[1], "abc", 3), 3);
    passed = ((int *)seg)[0];
    clear();
    CHECK_OK(ioctl(passed, FIONREAD, (int *)seg));
    CHECK_IS(*(int *)seg, 3);
    *(socklen_t *)(seg + PAGE) = sizeof(int);
    away();
    CHECK_OK(getsockopt(stream[0], SOL_SOCKET, SO_TYPE, seg, (socklen_t *)(seg + PAGE)));
    CHECK_IS(*(int *)seg, SOCK_STREAM);
}

static void calls(void)
{
    int fds[2], status;
    struct pollfd *polled;
    struct timespec *time_there;
    double began;
    pid_t child;

    make();
    CHECK_OK(pipe(fds));
    CHECK_IS(write(fds[1], "x", 1), 1);
    clear();
    polled = (struct pollfd *)seg;
    polled[0] = (struct pollfd){.fd = fds[0], .events = POLLIN};
    away();
    CHECK_IS(poll(polled, 1, 1000), 1);
    CHECK_IS(polled[0].revents, POLLIN);
    FD_ZERO((fd_set *)seg);
    FD_SET(fds[0], (fd_set *)seg);
    away();
    CHECK_IS(select(fds[0] + 1, (fd_set *)seg, NULL, NULL, NULL), 1);
    {
        int epoll = epoll_create1(0);
        struct epoll_event *event = (struct epoll_event *)(seg + PAGE - 4);

        *event = (struct epoll_event){.events = EPOLLIN, .data.u64 = 77};
        away();
        CHECK_OK(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[0], event));
        clear();
        CHECK_IS(epoll_wait(epoll, event, 1, 1000), 1);
        CHECK_IS(event->data.u64, 77);
    }
    strcpy(seg + AT, "/proc/self/status");
    away();
    status = open(seg + AT, O_RDONLY);
    CHECK(status >= 0);
    clear();
    CHECK_OK(fstat(status, (struct stat *)(seg + PAGE - 8)));
    CHECK(S_ISREG(((struct stat *)(seg + PAGE - 8))->st_mode));
    strcpy(seg + AT, "/proc/self/exe");
    away();
    CHECK(readlink(seg + AT, seg + 5 * PAGE, PAGE) > 0);
    CHECK_IS(seg[5 * PAGE], '/');
    clear();
    CHECK(getcwd(seg + AT, PAGE) == seg + AT);
    CHECK_IS(seg[AT], '/');
    away();
    CHECK_OK(uname((struct utsname *)(seg + PAGE - 8)));
    CHECK(strcmp(((struct utsname *)(seg + PAGE - 8))->sysname, "Linux") == 0);
    away();
    CHECK_IS(getrandom(seg + AT, LENGTH, 0), LENGTH);
    status = open("/proc/self", O_RDONLY | O_DIRECTORY);
    away();
    CHECK(syscall(SYS_getdents64, status, seg + AT, 2 * PAGE) > 0);
    clear();
    CHECK_OK(getrlimit(RLIMIT_NOFILE, (struct rlimit *)(seg + PAGE - 8)));
    CHECK(((struct rlimit *)(seg + PAGE - 8))->rlim_max > 0);
    time_there = (struct timespec *)(seg + PAGE - 8);
    away();
    CHECK_OK(clock_gettime(CLOCK_MONOTONIC, time_there));
    away();
    CHECK_OK(syscall(SYS_clock_gettime, CLOCK_REALTIME, time_there));
    CHECK(time_there->tv_sec > 1000000);
    *time_there = (struct timespec){0, 20000000};
    away();
    began = now_s();
    CHECK_OK(nanosleep(time_there, NULL));
    CHECK(now_s() - began >= 0.0199);
    /* Signals' structures. */
    clear();
    CHECK_OK(sigprocmask(SIG_BLOCK, NULL, (sigset_t *)(seg + PAGE - 8)));
    sigemptyset((sigset_t *)seg);
    sigaddset((sigset_t *)seg, SIGUSR2);
    away();
    CHECK_OK(sigprocmask(SIG_BLOCK, (sigset_t *)seg, NULL));
    kill(getpid(), SIGUSR2);
    away();
    CHECK_IS(sigwaitinfo((sigset_t *)seg, (siginfo_t *)(seg + PAGE)), SIGUSR2);
    CHECK_IS(((siginfo_t *)(seg + PAGE))->si_pid, getpid());
    /* A child's status, and exec of words in the segment. */
    clear();
    child = fork();
    if (child == 0)
        _exit(9);
    CHECK_IS(waitpid(child, (int *)seg, 0), child);
    CHECK_IS(*(int *)seg, 9 << 8);
    strcpy(seg + AT, "/bin/sh");
    strcpy(seg + 5 * PAGE, "-c");
    strcpy(seg + 7 * PAGE - 4, "exit 7");
    memcpy(seg + 9 * PAGE, (char *[]){seg + AT, seg + 5 * PAGE, seg + 7 * PAGE - 4, NULL}, 4 * sizeof(char *));
    away();
    child = fork();
    if (child == 0) {
        execv(seg + AT, (char **)(seg + 9 * PAGE));
        _exit(errno);
    }
    CHECK_IS(waitpid(child, &status, 0), child);
    CHECK_IS(status, 7 << 8);
    /* Another process reads our memory, and writes it. */
    fill(6);
    {
        static char plain[LENGTH];
        struct iovec from = {seg + AT, LENGTH}, to = {plain, LENGTH};

        CHECK_IS(process_vm_readv(getpid(), &to, 1, &from, 1, 0), LENGTH);
        CHECK(is_text(plain, 6));
        clear();
        CHECK_IS(process_vm_writev(getpid(), &to, 1, &from, 1, 0), LENGTH);
        CHECK(is_text(seg + AT, 6));
        CHECK_IS(run_other(other_sees, segment, AT, 6), 0);
    }
}

/* System V calls whose arguments lie in shared memory. */
static void ipc_calls(void)
{
    int set, queue;
    struct {
        long type;
        char text[100];
    } *letter;

    make();
    set = new_sem(IPC_PRIVATE, 3, 0600);
    queue = new_msg(IPC_PRIVATE, 0600);
    memcpy(seg + PAGE - 2, (unsigned short[]){4, 5, 6}, 6);
    away();
    CHECK_OK(semctl(set, 0, SETALL, (union semun){.array = (unsigned short *)(seg + PAGE - 2)}));
    clear();
    CHECK_OK(semctl(set, 0, GETALL, (union semun){.array = (unsigned short *)(seg + PAGE - 2)}));
    CHECK_IS(((unsigned short *)(seg + PAGE - 2))[2], 6);
    memcpy(seg + PAGE - 8, (struct sembuf[]){{0, -4, 0}, {2, -6, 0}}, 2 * sizeof(struct sembuf));
    away();
    CHECK_OK(semop(set, (struct sembuf *)(seg + PAGE - 8), 2));
    CHECK_IS(sem_value(set, 2), 0);
    *(struct timespec *)(seg + 3 * PAGE - 8) = (struct timespec){0, 10000000};
    away();
    CHECK_ERR(semtimedop(set, (struct sembuf *)(seg + PAGE - 8), 2, (struct timespec *)(seg + 3 * PAGE - 8)), EAGAIN);
    away();
    CHECK_OK(semctl(set, 0, IPC_STAT, (union semun){.buf = (struct semid_ds *)(seg + PAGE - 8)}));
    CHECK_IS(((struct semid_ds *)(seg + PAGE - 8))->sem_nsems, 3);
    clear();
    letter = (void *)(seg + PAGE - 32);
    letter->type = 3;
    strcpy(letter->text, "a letter that goes over the end of the page");
    away();
    CHECK_OK(msgsnd(queue, letter, 100, 0));
    clear();
    CHECK_IS(msgrcv(queue, letter, 100, 0, 0), 100);
    CHECK_IS(letter->type, 3);
    CHECK(strcmp(letter->text, "a letter that goes over the end of the page") == 0);
    CHECK_ERR(msgrcv(queue, letter, 100, 0, IPC_NOWAIT), ENOMSG);
    away();
    CHECK_OK(msgctl(queue, IPC_STAT, (struct msqid_ds *)(seg + PAGE - 8)));
    CHECK_IS(((struct msqid_ds *)(seg + PAGE - 8))->msg_lrpid, getpid());
    away();
    CHECK_OK(shmctl(segment, IPC_STAT, (struct shmid_ds *)(seg + PAGE - 8)));
    CHECK_IS(((struct shmid_ds *)(seg + PAGE - 8))->shm_nattch, 1);
}

static void *writes_later(void *descriptor)
{
    settle();
    away(); /* takes the page from the call that waits for it */
    away();
    return (void *)(intptr_t)write(*(int *)descriptor, "late", 4);
}

static void blocked_call(void)
{
    int fds[2];
    pthread_t thread;

    make();
    CHECK_OK(pipe(fds));
    clear();
    CHECK_OK(pthread_create(&thread, NULL, writes_later, &fds[1]));
    CHECK_IS(read(fds[0], seg + PAGE - 2, 100), 4);
    CHECK(memcmp(seg + PAGE - 2, "late", 4) == 0);
    CHECK_OK(pthread_join(thread, NULL));
    away();
    CHECK(memcmp(seg + PAGE - 2, "late", 4) == 0);
}

/* Futexes, and what the C library builds on them. */

static long futex(int *word, int what, int value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, what, value, limit, NULL, 0);
}

static long waits_on_futex(long id, long unused, long unused_too)
{
    int *at = shmat((int)id, NULL, 0);

    (void)unused;
    (void)unused_too;
    if (at == (void *)-1)
        return 100;
    __atomic_fetch_add(&at[1024], 1, __ATOMIC_SEQ_CST);
    return futex(at, FUTEX_WAIT, 0, NULL) == 0 ? 0 : errno;
}

static void futexes(void)
{
    struct timespec limit = {0, 30000000};
    struct helper helper[2];
    double began, until;
    int *word;

    make();
    word = (int *)seg;
    away();
    CHECK_ERR(futex(word, FUTEX_WAIT, 1, NULL), EAGAIN);
    away();
    began = now_s();
    CHECK_ERR(futex(word, FUTEX_WAIT, 0, &limit), ETIMEDOUT);
    CHECK(now_s() - began >= 0.0299);
    CHECK_IS(futex(word, FUTEX_WAKE, 1, NULL), 0);
    helper[0] = start(waits_on_futex, segment, 0, 0);
    helper[1] = start_here(waits_on_futex, segment, 0, 0);
    until = now_s() + 5;
    while (__atomic_load_n(&word[1024], __ATOMIC_SEQ_CST) != 2 && now_s() < until)
        sleep_ms(1);
    settle();
    CHECK(running(helper[0]) && running(helper[1]));
    CHECK_IS(futex(&word[1], FUTEX_WAKE, INT_MAX, NULL), 0); /* another word */
    CHECK_IS(futex(word, FUTEX_WAKE, 1, NULL), 1);
    settle();
    CHECK_IS(running(helper[0]) + running(helper[1]), 1);
    CHECK_IS(futex(word, FUTEX_WAKE, INT_MAX, NULL), 1);
    CHECK_IS(finish(helper[0]), 0);
    CHECK_IS(finish(helper[1]), 0);
}

struct built {
    pthread_mutex_t mutex, robust;
    pthread_cond_t condition;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    pthread_spinlock_t spin;
    sem_t semaphore;
    long count, spun, turn, reads;
};

enum { ROUNDS = 300, USERS = 4 };

static long uses_built(long id, long me, long unused)
{
    struct built *built = shmat((int)id, NULL, 0);

    (void)unused;
    if (built == (void *)-1)
        return 100;
    pthread_barrier_wait(&built->barrier);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&built->mutex);
        built->count++;
        pthread_mutex_unlock(&built->mutex);
        pthread_spin_lock(&built->spin);
        built->spun++;
        pthread_spin_unlock(&built->spin);
        pthread_rwlock_rdlock(&built->rwlock);
        __atomic_fetch_add(&built->reads, built->turn >= 0, __ATOMIC_SEQ_CST);
        pthread_rwlock_unlock(&built->rwlock);
    }
    for (int i = 0; i < 20; i++) { /* each in its turn */
        pthread_mutex_lock(&built->mutex);
        while (built->turn % USERS != me)
            pthread_cond_wait(&built->condition, &built->mutex);
        built->turn++;
        pthread_cond_broadcast(&built->condition);
        pthread_mutex_unlock(&built->mutex);
    }
    pthread_barrier_wait(&built->barrier);
    sem_post(&built->semaphore);
    return 0;
}

static long dies_holding(long id, long unused, long unused_too)
{
    struct built *built = shmat((int)id, NULL, 0);

    (void)unused;
    (void)unused_too;
    if (built == (void *)-1)
        return 100;
    if (pthread_mutex_lock(&built->robust) != 0)
        return 1;
    sem_post(&built->semaphore);
    for (;;)
        pause();
}

static void make_built(struct built *built)
{
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_rwlockattr_t rwlock;
    pthread_barrierattr_t barrier;

    pthread_mutexattr_init(&mutex);
    CHECK_OK(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
    CHECK_OK(pthread_mutex_init(&built->mutex, &mutex));
    CHECK_OK(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST));
    CHECK_OK(pthread_mutex_init(&built->robust, &mutex));
    pthread_condattr_init(&condition);
    CHECK_OK(pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED));
    CHECK_OK(pthread_cond_init(&built->condition, &condition));
    pthread_rwlockattr_init(&rwlock);
    CHECK_OK(pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED));
    CHECK_OK(pthread_rwlock_init(&built->rwlock, &rwlock));
    pthread_barrierattr_init(&barrier);
    CHECK_OK(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED));
    CHECK_OK(pthread_barrier_init(&built->barrier, &barrier, USERS));
    CHECK_OK(pthread_spin_init(&built->spin, PTHREAD_PROCESS_SHARED));
    CHECK_OK(sem_init(&built->semaphore, 1, 0));
}

static void posix_in_it(void)
{
    struct helper helper[USERS];
    struct built *built;

    make();
    built = (struct built *)seg;
    make_built(built);
    for (int i = 0; i < USERS; i++)
        helper[i] = i % 2 ? start_here(uses_built, segment, i, 0) : start(uses_built, segment, i, 0);
    for (int i = 0; i < USERS; i++)
        CHECK_IS(finish(helper[i]), 0);
    CHECK_IS(built->count, USERS * ROUNDS);
    CHECK_IS(built->spun, USERS * ROUNDS);
    CHECK_IS(built->reads, USERS * ROUNDS);
    CHECK_IS(built->turn, USERS * 20);
    for (int i = 0; i < USERS; i++)
        CHECK_OK(sem_trywait(&built->semaphore));
    CHECK_ERR(sem_trywait(&built->semaphore), EAGAIN);
}

static void robust(struct helper (*starts)(body *, long, long, long))
{
    struct built *built;
    struct helper helper;
    struct timespec limit;

    make();
    built = (struct built *)seg;
    make_built(built);
    helper = starts(dies_holding, segment, 0, 0);
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 5;
    CHECK_OK(sem_timedwait(&built->semaphore, &limit));
    CHECK_IS(pthread_mutex_trylock(&built->robust), EBUSY);
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(pthread_mutex_timedlock(&built->robust, &limit), EOWNERDEAD);
    CHECK_OK(pthread_mutex_consistent(&built->robust));
    CHECK_OK(pthread_mutex_unlock(&built->robust));
    CHECK_OK(pthread_mutex_trylock(&built->robust));
}

static void robust_here(void)
{
    robust(start_here);
}

static void robust_other(void)
{
    robust(start);
}

void memory_sections(void)
{
    section("calls on files", files);
    section("calls on sockets", sockets);
    section("calls", calls);
    section("System V calls", ipc_calls);
    section("a blocked call", blocked_call);
    section("futex", futexes);
    section("pthread objects", posix_in_it);
    section("robust mutex, one site", robust_here);
    section("robust mutex, two sites", robust_other);
}
