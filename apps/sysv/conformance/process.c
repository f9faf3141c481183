/*
 * process.c - what threads and children do beside calls: cancelled waits, children that nobody is told of, attaches in pieces.
 */
#include "conformance.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>

struct message {
    long kind;
    char text[512];
};

/* What a thread waits in, and whether it was unwound there. */
static int waits_at, cleaned;
static sem_t *waits_named;

static void clean(void *arg)
{
    (void)arg;
    cleaned++;
}

static void *receives(void *arg)
{
    struct message message;

    pthread_cleanup_push(clean, NULL);
    msgrcv(waits_at, &message, sizeof message.text, 7, 0);
    pthread_cleanup_pop(0);
    return arg;
}

static void *sends(void *arg)
{
    struct message message = {1, ""};

    pthread_cleanup_push(clean, NULL);
    msgsnd(waits_at, &message, sizeof message.text, 0);
    pthread_cleanup_pop(0);
    return arg;
}

static void *waits(void *arg)
{
    pthread_cleanup_push(clean, NULL);
    sem_wait(waits_named);
    pthread_cleanup_pop(0);
    return arg;
}

/* Cancels a thread that is in its call, or about to be. */
static void cancel(void *(*in)(void *), bool at_once)
{
    pthread_t thread;
    void *result = NULL;

    cleaned = 0;
    CHECK_OK(pthread_create(&thread, NULL, in, NULL));
    if (!at_once)
        settle();
    CHECK_OK(pthread_cancel(thread));
    CHECK_OK(pthread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);
    if (!at_once)
        CHECK_IS(cleaned, 1);
}

static void cancelled_waits(void)
{
    struct message message = {1, ""};
    struct msqid_ds about;

    waits_at = new_msg(IPC_PRIVATE, 0600);
    for (int turn = 0; turn < 3; turn++) {
        cancel(receives, false);
        cancel(receives, true);
    }
    CHECK_OK(msgsnd(waits_at, &message, sizeof message.text, 0));
    CHECK_IS(msgrcv(waits_at, &message, sizeof message.text, 0, 0), sizeof message.text);
    while (msgsnd(waits_at, &message, sizeof message.text, IPC_NOWAIT) == 0)
        ;
    cancel(sends, false);
    CHECK_OK(msgctl(waits_at, IPC_STAT, &about));
    CHECK_IS(about.msg_cbytes, about.msg_qbytes);
    waits_named = sem_open("/conformance-cancel", O_CREAT, 0600, 0);
    CHECK(waits_named != SEM_FAILED);
    CHECK_OK(sem_unlink("/conformance-cancel"));
    cancel(waits, false);
    cancel(waits, true);
    CHECK_OK(sem_post(waits_named));
    CHECK_OK(sem_wait(waits_named));
}

static void *is_in_semop(void *arg)
{
    op(waits_at, 0, -1, 0);
    cleaned = 1;
    pthread_testcancel();
    return arg;
}

/* semop is no cancellation point. */
static void semop_goes_on(void)
{
    pthread_t thread;
    void *result = NULL;

    waits_at = new_sem(IPC_PRIVATE, 1, 0600);
    cleaned = 0;
    CHECK_OK(pthread_create(&thread, NULL, is_in_semop, NULL));
    CHECK(await_ncnt(waits_at, 0, 1));
    CHECK_OK(pthread_cancel(thread));
    settle();
    CHECK_IS(semctl(waits_at, 0, GETNCNT), 1);
    CHECK_OK(op(waits_at, 0, 1, 0));
    CHECK_OK(pthread_join(thread, &result));
    CHECK(result == PTHREAD_CANCELED);
    CHECK_IS(cleaned, 1);
}

static void *attaches_and_forks(void *id)
{
    char *at;
    pid_t child;

    pthread_cancel(pthread_self());
    at = shmat(*(int *)id, NULL, 0);
    cleaned = 1;
    if (at != (void *)-1 && *at == 0 && shmdt(at) == 0)
        cleaned = 2;
    child = fork();
    if (child == 0)
        _exit(0);
    cleaned += child > 0;
    pthread_testcancel();
    cleaned = 0;
    return id;
}

/* Nor are shmat, shmdt and fork, also of a process that has attached nothing yet; others go on attaching. */
static void attaches_go_on(void)
{
    static int id;
    int status = -1;
    pid_t child;

    id = new_shm(IPC_PRIVATE, PAGE, 0600);
    child = fork();
    if (child == 0) {
        pthread_t thread;
        void *result = NULL;
        sem_t *named = sem_open("/conformance-cancel", O_CREAT, 0600, 0);
        bool ok = named != SEM_FAILED && sem_unlink("/conformance-cancel") == 0;

        cleaned = 0;
        ok = pthread_create(&thread, NULL, attaches_and_forks, &id) == 0 && ok;
        ok = pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && ok;
        alarm(20);
        ok = cleaned == 3 && shmat(id, NULL, 0) != (void *)-1 && sem_close(named) == 0 && ok;
        _exit(ok ? 0 : cleaned + 1);
    }
    CHECK(child > 0);
    CHECK_IS(waitpid(child, &status, 0), child);
    CHECK_IS(status, 0);
}

/* A child of _Fork runs no handlers of fork: what it does is its own all the same. */
static void untold_child(void)
{
    int set = new_sem(IPC_PRIVATE, 2, 0600), status = -1;
    pid_t child;

    CHECK_OK(op(set, 0, 1, 0));
    child = _Fork();
    if (child == 0)
        _exit(op(set, 0, 1, SEM_UNDO) != 0 || op(set, 1, 1, 0) != 0 || semctl(set, 1, GETPID) != getpid());
    for (int turn = 0; turn < 50; turn++)
        CHECK_OK(op(set, 1, 0, IPC_NOWAIT) == 0 || errno == EAGAIN ? 0 : -1);
    CHECK_IS(waitpid(child, &status, 0), child);
    CHECK_IS(status, 0);
    CHECK_IS(semctl(set, 0, GETVAL), 1);
    CHECK_IS(semctl(set, 1, GETPID), child);
}

enum { MOST_SOCKETS = 64 };

/* Sockets above the descriptors that programs use, by their inodes. */
static int high_sockets(ino_t found[MOST_SOCKETS])
{
    int count = 0;
    struct stat about;

    for (int descriptor = 600; descriptor < 1024 && count < MOST_SOCKETS; descriptor++)
        if (fstat(descriptor, &about) == 0 && S_ISSOCK(about.st_mode))
            found[count++] = about.st_ino;
    return count;
}

/* A child has nothing of the calls that its parent's threads are in. */
static void calls_of_other_threads(void)
{
    static ino_t of_parent[MOST_SOCKETS], own[MOST_SOCKETS];
    int status = -1, count;
    pthread_t thread;
    pid_t child;

    waits_at = new_sem(IPC_PRIVATE, 1, 0600);
    CHECK_OK(pthread_create(&thread, NULL, is_in_semop, NULL));
    CHECK(await_ncnt(waits_at, 0, 1));
    count = high_sockets(of_parent);
    child = fork();
    if (child == 0) {
        int both = 0;

        for (int i = high_sockets(own); i-- > 0;)
            for (int other = 0; other < count; other++)
                both += own[i] == of_parent[other];
        _exit(both);
    }
    CHECK_IS(waitpid(child, &status, 0), child);
    CHECK_IS(status, 0);
    CHECK_OK(op(waits_at, 0, 1, 0));
    CHECK_OK(pthread_join(thread, NULL));
}

/* shmdt takes what is left of an attach, and not what lies between. */
static void pieces(void)
{
    int shm = new_shm(IPC_PRIVATE, 8 * 4096, 0600);
    char *at = attach(shm, 0), *between = at + 3 * 4096;
    struct shmid_ds about;

    memset(at, 1, 8 * 4096);
    CHECK_OK(munmap(between, 2 * 4096));
    CHECK(mmap(between, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == between);
    memset(between, 2, 2 * 4096);
    CHECK_OK(shmdt(at));
    CHECK_IS(signal_of_read(at), SIGSEGV);
    CHECK_IS(signal_of_read(at + 7 * 4096), SIGSEGV);
    CHECK_IS(signal_of_read(between), 0);
    CHECK_IS(between[4096], 2);
    CHECK_ERR(shmdt(at), EINVAL);
    CHECK_OK(shmctl(shm, IPC_STAT, &about));
    CHECK_IS(about.shm_nattch, 0);
    CHECK_OK(munmap(between, 2 * 4096));
}

void process_sections(void)
{
    section("cancelled waits", cancelled_waits);
    section("semop is no cancellation point", semop_goes_on);
    section("shmat, shmdt and fork are none", attaches_go_on);
    section("a child of _Fork", untold_child);
    section("a child beside calls of other threads", calls_of_other_threads);
    section("an attach in pieces", pieces);
}
