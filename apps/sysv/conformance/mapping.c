/* mapping.c - parts of attaches, moved ones and replaced ones; holes; objects with POSIX names that come and go. */
#include "conformance.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { PAGES = 4, MANY = 200, CHURNED = 1500 };

static bool opens_to_write(void *at, size_t bytes)
{
    return mprotect(at, bytes, PROT_READ | PROT_WRITE) == 0;
}

static void read_only(void)
{
    int id = new_shm(key(0), PAGES * PAGE, 0600);
    char *at = attach(id, SHM_RDONLY), *moved = attach(id, SHM_RDONLY);
    char *place = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *own;

    CHECK_ERR(mprotect(at, PAGES * PAGE, PROT_READ | PROT_WRITE), EACCES);
    CHECK_OK(munmap(at, PAGE));
    CHECK_ERR(mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE), EACCES);
    CHECK_OK(munmap(at + 2 * PAGE, PAGE));
    CHECK_ERR(mprotect(at + PAGE, PAGE, PROT_READ | PROT_WRITE), EACCES);
    CHECK_ERR(mprotect(at + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE), EACCES);
    own = mmap(at, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(own == at && opens_to_write(own, PAGE));
    own = mmap(at + 2 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(own == at + 2 * PAGE && opens_to_write(own, PAGE));

    CHECK(mremap(moved, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
    CHECK_ERR(mprotect(place, PAGE, PROT_READ | PROT_WRITE), EACCES);
    CHECK(mremap(place, PAGES * PAGE, PAGE, 0) == place);
    CHECK_ERR(mprotect(place, PAGE, PROT_READ | PROT_WRITE), EACCES);
    own = mmap(moved, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(own == moved && opens_to_write(own, PAGE));
    for (int i = 0; i < MANY; i++) {
        char *one = attach(id, SHM_RDONLY);

        if (opens_to_write(one, PAGE)) {
            CHECK(!"one of many attaches to read can be written");
            break;
        }
    }
}

static volatile int *read_by_thread;
static volatile int thread_ends;

static void *reads(void *unused)
{
    while (!thread_ends)
        if (*read_by_thread != 5)
            return (void *)read_by_thread;
    return unused;
}

static void replaced(void)
{
    int id = new_shm(key(0), PAGE, 0600);
    pthread_t thread;
    void *wrong;

    read_by_thread = attach(id, 0);
    *read_by_thread = 5;
    CHECK_OK(pthread_create(&thread, NULL, reads, NULL));
    for (int i = 0; i < 500; i++)
        if (shmat(id, (const void *)read_by_thread, SHM_REMAP) != (const void *)read_by_thread) {
            CHECK(!"an attach replaces another one");
            break;
        }
    thread_ends = 1;
    CHECK_OK(pthread_join(thread, &wrong));
    CHECK(wrong == NULL);
    CHECK_OK(shmdt((const void *)read_by_thread));
}

static long finds(long id, long first, long second)
{
    const volatile char *at = shmat((int)id, NULL, 0);

    return at == (void *)-1 || at[0] != first || at[PAGE] != second;
}

static void holes(void)
{
    int id = new_shm(key(0), 3 * PAGE, 0600);
    volatile char *at = attach(id, 0);

    at[0] = 7;
    at[PAGE] = 8;
    at[2 * PAGE] = 9;
    CHECK_OK(madvise((void *)at, PAGE, MADV_REMOVE));
    CHECK_IS(at[0], 0);
    CHECK_IS(run_here(finds, id, 0, 8), 0);
    at[0] = 5;
    CHECK_IS(run_other(finds, id, 5, 8), 0);
    /* The first access is a write. */
    CHECK_IS(at[2 * PAGE], 9);
    CHECK_OK(madvise((void *)(at + 2 * PAGE), PAGE, MADV_REMOVE));
    at[2 * PAGE + 1] = 6;
    CHECK_IS(at[2 * PAGE], 0);
    CHECK_IS(at[2 * PAGE + 1], 6);
}

static void objects_that_go(void)
{
    char name[64];

    snprintf(name, sizeof name, "/conformance-%d", (int)getpid());
    for (int i = 0; i < CHURNED; i++) {
        int object = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
        char *at = MAP_FAILED;

        if (object >= 0 && ftruncate(object, 2 * PAGE) == 0)
            at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
        if (at == MAP_FAILED) {
            CHECK(!"there is room for an object, as many have gone");
            return;
        }
        at[0] = 1;
        munmap(at, 2 * PAGE);
        close(object);
        shm_unlink(name);
    }
}

/* Nobody has it but a message that waits to be received. */
static void object_on_its_way(void)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
    char name[64], byte = 0, *at;
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    int sockets[2], object;

    snprintf(name, sizeof name, "/conformance-%d", (int)getpid());
    CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    object = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    CHECK_OK(ftruncate(object, PAGE));
    at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, object, 0);
    CHECK(at != MAP_FAILED);
    at[0] = 42;
    munmap(at, PAGE);
    memcpy(CMSG_DATA(&control.header), &object, sizeof object);
    CHECK_IS(sendmsg(sockets[0], &message, 0), 1);
    close(object);
    sleep(4);
    CHECK_IS(recvmsg(sockets[1], &message, 0), 1);
    memcpy(&object, CMSG_DATA(&control.header), sizeof object);
    at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, object, 0);
    CHECK(at != MAP_FAILED && at[0] == 42);
    shm_unlink(name);
}

enum { GROUP = 54321 };

/* Becomes nobody after a call as root, and leaves a group or has come into it. */
static long in_group(long segment, long was, long is)
{
    gid_t group = GROUP;

    if (setgroups((size_t)was, &group) != 0 || semget(key(1), 0, 0) < 0 || setgroups((size_t)is, &group) != 0 ||
        setgid(65534) != 0 || setuid(65534) != 0)
        return 200;
    return shmat((int)segment, NULL, 0) == (void *)-1 ? errno : 0;
}

static void groups(void)
{
    int id = new_shm(key(0), PAGE, 0600);
    struct shmid_ds stat;

    if (geteuid() != 0) {
        skip("not root: groups are not checked");
        return;
    }
    new_sem(key(1), 1, 0600);
    CHECK_OK(shmctl(id, IPC_STAT, &stat));
    stat.shm_perm.gid = GROUP;
    stat.shm_perm.mode = 0660;
    CHECK_OK(shmctl(id, IPC_SET, &stat));
    CHECK_IS(run_here(in_group, id, 1, 1), 0);
    CHECK_IS(run_here(in_group, id, 1, 0), EACCES);
    CHECK_IS(run_here(in_group, id, 0, 1), 0);
    CHECK_IS(run_other(in_group, id, 1, 0), EACCES);
}

void mapping_sections(void)
{
    section("parts of attaches to read", read_only);
    section("replaced attaches", replaced);
    section("holes", holes);
    section("objects that come and go", objects_that_go);
    section("an object on its way", object_on_its_way);
    section("groups", groups);
}
