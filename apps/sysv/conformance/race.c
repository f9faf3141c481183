/* race.c - the same asked for at the same time by several: one makes an object, none is lost or doubled. */
#include "conformance.h"

#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>

enum { RACERS = 4, KEYS = 40, THREADS = 3, ATTACHES = 100 };

static void race(body *what, long a, long b)
{
    struct helper helper[RACERS];

    for (int i = 0; i < RACERS; i++)
        helper[i] = i % 2 ? start_here(what, a, b, i) : start(what, a, b, i);
    for (int i = 0; i < RACERS; i++)
        CHECK_IS(finish(helper[i]), 0);
}

/* Word 0: who is there; then by key: who made it, in bits of a racer, and the identifiers all found. */
struct tally {
    int ready;
    int makers[KEYS];
    int id[RACERS][KEYS];
};

static void wait_for_all(struct tally *tally)
{
    __atomic_fetch_add(&tally->ready, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&tally->ready, __ATOMIC_SEQ_CST) < RACERS)
        sleep_ms(0);
}

static int get(char kind, key_t of, int flags)
{
    switch (kind) {
    case 'm': return shmget(of, PAGE, flags);
    case 's': return semget(of, 2, flags);
    default: return msgget(of, flags);
    }
}

static long makes(long shm, long kind, long me)
{
    struct tally *tally = shmat((int)shm, NULL, 0);

    if (tally == (void *)-1)
        return 100;
    wait_for_all(tally);
    for (int i = 0; i < KEYS; i++) {
        int id = get((char)kind, key(i), IPC_CREAT | IPC_EXCL | 0600);

        if (id >= 0)
            __atomic_fetch_add(&tally->makers[i], 1, __ATOMIC_SEQ_CST);
        else if (errno != EEXIST)
            return errno;
        else
            id = get((char)kind, key(i), 0);
        if (id < 0)
            return errno;
        tally->id[me][i] = id;
    }
    return 0;
}

static void makers(char kind, int (*keep)(int))
{
    int shm = new_shm(IPC_PRIVATE, sizeof(struct tally), 0600);
    struct tally *tally = attach(shm, 0);
    long wrong = 0, differ = 0;

    race(makes, shm, kind);
    for (int i = 0; i < KEYS; i++) {
        wrong += tally->makers[i] != 1;
        keep(tally->id[0][i]);
        for (int j = 1; j < RACERS; j++)
            differ += tally->id[j][i] != tally->id[0][i];
    }
    CHECK_IS(wrong, 0);
    CHECK_IS(differ, 0);
}

static void shm_makers(void)
{
    makers('m', keep_shm);
}

static void sem_makers(void)
{
    makers('s', keep_sem);
}

static void msg_makers(void)
{
    makers('q', keep_msg);
}

/* Threads that attach, change and detach, in several processes. */

static void *attaches(void *shm)
{
    for (int i = 0; i < ATTACHES; i++) {
        volatile long *at = shmat(*(int *)shm, NULL, 0);

        if (at == (void *)-1)
            return shm;
        __atomic_fetch_add(&at[i % 4 * 512], 1, __ATOMIC_SEQ_CST);
        if (shmdt((void *)(uintptr_t)at) < 0)
            return shm;
    }
    return NULL;
}

static long attaches_in_threads(long shm, long unused, long unused_too)
{
    int id = (int)shm, result = 0;
    pthread_t thread[THREADS];
    void *failed;

    (void)unused;
    (void)unused_too;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, attaches, &id) != 0)
            return 101;
    for (int i = 0; i < THREADS; i++)
        if (pthread_join(thread[i], &failed) != 0 || failed != NULL)
            result = 102;
    return result;
}

static void attach_storm(void)
{
    int shm = new_shm(key(0), 4 * PAGE, 0600);
    struct shmid_ds stat;
    long *at;

    race(attaches_in_threads, shm, 0);
    CHECK_OK(shmctl(shm, IPC_STAT, &stat));
    CHECK_IS(stat.shm_nattch, 0);
    at = attach(shm, 0);
    CHECK_IS(at[0] + at[512] + at[1024] + at[1536], RACERS * THREADS * ATTACHES);
}

/* Whoever uses a set or queue that is removed is told so, or that there is none. */

static long uses_until_gone(long set, long queue, long me)
{
    struct {
        long type;
        char text[8];
    } letter = {me + 1, "text"};

    for (;;) {
        if (set >= 0 ? op((int)set, 0, me % 2 ? 1 : -1, 0) == 0
                     : (me % 2 ? msgsnd((int)queue, &letter, 8, 0) : msgrcv((int)queue, &letter, 8, 0, 0)) >= 0)
            continue;
        if (errno != ERANGE)
            return errno == EIDRM || errno == EINVAL ? 0 : errno;
    }
}

static void removed_in_use(void)
{
    struct helper helper[RACERS];

    for (int round = 0; round < 6; round++) {
        int set = round % 2 ? -1 : new_sem(key(0), 1, 0600), queue = round % 2 ? new_msg(key(0), 0600) : -1;

        for (int i = 0; i < RACERS; i++)
            helper[i] = i < 2 ? start_here(uses_until_gone, set, queue, i) : start(uses_until_gone, set, queue, i);
        sleep_ms(20);
        CHECK_OK(set >= 0 ? semctl(set, 0, IPC_RMID) : msgctl(queue, IPC_RMID, NULL));
        for (int i = 0; i < RACERS; i++)
            CHECK_IS(finish(helper[i]), 0);
    }
}

/* The last detach of a removed segment, and attaches by identifier: each gets all of it or EINVAL. */

static long attaches_until_gone(long shm, long unused, long unused_too)
{
    (void)unused;
    (void)unused_too;
    for (;;) {
        volatile int *at = shmat((int)shm, NULL, 0);

        if (at == (void *)-1)
            return errno == EINVAL || errno == EIDRM ? 0 : errno;
        if (at[1] != 77)
            return 103;
        if (shmdt((void *)(uintptr_t)at) < 0)
            return 104;
    }
}

static void removed_segment(void)
{
    struct helper helper[RACERS];

    for (int round = 0; round < 5; round++) {
        int shm = new_shm(key(0), PAGE, 0600);
        volatile int *at = attach(shm, 0);

        at[1] = 77;
        CHECK_OK(shmdt((void *)(uintptr_t)at));
        for (int i = 0; i < RACERS; i++)
            helper[i] = i % 2 ? start_here(attaches_until_gone, shm, 0, 0) : start(attaches_until_gone, shm, 0, 0);
        sleep_ms(20);
        CHECK_OK(shmctl(shm, IPC_RMID, NULL));
        for (int i = 0; i < RACERS; i++)
            CHECK_IS(finish(helper[i]), 0);
        CHECK_ERR(shmget(key(0), 0, 0), ENOENT);
    }
}

/* A child that is killed in the middle of a call leaves nothing behind, and one that is forked with nothing attached attaches. */

static long counted(int id)
{
    struct shmid_ds about;

    return shmctl(id, IPC_STAT, &about) < 0 ? -1 : (long)about.shm_nattch;
}

static void killed_amid_calls(void)
{
    int id = new_shm(IPC_PRIVATE, PAGE, 0600), sem = new_sem(IPC_PRIVATE, 1, 0600);
    struct sembuf down = {0, -1, SEM_UNDO}, up = {0, 1, SEM_UNDO};
    volatile int *at = attach(id, 0);

    CHECK_OK(semctl(sem, 0, SETVAL, (union semun){.val = 1}));
    for (int i = 0; i < 60; i++) {
        pid_t child = fork();

        while (child == 0) {
            void *more = shmat(id, NULL, 0);

            semop(sem, &down, 1);
            semop(sem, &up, 1);
            shmdt(more);
        }
        usleep(200 + (useconds_t)i * 53);
        kill(child, SIGKILL);
        CHECK_IS(waitpid(child, NULL, 0), child);
        CHECK_IS(semctl(sem, 0, GETVAL), 1);
        CHECK_IS(counted(id), 1);
    }
    CHECK_OK(shmdt((void *)(uintptr_t)at));
}

static void attaches_after_all_were_detached(void)
{
    int id = new_shm(IPC_PRIVATE, PAGE, 0600);
    volatile int *at = attach(id, 0);
    int status = 0;
    pid_t child;

    at[0] = 7;
    CHECK_OK(shmdt((void *)(uintptr_t)at));
    child = fork();
    if (child == 0) {
        volatile int *own = shmat(id, NULL, 0);

        _exit(own == (void *)-1 ? 1 : own[0] != 7);
    }
    CHECK_IS(waitpid(child, &status, 0), child);
    CHECK_IS(status, 0);
}

static void a_piece_is_moved(void)
{
    int id = new_shm(IPC_PRIVATE, 8 * PAGE, 0600);
    volatile int *at = attach(id, 0), *other = attach(id, 0), *moved;
    void *to = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    moved = mremap((char *)(uintptr_t)at + 3 * PAGE, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    CHECK(moved != MAP_FAILED);
    moved[0] = 5;
    moved[PAGE / sizeof *moved] = 6;
    CHECK_IS(other[3 * PAGE / sizeof *other], 5);
    CHECK_IS(other[4 * PAGE / sizeof *other], 6);
    other[3 * PAGE / sizeof *other] = 8;
    CHECK_IS(moved[0], 8);
}

static sigjmp_buf out_of_wait;

static void jump(int signal)
{
    (void)signal;
    siglongjmp(out_of_wait, 1);
}

static void a_handler_jumps_out_of_a_wait(void)
{
    int sem = new_sem(IPC_PRIVATE, 1, 0600);
    struct sembuf down = {0, -1, 0}, up = {0, 1, 0};
    struct sigaction to_jump = {.sa_handler = jump}, before;

    CHECK_OK(sigaction(SIGUSR2, &to_jump, &before));
    for (volatile int i = 0; i < 5; i++) {
        pid_t child;

        if (sigsetjmp(out_of_wait, 1) == 0) {
            child = fork();
            if (child == 0) {
                sleep_ms(30);
                kill(getppid(), SIGUSR2);
                _exit(0);
            }
            semop(sem, &down, 1);
            CHECK(!"the semop has returned");
        }
        CHECK(wait(NULL) > 0);
        CHECK_IS(semctl(sem, 0, GETNCNT), 0);
    }
    CHECK_OK(semop(sem, &up, 1));
    CHECK_IS(semctl(sem, 0, GETVAL), 1);
    CHECK_OK(sigaction(SIGUSR2, &before, NULL));
}

void race_sections(void)
{
    section("shmget race", shm_makers);
    section("semget race", sem_makers);
    section("msgget race", msg_makers);
    section("shmat storm", attach_storm);
    section("removed in use", removed_in_use);
    section("removed segment", removed_segment);
    section("killed amid calls", killed_amid_calls);
    section("attach after all were detached", attaches_after_all_were_detached);
    section("a piece is moved", a_piece_is_moved);
    section("jump out of a wait", a_handler_jumps_out_of_a_wait);
}
