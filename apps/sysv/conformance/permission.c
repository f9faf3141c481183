/* permission.c - what another user may do; needs root, to become that user in a helper. */
#include "conformance.h"

enum { NOBODY = 65534, NOT_NOBODY = 254 };

static int get_errno(long result)
{
    return result < 0 ? errno : 0;
}

/* What the other user is to try; the helper's result is errno, 0 for success. */
enum {
    SHM_GET_0, SHM_GET, SHM_READ, SHM_WRITE, SHM_STATUS, SHM_REMOVE, SHM_CHANGE,
    SEM_GET, SEM_ALTER, SEM_WAIT_ZERO, SEM_VALUE, SEM_SET, SEM_STATUS, SEM_REMOVE, SEM_CHANGE,
    MSG_GET, MSG_SEND, MSG_RECEIVE, MSG_STATUS, MSG_REMOVE, MSG_CHANGE, MSG_RAISE,
};

static long tries_shm(long what, int id, long n)
{
    struct shmid_ds stat = {.shm_perm = {.mode = 0666, .uid = NOBODY, .gid = NOBODY}};

    switch (what) {
    case SHM_GET_0: return get_errno(shmget((key_t)n, 0, 0));
    case SHM_GET: return get_errno(shmget((key_t)n, 0, 0600));
    case SHM_READ: return shmat(id, NULL, SHM_RDONLY) == (void *)-1 ? errno : 0;
    case SHM_WRITE: return shmat(id, NULL, 0) == (void *)-1 ? errno : 0;
    case SHM_STATUS: return get_errno(shmctl(id, IPC_STAT, &stat));
    case SHM_REMOVE: return get_errno(shmctl(id, IPC_RMID, NULL));
    default: return get_errno(shmctl(id, IPC_SET, &stat));
    }
}

static long tries_sem(long what, int id, long n)
{
    struct semid_ds stat = {.sem_perm = {.mode = 0666, .uid = NOBODY, .gid = NOBODY}};

    switch (what) {
    case SEM_GET: return get_errno(semget((key_t)n, 0, 0600));
    case SEM_ALTER: return get_errno(op(id, 0, 1, IPC_NOWAIT));
    case SEM_WAIT_ZERO: return get_errno(op(id, 1, 0, IPC_NOWAIT));
    case SEM_VALUE: return get_errno(sem_value(id, 0));
    case SEM_SET: return get_errno(set_value(id, 0, 1));
    case SEM_STATUS: return get_errno(semctl(id, 0, IPC_STAT, (union semun){.buf = &stat}));
    case SEM_REMOVE: return get_errno(semctl(id, 0, IPC_RMID));
    default: return get_errno(semctl(id, 0, IPC_SET, (union semun){.buf = &stat}));
    }
}

static long tries_msg(long what, int id, long n)
{
    struct msqid_ds stat = {.msg_perm = {.mode = 0666, .uid = NOBODY, .gid = NOBODY}, .msg_qbytes = 100};
    struct {
        long type;
        char text[10];
    } letter = {1, "text"};

    switch (what) {
    case MSG_GET: return get_errno(msgget((key_t)n, 0600));
    case MSG_SEND: return get_errno(msgsnd(id, &letter, 5, IPC_NOWAIT));
    case MSG_RECEIVE: return get_errno(msgrcv(id, &letter, 10, 0, IPC_NOWAIT));
    case MSG_STATUS: return get_errno(msgctl(id, IPC_STAT, &stat));
    case MSG_REMOVE: return get_errno(msgctl(id, IPC_RMID, NULL));
    case MSG_RAISE:
        if (msgctl(id, IPC_STAT, &stat) < 0)
            return errno;
        stat.msg_qbytes = 100L << 20;
        return get_errno(msgctl(id, IPC_SET, &stat));
    default: return get_errno(msgctl(id, IPC_SET, &stat));
    }
}

static long tries(long what, long id, long n)
{
    if (!become_nobody())
        return NOT_NOBODY;
    if (what <= SHM_CHANGE)
        return tries_shm(what, (int)id, n);
    return what <= SEM_CHANGE ? tries_sem(what, (int)id, n) : tries_msg(what, (int)id, n);
}

static void shm(void)
{
    int id = new_shm(key(0), PAGE, 0600);
    struct shmid_ds stat;

    CHECK_IS(run_other(tries, SHM_GET_0, id, key(0)), 0); /* asks for nothing */
    CHECK_IS(run_other(tries, SHM_GET, id, key(0)), EACCES);
    CHECK_IS(run_other(tries, SHM_READ, id, 0), EACCES);
    CHECK_IS(run_other(tries, SHM_WRITE, id, 0), EACCES);
    CHECK_IS(run_other(tries, SHM_STATUS, id, 0), EACCES);
    CHECK_IS(run_other(tries, SHM_REMOVE, id, 0), EPERM);
    CHECK_IS(run_other(tries, SHM_CHANGE, id, 0), EPERM);
    CHECK_IS(run_here(tries, SHM_READ, id, 0), EACCES);
    CHECK_OK(shmctl(id, IPC_STAT, &stat));
    stat.shm_perm.mode = 0604;
    CHECK_OK(shmctl(id, IPC_SET, &stat));
    CHECK_IS(run_other(tries, SHM_READ, id, 0), 0);
    CHECK_IS(run_other(tries, SHM_WRITE, id, 0), EACCES);
    CHECK_IS(run_other(tries, SHM_STATUS, id, 0), 0);
    stat.shm_perm.mode = 0606;
    CHECK_OK(shmctl(id, IPC_SET, &stat));
    CHECK_IS(run_other(tries, SHM_WRITE, id, 0), 0);
    CHECK_IS(run_other(tries, SHM_REMOVE, id, 0), EPERM);
    CHECK_IS(run_other(tries, SHM_GET, id, key(0)), 0);
    stat.shm_perm.mode = 0060; /* of the group, which is the other's */
    stat.shm_perm.gid = NOBODY;
    CHECK_OK(shmctl(id, IPC_SET, &stat));
    CHECK_IS(run_other(tries, SHM_WRITE, id, 0), 0);
    stat.shm_perm.mode = 0606;
    CHECK_OK(shmctl(id, IPC_SET, &stat));
    CHECK_IS(run_other(tries, SHM_READ, id, 0), EACCES); /* the group's bits count, not the others' */
    stat.shm_perm.mode = 0600;
    stat.shm_perm.uid = NOBODY;
    CHECK_OK(shmctl(id, IPC_SET, &stat));
    CHECK_IS(run_other(tries, SHM_WRITE, id, 0), 0);
    CHECK(attach(id, 0) != NULL); /* root may in any case */
    CHECK_IS(run_other(tries, SHM_CHANGE, id, 0), 0); /* the owner may */
    CHECK_IS(run_other(tries, SHM_REMOVE, id, 0), 0);
}

static void sem(void)
{
    int id = new_sem(key(0), 2, 0600);
    struct semid_ds stat;

    CHECK_IS(run_other(tries, SEM_GET, id, key(0)), EACCES);
    CHECK_IS(run_other(tries, SEM_ALTER, id, 0), EACCES);
    CHECK_IS(run_other(tries, SEM_WAIT_ZERO, id, 0), EACCES);
    CHECK_IS(run_other(tries, SEM_VALUE, id, 0), EACCES);
    CHECK_IS(run_other(tries, SEM_SET, id, 0), EACCES);
    CHECK_IS(run_other(tries, SEM_STATUS, id, 0), EACCES);
    CHECK_IS(run_other(tries, SEM_REMOVE, id, 0), EPERM);
    CHECK_IS(run_other(tries, SEM_CHANGE, id, 0), EPERM);
    CHECK_IS(sem_value(id, 0), 0);
    CHECK_OK(semctl(id, 0, IPC_STAT, (union semun){.buf = &stat}));
    stat.sem_perm.mode = 0604;
    CHECK_OK(semctl(id, 0, IPC_SET, (union semun){.buf = &stat}));
    CHECK_IS(run_other(tries, SEM_WAIT_ZERO, id, 0), 0);
    CHECK_IS(run_other(tries, SEM_VALUE, id, 0), 0);
    CHECK_IS(run_other(tries, SEM_ALTER, id, 0), EACCES);
    CHECK_IS(run_other(tries, SEM_SET, id, 0), EACCES);
    stat.sem_perm.mode = 0602;
    CHECK_OK(semctl(id, 0, IPC_SET, (union semun){.buf = &stat}));
    CHECK_IS(run_other(tries, SEM_ALTER, id, 0), 0);
    CHECK_IS(run_other(tries, SEM_VALUE, id, 0), EACCES);
    CHECK_IS(run_other(tries, SEM_SET, id, 0), 0);
    CHECK_IS(sem_value(id, 0), 1);
    stat.sem_perm.uid = NOBODY;
    CHECK_OK(semctl(id, 0, IPC_SET, (union semun){.buf = &stat}));
    CHECK_IS(run_other(tries, SEM_REMOVE, id, 0), 0);
}

static void msg(void)
{
    int id = new_msg(key(0), 0600);
    struct msqid_ds stat;

    CHECK_IS(run_other(tries, MSG_GET, id, key(0)), EACCES);
    CHECK_IS(run_other(tries, MSG_SEND, id, 0), EACCES);
    CHECK_IS(run_other(tries, MSG_RECEIVE, id, 0), EACCES);
    CHECK_IS(run_other(tries, MSG_STATUS, id, 0), EACCES);
    CHECK_IS(run_other(tries, MSG_REMOVE, id, 0), EPERM);
    CHECK_IS(run_other(tries, MSG_CHANGE, id, 0), EPERM);
    CHECK_OK(msgctl(id, IPC_STAT, &stat));
    stat.msg_perm.mode = 0602;
    CHECK_OK(msgctl(id, IPC_SET, &stat));
    CHECK_IS(run_other(tries, MSG_SEND, id, 0), 0);
    CHECK_IS(run_other(tries, MSG_RECEIVE, id, 0), EACCES);
    stat.msg_perm.mode = 0604;
    CHECK_OK(msgctl(id, IPC_SET, &stat));
    CHECK_IS(run_other(tries, MSG_SEND, id, 0), EACCES);
    CHECK_IS(run_other(tries, MSG_RECEIVE, id, 0), 0);
    CHECK_IS(run_other(tries, MSG_RECEIVE, id, 0), ENOMSG);
    CHECK_IS(run_other(tries, MSG_STATUS, id, 0), 0);
    stat.msg_perm.mode = 0600;
    stat.msg_perm.uid = NOBODY;
    CHECK_OK(msgctl(id, IPC_SET, &stat));
    CHECK_IS(run_other(tries, MSG_RAISE, id, 0), EPERM); /* above msgmnb: root's to do */
    CHECK_IS(run_other(tries, MSG_CHANGE, id, 0), 0);
    CHECK_IS(run_other(tries, MSG_REMOVE, id, 0), 0);
}

static void none(void)
{
    skip("not root: another user's rights are not checked");
}

void permission_sections(void)
{
    if (geteuid() != 0) {
        section("permissions", none);
        return;
    }
    section("shm permissions", shm);
    section("sem permissions", sem);
    section("msg permissions", msg);
}
