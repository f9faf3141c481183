/* shm.c - shared memory: shmget, shmat, shmdt, shmctl, and what mm system calls do to an attach. */
#include "conformance.h"

#include <sys/mman.h>

static struct shmid_ds about(int id)
{
    struct shmid_ds stat = {0};

    CHECK_OK(shmctl(id, IPC_STAT, &stat));
    return stat;
}

static long attaches(int id)
{
    struct shmid_ds stat;

    return shmctl(id, IPC_STAT, &stat) == 0 ? (long)stat.shm_nattch : -1;
}

/* Helpers: bodies that attach by identifier. */

static long reads(long id, long at, long value)
{
    volatile unsigned char *seg = shmat((int)id, NULL, SHM_RDONLY);

    return seg == (void *)-1 ? 100 : seg[at] == (unsigned char)value ? 0 : 1;
}

static long writes(long id, long at, long value)
{
    volatile unsigned char *seg = shmat((int)id, NULL, 0);

    if (seg == (void *)-1)
        return 100;
    seg[at] = (unsigned char)value;
    return 0;
}

static long attach_errno(long id, long flags, long unused)
{
    (void)unused;
    return shmat((int)id, NULL, (int)flags) == (void *)-1 ? errno : 0;
}

/* Attaches, says so in word 0, and stays until word 1 is set. */
static long stays(long id, long unused, long detach)
{
    volatile int *seg = shmat((int)id, NULL, 0);

    (void)unused;
    if (seg == (void *)-1)
        return 100;
    __atomic_store_n(&seg[0], 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&seg[1], __ATOMIC_SEQ_CST) == 0)
        sleep_ms(1);
    if (detach)
        return shmdt((void *)(uintptr_t)seg) == 0 ? 0 : 2;
    return 0;
}

static bool await_word(volatile int *word, int value)
{
    double until = now_s() + 5;

    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
        if (now_s() > until)
            return false;
        sleep_ms(1);
    }
    return true;
}

static void get(void)
{
    int id, other;

    CHECK_ERR(shmget(key(0), PAGE, 0), ENOENT);
    CHECK_ERR(shmget(key(0), PAGE, 0600), ENOENT);
    CHECK_ERR(shmget(key(0), PAGE, IPC_EXCL), ENOENT);
    CHECK_ERR(shmget(key(0), 0, IPC_CREAT | 0600), EINVAL);
    CHECK_ERR(shmget(IPC_PRIVATE, 0, 0600), EINVAL);
    CHECK_ERR(shmget(key(0), (size_t)-1, IPC_CREAT | 0600), EINVAL);
    CHECK_ERR(shmget(key(0), PAGE, 0), ENOENT);
    id = new_shm(key(0), 3 * PAGE, 0600);
    CHECK_IS(shmget(key(0), 3 * PAGE, 0), id);
    CHECK_IS(shmget(key(0), 0, 0), id);
    CHECK_IS(shmget(key(0), 1, 0600), id);
    CHECK_IS(shmget(key(0), PAGE, IPC_CREAT | 0600), id);
    CHECK_IS(shmget(key(0), PAGE, IPC_EXCL | 0600), id);
    CHECK_IS(shmget(key(0), PAGE, IPC_CREAT), id);
    CHECK_ERR(shmget(key(0), PAGE, IPC_CREAT | IPC_EXCL | 0600), EEXIST);
    CHECK_ERR(shmget(key(0), 3 * PAGE + 1, 0), EINVAL);
    CHECK_ERR(shmget(key(0), 3 * PAGE + 1, IPC_CREAT | 0600), EINVAL);
    CHECK_ERR(shmget(key(0), 3 * PAGE + 1, IPC_CREAT | IPC_EXCL | 0600), EEXIST);
    CHECK_ERR(shmget(key(0), 0, IPC_CREAT | IPC_EXCL | 0600), EEXIST);
    CHECK_IS(about(id).shm_segsz, 3 * PAGE);
    other = new_shm(IPC_PRIVATE, PAGE, 0600);
    CHECK(other != id);
    CHECK(new_shm(IPC_PRIVATE, PAGE, 0600) != other);
    CHECK_IS(about(other).shm_perm.__key, 0);
    other = new_shm(key(1), PAGE, 0);
    if (geteuid() == 0)
        CHECK_IS(about(other).shm_perm.mode & 0777, 0);
    else
        CHECK_ERR(shmctl(other, IPC_STAT, &(struct shmid_ds){0}), EACCES);
    other = new_shm(key(2), PAGE, 0777);
    CHECK_IS(about(other).shm_perm.mode & 01777, 0777);
    other = shmget(key(3), PAGE, IPC_CREAT | 0640); /* the first IPC_CREAT makes it */
    CHECK(keep_shm(other) >= 0);
    CHECK_IS(about(other).shm_perm.mode & 01777, 0640);
}

static void stat(void)
{
    time_t before = time(NULL);
    int id = new_shm(key(0), 100, 0620);
    struct shmid_ds stat = about(id);
    char *at;

    CHECK_IS(stat.shm_segsz, 100);
    CHECK_IS(stat.shm_perm.mode, 0620);
    CHECK_IS(stat.shm_perm.__key, key(0));
    CHECK_IS(stat.shm_perm.uid, geteuid());
    CHECK_IS(stat.shm_perm.gid, getegid());
    CHECK_IS(stat.shm_perm.cuid, geteuid());
    CHECK_IS(stat.shm_perm.cgid, getegid());
    CHECK_IS(stat.shm_cpid, getpid());
    CHECK_IS(stat.shm_lpid, 0);
    CHECK_IS(stat.shm_nattch, 0);
    CHECK_IS(stat.shm_atime, 0);
    CHECK_IS(stat.shm_dtime, 0);
    CHECK(stat.shm_ctime >= before - 1 && stat.shm_ctime <= time(NULL) + 1);
    at = attach(id, 0);
    stat = about(id);
    CHECK_IS(stat.shm_nattch, 1);
    CHECK_IS(stat.shm_lpid, getpid());
    CHECK(stat.shm_atime >= before - 1 && stat.shm_atime <= time(NULL) + 1);
    CHECK_IS(stat.shm_dtime, 0);
    CHECK_OK(shmdt(at));
    stat = about(id);
    CHECK_IS(stat.shm_nattch, 0);
    CHECK(stat.shm_dtime >= before - 1 && stat.shm_dtime <= time(NULL) + 1);
    CHECK_ERR(shmctl(id, IPC_STAT, (struct shmid_ds *)8), EFAULT);
    CHECK_ERR(shmctl(-1, IPC_STAT, &stat), EINVAL);
    CHECK_ERR(shmctl(INT_MAX, IPC_STAT, &stat), EINVAL);
    CHECK_ERR(shmctl(id, 12345, &stat), EINVAL);
    CHECK_ERR(shmctl(-1, IPC_RMID, NULL), EINVAL);
}

static void set(void)
{
    int id = new_shm(key(0), PAGE, 0600);
    struct shmid_ds stat = about(id);

    stat.shm_perm.mode = 0644;
    stat.shm_segsz = 12345;
    stat.shm_nattch = 7;
    CHECK_OK(shmctl(id, IPC_SET, &stat));
    stat = about(id);
    CHECK_IS(stat.shm_perm.mode & 01777, 0644);
    CHECK_IS(stat.shm_segsz, PAGE);
    CHECK_IS(stat.shm_nattch, 0);
    stat.shm_perm.uid = stat.shm_perm.gid = 65534;
    if (geteuid() == 0) {
        CHECK_OK(shmctl(id, IPC_SET, &stat));
        stat = about(id);
        CHECK_IS(stat.shm_perm.uid, 65534);
        CHECK_IS(stat.shm_perm.gid, 65534);
        CHECK_IS(stat.shm_perm.cuid, 0);
    }
    CHECK_ERR(shmctl(id, IPC_SET, NULL), EFAULT);
    CHECK_OK(shmctl(id, SHM_LOCK, NULL));
    CHECK((about(id).shm_perm.mode & 02000) != 0); /* SHM_LOCKED */
    CHECK_OK(shmctl(id, SHM_UNLOCK, NULL));
    CHECK_IS(about(id).shm_perm.mode & 02000, 0);
}

static void information(void)
{
    int id = new_shm(key(0), PAGE, 0600), highest, found = 0;
    struct shminfo limits;
    struct shm_info used;
    struct shmid_ds stat;

    highest = shmctl(0, IPC_INFO, (struct shmid_ds *)&limits);
    CHECK(highest >= 0);
    CHECK(limits.shmmax >= PAGE && limits.shmmin >= 1 && limits.shmmni >= 1);
    highest = shmctl(0, SHM_INFO, (struct shmid_ds *)&used);
    CHECK(highest >= 0);
    CHECK(used.used_ids >= 1);
    CHECK(used.shm_tot >= 1);
    for (int i = 0; i <= highest; i++)
        if (shmctl(i, SHM_STAT, &stat) == id)
            found += stat.shm_perm.__key == key(0);
    CHECK_IS(found, 1);
}

static void attach_where(void)
{
    int id = new_shm(key(0), 2 * PAGE, 0600);
    char *room = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at, *again;

    CHECK_ERR(shmat(-1, NULL, 0), EINVAL);
    CHECK_ERR(shmat(INT_MAX, NULL, 0), EINVAL);
    CHECK_ERR(shmat(id, NULL, SHM_REMAP), EINVAL);
    CHECK_ERR(shmat(id, room + 4 * PAGE, 0), EINVAL); /* something is there */
    CHECK_OK(munmap(room, 16 * PAGE));
    CHECK_ERR(shmat(id, room + 4 * PAGE + 1, 0), EINVAL);
    CHECK_ERR(shmat(id, room + 4 * PAGE + 2048, 0), EINVAL);
    CHECK_IS(attaches(id), 0);
    at = shmat(id, room + 4 * PAGE, 0);
    CHECK(at == room + 4 * PAGE);
    again = shmat(id, room + 8 * PAGE + 123, SHM_RND);
    CHECK(again == room + 8 * PAGE);
    CHECK_IS(attaches(id), 2);
    at[5] = 77;
    CHECK_IS(again[5], 77);
    CHECK_ERR(shmat(id, room + 5 * PAGE, 0), EINVAL); /* over the first one's second page */
    CHECK_ERR(shmdt(at + 1), EINVAL);
    CHECK_ERR(shmdt(at + PAGE), EINVAL);
    CHECK_OK(shmdt(at));
    CHECK_ERR(shmdt(at), EINVAL);
    CHECK_IS(attaches(id), 1);
    CHECK_IS(signal_of_read(at), SIGSEGV);
    CHECK_IS(again[5], 77);
    /* Over the attach itself: the old one is gone, and the count stays. */
    at = shmat(id, again, SHM_REMAP);
    CHECK(at == again);
    CHECK_IS(attaches(id), 1);
    CHECK_IS(at[5], 77);
    CHECK_OK(shmdt(at));
    CHECK_IS(attaches(id), 0);
    /* Over a private mapping. */
    at = mmap(room, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(at == room);
    at[5] = 1;
    CHECK(shmat(id, room, SHM_REMAP) == room);
    CHECK_IS(room[5], 77);
    CHECK_OK(shmdt(room));
    CHECK_ERR(shmdt(NULL), EINVAL);
    at = shmat(id, NULL, SHM_RND);
    CHECK(at != (void *)-1);
    CHECK_IS((uintptr_t)at % PAGE, 0);
    CHECK_OK(shmdt(at));
}

static void contents(void)
{
    int id = new_shm(key(0), PAGE + 1, 0600);
    volatile char *at = attach(id, 0);
    long sum = 0;

    for (int i = 0; i < 2 * PAGE; i++)
        sum += at[i] != 0;
    CHECK_IS(sum, 0);
    CHECK_IS(signal_of_write(&at[PAGE + 1]), 0); /* all of the last page */
    CHECK_IS(signal_of_write(&at[2 * PAGE - 1]), 0);
    at[2 * PAGE - 1] = 9;
    CHECK_IS(run_other(reads, id, 2 * PAGE - 1, 9), 0);
    CHECK_IS(run_other(writes, id, 17, 99), 0);
    CHECK_IS(at[17], 99);
    CHECK_IS(run_other(reads, id, 17, 99), 0);
    CHECK_OK(shmdt((void *)(uintptr_t)at));
    at = attach(id, 0); /* nobody is attached in between: it is all still there */
    CHECK_IS(at[17], 99);
    CHECK_IS(at[2 * PAGE - 1], 9);
    CHECK_OK(shmctl(id, IPC_RMID, NULL));
    at = attach(new_shm(key(0), PAGE + 1, 0600), 0);
    CHECK_IS(at[17], 0);
}

static long writes_a_quarter(long id, long which, long unused)
{
    volatile unsigned char *seg = shmat((int)id, NULL, 0);

    (void)unused;
    if (seg == (void *)-1)
        return 100;
    for (int round = 1; round <= 50; round++)
        for (long i = which; i < 4 * PAGE; i += 4) {
            if (seg[i] != round - 1)
                return 1;
            seg[i] = (unsigned char)round;
        }
    return 0;
}

static void many_writers(void)
{
    int id = new_shm(key(0), 4 * PAGE, 0600);
    volatile unsigned char *seg = attach(id, 0);
    struct helper helper[4];
    long wrong = 0;

    for (int i = 0; i < 4; i++)
        helper[i] = i % 2 ? start_here(writes_a_quarter, id, i, 0) : start(writes_a_quarter, id, i, 0);
    for (int i = 0; i < 4; i++)
        CHECK_IS(finish(helper[i]), 0);
    for (long i = 0; i < 4 * PAGE; i++)
        wrong += seg[i] != 50;
    CHECK_IS(wrong, 0);
}

static void read_only(void)
{
    int id = new_shm(key(0), PAGE, 0600);
    char *ro = attach(id, SHM_RDONLY), *rw = attach(id, 0);

    CHECK_IS(signal_of_read(ro), 0);
    CHECK_IS(signal_of_write(ro), SIGSEGV);
    CHECK_IS(signal_of_write(rw), 0);
    rw[0] = 5;
    CHECK_IS(ro[0], 5);
    CHECK_IS(run_other(writes, id, 0, 6), 0);
    CHECK_IS(*(volatile char *)ro, 6);
    CHECK_IS(signal_of_write(ro), SIGSEGV);
    CHECK_ERR(mprotect(ro, PAGE, PROT_READ | PROT_WRITE), EACCES);
    CHECK_IS(attaches(id), 2);
#ifdef __x86_64__
    {
        static const unsigned char returns_7[] = {0xb8, 7, 0, 0, 0, 0xc3};
        union {
            char *bytes;
            int (*call)(void);
        } code;

        memcpy(rw, returns_7, sizeof returns_7);
        code.bytes = shmat(id, NULL, SHM_RDONLY | SHM_EXEC);
        CHECK(code.bytes != (void *)-1 || errno == EACCES); /* the mode has no x */
        if (code.bytes != (void *)-1)
            CHECK_IS(code.call(), 7);
    }
#endif
}

static void removal(void)
{
    int id = new_shm(key(0), PAGE, 0600), second;
    volatile char *at = attach(id, 0), *again;
    struct shmid_ds stat;

    at[0] = 42;
    CHECK_OK(shmctl(id, IPC_RMID, NULL));
    stat = about(id);
    CHECK_IS(stat.shm_perm.mode & 01000, 01000);
    CHECK_IS(stat.shm_perm.mode & 0777, 0600);
    CHECK_IS(stat.shm_perm.__key, 0);
    CHECK_IS(stat.shm_nattch, 1);
    CHECK_ERR(shmget(key(0), PAGE, 0), ENOENT);
    CHECK_IS(at[0], 42);
    CHECK_IS(run_other(reads, id, 0, 42), 0); /* attaches by identifier */
    CHECK_IS(run_other(writes, id, 1, 43), 0);
    CHECK_IS(at[1], 43);
    again = shmat(id, NULL, 0);
    CHECK(again != (void *)-1);
    CHECK_IS(again[0], 42);
    CHECK_OK(shmctl(id, IPC_RMID, NULL)); /* once more */
    second = new_shm(key(0), PAGE, 0600);
    CHECK(second != id);
    CHECK_IS(run_other(reads, second, 0, 0), 0);
    CHECK_OK(shmdt((void *)(uintptr_t)again));
    CHECK_IS(about(id).shm_nattch, 1);
    CHECK_OK(shmdt((void *)(uintptr_t)at));
    CHECK_GONE(shmctl(id, IPC_STAT, &stat));
    CHECK_GONE(shmat(id, NULL, 0));
    CHECK_IS(run_other(attach_errno, id, 0, 0), EINVAL);
    CHECK_GONE(shmctl(id, IPC_RMID, NULL));
    CHECK_OK(shmctl(second, IPC_RMID, NULL)); /* nobody attached: at once */
    CHECK_GONE(shmctl(second, IPC_STAT, &stat));
    CHECK_ERR(shmget(key(0), PAGE, 0), ENOENT);
    /* The one who is attached last is another process, and is killed. */
    id = new_shm(key(0), PAGE, 0600);
    at = attach(id, 0);
    {
        struct helper helper = start(stays, id, 0, 0);

        CHECK(await_word((volatile int *)at, 1));
        CHECK_OK(shmctl(id, IPC_RMID, NULL));
        CHECK_OK(shmdt((void *)(uintptr_t)at));
        CHECK_IS(about(id).shm_nattch, 1);
        send_signal(helper, SIGKILL);
        CHECK_IS(finish(helper), -SIGKILL);
        CHECK_GONE(shmctl(id, IPC_STAT, &stat));
    }
}

static void counting(void)
{
    int id = new_shm(key(0), 4 * PAGE, 0600);
    volatile int *at = attach(id, 0);
    struct helper helper;

    helper = start(stays, id, 0, 0);
    CHECK(await_word(at, 1));
    CHECK_IS(attaches(id), 2);
    CHECK_IS(about(id).shm_lpid, helper.pid);
    at[1] = 1;
    CHECK_IS(finish(helper), 0); /* exits attached */
    CHECK_IS(attaches(id), 1);
    at[0] = at[1] = 0;
    helper = start(stays, id, 0, 1);
    CHECK(await_word(at, 1));
    CHECK_IS(attaches(id), 2);
    at[1] = 1;
    CHECK_IS(finish(helper), 0); /* detached */
    CHECK_IS(attaches(id), 1);
    CHECK_IS(about(id).shm_lpid, helper.pid);
    at[0] = at[1] = 0;
    helper = start(stays, id, 0, 0);
    CHECK(await_word(at, 1));
    send_signal(helper, SIGKILL);
    CHECK_IS(finish(helper), -SIGKILL);
    CHECK_IS(attaches(id), 1);
    /* Part of an attach unmapped: it still counts; all of it: it does not. */
    CHECK_OK(munmap((char *)(uintptr_t)at + PAGE, PAGE));
    CHECK(attaches(id) >= 1); /* Linux counts mappings, and these are two now */
    CHECK_IS(signal_of_read((char *)(uintptr_t)at + PAGE), SIGSEGV);
    CHECK_IS(signal_of_write((char *)(uintptr_t)at + 2 * PAGE), 0);
    CHECK_OK(shmdt((void *)(uintptr_t)at));
    CHECK_IS(attaches(id), 0);
    CHECK_IS(signal_of_read((char *)(uintptr_t)at + 2 * PAGE), SIGSEGV);
    at = attach(id, 0);
    CHECK_OK(munmap((void *)(uintptr_t)at, 4 * PAGE));
    CHECK_IS(attaches(id), 0);
    at = attach(id, 0);
    CHECK_OK(munmap((char *)(uintptr_t)at + 3 * PAGE, PAGE));
    CHECK_IS(attaches(id), 1); /* its end cut off: one piece */
    CHECK_IS(signal_of_write((char *)(uintptr_t)at + 2 * PAGE), 0);
    CHECK_OK(shmdt((void *)(uintptr_t)at));
    CHECK_IS(attaches(id), 0);
}

static void protection(void)
{
    int id = new_shm(key(0), 4 * PAGE, 0600);
    volatile char *at = attach(id, 0);
    char *plain = (char *)(uintptr_t)at;

    at[PAGE] = 1;
    CHECK_OK(mprotect(plain + PAGE, PAGE, PROT_READ));
    CHECK_IS(signal_of_write(plain + PAGE), SIGSEGV);
    CHECK_IS(signal_of_write(plain), 0);
    CHECK_IS(signal_of_write(plain + 2 * PAGE), 0);
    CHECK_IS(run_other(writes, id, PAGE, 2), 0); /* not protected there */
    CHECK_IS(at[PAGE], 2);
    CHECK_IS(signal_of_write(plain + PAGE), SIGSEGV);
    CHECK_OK(mprotect(plain + PAGE, PAGE, PROT_NONE));
    CHECK_IS(signal_of_read(plain + PAGE), SIGSEGV);
    CHECK_IS(run_other(writes, id, PAGE, 3), 0);
    CHECK_IS(signal_of_read(plain + PAGE), SIGSEGV);
    CHECK_OK(mprotect(plain + PAGE, PAGE, PROT_READ | PROT_WRITE));
    CHECK_IS(at[PAGE], 3);
    CHECK_IS(signal_of_write(plain + PAGE), 0);
    at[PAGE] = 4;
    CHECK_IS(run_other(reads, id, PAGE, 4), 0);
}

static void advice(void)
{
    int id = new_shm(key(0), 4 * PAGE, 0600);
    volatile char *at = attach(id, 0);
    char *plain = (char *)(uintptr_t)at;
    unsigned char resident[4];

    for (int i = 0; i < 4; i++)
        at[i * PAGE] = (char)(i + 1);
    CHECK_OK(madvise(plain, 4 * PAGE, MADV_DONTNEED));
    for (int i = 0; i < 4; i++)
        CHECK_IS(at[i * PAGE], i + 1);
    CHECK_OK(madvise(plain, 4 * PAGE, MADV_DONTNEED));
    CHECK_IS(run_other(reads, id, 3 * PAGE, 4), 0);
    CHECK_IS(run_other(writes, id, 3 * PAGE, 5), 0);
    CHECK_OK(madvise(plain, 4 * PAGE, MADV_DONTNEED));
    CHECK_IS(at[3 * PAGE], 5);
    CHECK_OK(madvise(plain, 4 * PAGE, MADV_WILLNEED));
    CHECK_OK(madvise(plain, 4 * PAGE, MADV_RANDOM));
    CHECK_OK(msync(plain, 4 * PAGE, MS_SYNC));
    CHECK_OK(mincore(plain, 4 * PAGE, resident));
    CHECK_OK(mlock(plain, PAGE));
    CHECK_OK(munlock(plain, PAGE));
    CHECK_IS(at[0], 1);
    CHECK_IS(run_other(writes, id, 0, 9), 0);
    CHECK_IS(at[0], 9);
}

static long checks_sparse(long id, long step, long bytes)
{
    volatile unsigned char *seg = shmat((int)id, NULL, 0);
    long wrong = 0;

    if (seg == (void *)-1)
        return 100;
    for (long at = 0; at < bytes; at += step) {
        wrong += seg[at] != (unsigned char)(at / step + 1);
        wrong += seg[at + PAGE] != 0;
        seg[at + 1] = (unsigned char)(at / step + 2);
    }
    return wrong != 0;
}

static void large(void)
{
    const long bytes = 64L << 20, step = 1L << 20;
    int id = new_shm(key(0), (size_t)bytes, 0600);
    volatile unsigned char *seg = attach(id, 0);
    long wrong = 0;

    for (long at = 0; at < bytes; at += step)
        seg[at] = (unsigned char)(at / step + 1);
    CHECK_IS(run_other(checks_sparse, id, step, bytes), 0);
    for (long at = 0; at < bytes; at += step)
        wrong += seg[at] != (unsigned char)(at / step + 1) || seg[at + 1] != (unsigned char)(at / step + 2);
    CHECK_IS(wrong, 0);
    seg[bytes - 1] = 3;
    CHECK_IS(run_other(reads, id, bytes - 1, 3), 0);
}

static long checks_many(long count, long unused, long unused_too)
{
    (void)unused;
    (void)unused_too;
    for (int i = 0; i < count; i++) {
        volatile int *at = shmat(shmget(key(i), 0, 0), NULL, 0);

        if (at == (void *)-1)
            return 100;
        if (at[0] != i + 1)
            return 1;
        at[1] = i + 2;
        if (i % 2 && shmdt((void *)(uintptr_t)at) < 0)
            return 2;
    }
    return 0;
}

static void many_segments(void)
{
    enum { COUNT = 200 };
    int id[COUNT];
    volatile int *at[COUNT];
    long wrong = 0;

    for (int i = 0; i < COUNT; i++) {
        id[i] = new_shm(key(i), (size_t)(1 + i % 3) * PAGE, 0600);
        at[i] = attach(id[i], 0);
        at[i][0] = i + 1;
    }
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < i; j++)
            wrong += id[i] == id[j] || at[i] == at[j];
    CHECK_IS(wrong, 0);
    CHECK_IS(run_other(checks_many, COUNT, 0, 0), 0);
    for (int i = 0; i < COUNT; i++)
        wrong += at[i][0] != i + 1 || at[i][1] != i + 2 || attaches(id[i]) != 1;
    CHECK_IS(wrong, 0);
    for (int i = 0; i < COUNT; i++)
        wrong += shmdt((void *)(uintptr_t)at[i]) != 0 || attaches(id[i]) != 0;
    CHECK_IS(wrong, 0);
    for (int i = 0; i < COUNT; i++)
        wrong += shmctl(id[i], IPC_RMID, NULL) != 0;
    CHECK_IS(wrong, 0);
}

static void many_attaches(void)
{
    enum { COUNT = 100 };
    int id = new_shm(key(0), 2 * PAGE, 0600);
    volatile int *at[COUNT];
    long wrong = 0;

    for (int i = 0; i < COUNT; i++)
        at[i] = attach(id, i % 4 == 3 ? SHM_RDONLY : 0);
    CHECK_IS(attaches(id), COUNT);
    for (int i = 0; i < COUNT; i++) {
        if (i % 4 != 3)
            at[i][i] = i + 1;
        wrong += at[(i * 7 + 3) % COUNT][i] != (i % 4 == 3 ? 0 : i + 1);
    }
    CHECK_IS(wrong, 0);
    CHECK_IS(run_other(writes, id, 4000, 11), 0);
    for (int i = 0; i < COUNT; i++)
        wrong += ((volatile char *)at[i])[4000] != 11;
    CHECK_IS(wrong, 0);
    for (int i = 0; i < COUNT; i += 2)
        wrong += shmdt((void *)(uintptr_t)at[i]) != 0;
    CHECK_IS(wrong, 0);
    CHECK_IS(attaches(id), COUNT / 2);
    CHECK_IS(run_other(writes, id, 4000, 12), 0);
    for (int i = 1; i < COUNT; i += 2)
        wrong += ((volatile char *)at[i])[4000] != 12;
    CHECK_IS(wrong, 0);
}

static long counts_inherited(long address, long unused, long unused_too)
{
    volatile int *at = (volatile int *)address;

    (void)unused;
    (void)unused_too;
    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add(&at[i % 2 ? 0 : 1024], 1, __ATOMIC_SEQ_CST);
    at[5] = 55;
    return shmdt((void *)address) == 0 ? 0 : 1;
}

static void after_fork(void)
{
    int id = new_shm(key(0), 2 * PAGE, 0600);
    volatile int *at = attach(id, 0);
    struct helper helper = start_here(counts_inherited, (long)at, 0, 0);

    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add(&at[i % 2 ? 0 : 1024], 1, __ATOMIC_SEQ_CST);
    CHECK_IS(finish(helper), 0);
    CHECK_IS(at[0], 1000);
    CHECK_IS(at[1024], 1000);
    CHECK_IS(at[5], 55);
    CHECK_IS(attaches(id), 1); /* the child's shmdt took nothing from us */
    at[6] = 66;
    CHECK_IS(run_other(reads, id, 6 * (long)sizeof(int), 66), 0);
}

void shm_sections(void)
{
    section("shmget", get);
    section("shmctl IPC_STAT", stat);
    section("shmctl IPC_SET", set);
    section("shmctl SHM_INFO", information);
    section("shmat addresses", attach_where);
    section("shm contents", contents);
    section("shm many writers", many_writers);
    section("shm SHM_RDONLY", read_only);
    section("shmctl IPC_RMID", removal);
    section("shm_nattch", counting);
    section("shm mprotect", protection);
    section("shm madvise", advice);
    section("shm 64 MiB", large);
    section("shm 200 segments", many_segments);
    section("shm 100 attaches", many_attaches);
    section("shm fork", after_fork);
}
