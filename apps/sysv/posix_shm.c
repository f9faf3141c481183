/*
 * posix_shm.c - POSIX shared memory: shm_open, ftruncate, mmap of all and of parts of an object, fstat, dup, fork, munmap of
 * parts, shm_unlink, errno for errno. Rank 0 checks alone first; then all write one object, through mappings of their own.
 */
#include "common.h"

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { NAMES = 4, PAGES = 16, BYTES = PAGES * PAGE, WORDS = BYTES / (int)sizeof(long) };

static char name_[NAMES][64];
static int checks;
static long rounds = 50;

static const char *name(int n)
{
    if (name_[n][0] == '\0')
        snprintf(name_[n], sizeof name_[n], "/multigrain-%x-%d", (unsigned)job.key, n);
    return name_[n];
}

static void unlink_names(void)
{
    for (int i = 0; i < NAMES; i++)
        shm_unlink(name(i));
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

static long try_open(const char *what, int flags, mode_t mode)
{
    int d = shm_open(what, flags, mode);

    return d < 0 ? -1 : close(d);
}

static int must_open(const char *what, int flags)
{
    int d = shm_open(what, flags, 0600);

    if (d < 0)
        fail_errno(what);
    return d;
}

static void *must_map(void *at, size_t bytes, int protection, int flags, int d, off_t offset)
{
    void *p = mmap(at, bytes, protection, flags, d, offset);

    if (p == MAP_FAILED)
        fail_errno("mmap");
    return p;
}

static long *map_words(int d, int protection)
{
    return must_map(NULL, BYTES, protection, MAP_SHARED, d, 0);
}

static void must_unmap(void *p, size_t bytes)
{
    CHECK_IS(munmap(p, bytes), 0);
}

static int sized(const char *what)
{
    int d = must_open(what, O_CREAT | O_EXCL | O_RDWR);

    CHECK_IS(ftruncate(d, BYTES), 0);
    return d;
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
    CHECK_ERR(try_open("", O_CREAT | O_RDWR, 0600), EINVAL);
    CHECK_ERR(try_open("/", O_CREAT | O_RDWR, 0600), EINVAL);
    CHECK_ERR(try_open("/a/b", O_CREAT | O_RDWR, 0600), EINVAL);
    CHECK_ERR(shm_unlink(""), ENOENT);
    CHECK_ERR(shm_unlink("/a/b"), ENOENT);
    CHECK_ERR(shm_unlink(name(0)), ENOENT);
    CHECK_ERR(try_open(name(0), O_RDWR, 0600), ENOENT);
    CHECK_IS(try_open(name(0) + 1, O_CREAT | O_RDWR, 0600), 0);
    CHECK_IS(try_open(name(0), O_RDONLY, 0), 0);
    CHECK_IS(try_open(name(0), O_CREAT | O_RDWR, 0600), 0);
    CHECK_ERR(try_open(name(0), O_CREAT | O_EXCL | O_RDWR, 0600), EEXIST);
    CHECK_IS(shm_unlink(name(0)), 0);
    CHECK_ERR(shm_unlink(name(0)), ENOENT);
}

static void sizes(void)
{
    mode_t mask = umask(027);
    int d = shm_open(name(0), O_CREAT | O_EXCL | O_RDWR, 0666), reads;
    struct stat about, copy;

    umask(mask);
    CHECK(d >= 0);
    CHECK_IS(fcntl(d, F_GETFD), FD_CLOEXEC);
    CHECK_IS(fstat(d, &about), 0);
    CHECK_IS(about.st_size, 0);
    CHECK(S_ISREG(about.st_mode));
    CHECK_IS(about.st_mode & 0777, 0640);
    CHECK_IS(about.st_uid, geteuid());
    CHECK_ERR(ftruncate(d, -1), EINVAL);
    reads = must_open(name(0), O_RDONLY);
    CHECK_ERR(ftruncate(reads, 5000), EINVAL);
    CHECK_IS(ftruncate(d, 5000), 0);
    CHECK_IS(ftruncate(d, 5000), 0);
    CHECK_IS(fstat(d, &about), 0);
    CHECK_IS(about.st_size, 5000);
    CHECK_IS(fstat(reads, &copy), 0);
    CHECK_IS(copy.st_size, 5000);
    CHECK_IS(fstat(dup(d), &copy), 0);
    CHECK(copy.st_ino == about.st_ino && copy.st_dev == about.st_dev);
    CHECK_IS(close(reads), 0);
    CHECK_IS(close(d), 0);
    CHECK_IS(shm_unlink(name(0)), 0);
    d = must_open(name(0), O_CREAT | O_EXCL | O_RDWR);
    CHECK_IS(posix_fallocate(d, 0, 3 * PAGE), 0);
    CHECK_IS(posix_fallocate(d, 0, 3 * PAGE), 0);
    CHECK_IS(fstat(d, &about), 0);
    CHECK_IS(about.st_size, 3 * PAGE);
    CHECK_IS(close(d), 0);
    CHECK_ERR(ftruncate(d, 1), EBADF);
    CHECK_IS(posix_fallocate(d, 0, 1), EBADF);
    CHECK_IS(shm_unlink(name(0)), 0);
}

static long try_map(size_t bytes, int protection, int flags, int d, off_t offset)
{
    void *p = mmap(NULL, bytes, protection, flags, d, offset);

    return p == MAP_FAILED ? -1 : munmap(p, bytes);
}

static sigjmp_buf back;

static void jump(int number)
{
    siglongjmp(back, number);
}

/* The signal that a write meets, or 0. */
static int signal_of_write(volatile long *at)
{
    struct sigaction action = {.sa_handler = jump}, before;
    int met;

    sigaction(SIGSEGV, &action, &before);
    met = sigsetjmp(back, 1);
    if (met == 0)
        *at = *at + 1;
    sigaction(SIGSEGV, &before, NULL);
    return met;
}

static void mappings(void)
{
    int d = sized(name(0)), reads = must_open(name(0), O_RDONLY), other = dup(d);
    long *all, *again, *part, *read_only, *private;

    CHECK_ERR(try_map(0, PROT_READ, MAP_SHARED, d, 0), EINVAL);
    CHECK_ERR(try_map(PAGE, PROT_READ, MAP_SHARED, d, 1), EINVAL);
    CHECK_ERR(try_map(PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, reads, 0), EACCES);
    CHECK_ERR(try_map(PAGE, PROT_READ, MAP_SHARED, -1, 0), EBADF);
    CHECK_IS(try_map(PAGE, PROT_READ, MAP_SHARED, reads, 0), 0);
    CHECK_IS(try_map(5, PROT_READ | PROT_WRITE, MAP_SHARED, d, 2 * PAGE), 0);
    all = map_words(d, PROT_READ | PROT_WRITE);
    again = map_words(other, PROT_READ | PROT_WRITE);
    CHECK_IS(close(d), 0);
    CHECK(all != again);
    for (int i = 0; i < WORDS; i++)
        CHECK(all[i] == 0);
    for (int i = 0; i < WORDS; i += 100) {
        all[i] = i + 1;
        CHECK(again[i] == i + 1);
    }
    part = must_map(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 5 * PAGE);
    for (int i = 0; i < 3 * PAGE / (int)sizeof(long); i++) {
        CHECK(part[i] == again[i + 5 * PAGE / (int)sizeof(long)]);
        part[i] = -i;
        CHECK(all[i + 5 * PAGE / (int)sizeof(long)] == -i);
    }
    read_only = map_words(reads, PROT_READ);
    CHECK_IS(signal_of_write(read_only), SIGSEGV);
    CHECK_IS(read_only[0], 1);
    CHECK_ERR(mprotect(read_only, PAGE, PROT_READ | PROT_WRITE), EACCES);
    must_unmap(read_only, BYTES);
    read_only = map_words(other, PROT_READ);
    CHECK_IS(signal_of_write(read_only), SIGSEGV);
    CHECK_IS(mprotect(read_only, PAGE, PROT_READ | PROT_WRITE), 0);
    CHECK_IS(signal_of_write(read_only), 0);
    CHECK_IS(all[0], 2);
    must_unmap(read_only, BYTES);
    /* A hole in the middle; the rest stays what it was. */
    must_unmap((char *)again + 4 * PAGE, 8 * PAGE);
    all[0] = 7;
    all[WORDS - 1] = 8;
    CHECK_IS(again[0], 7);
    CHECK_IS(again[WORDS - 1], 8);
    again[1] = 9;
    again[WORDS - 2] = 10;
    CHECK_IS(all[1], 9);
    CHECK_IS(all[WORDS - 2], 10);
    /* Other pages where there is a hole, and where there is none. */
    part = must_map((char *)again + 4 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, other, PAGE);
    part[3] = 11;
    CHECK_IS(all[PAGE / (int)sizeof(long) + 3], 11);
    part = must_map(again, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, other, 9 * PAGE);
    part[3] = 12;
    CHECK_IS(all[9 * PAGE / (int)sizeof(long) + 3], 12);
    CHECK(all[3] != 12);
    must_unmap(again, BYTES);
    private = must_map(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, reads, 0);
    CHECK_IS(private[1], 9);
    private[1] = 13;
    CHECK_IS(all[1], 9);
    must_unmap(private, BYTES);
    must_unmap(all, BYTES);
    all = map_words(other, PROT_READ);
    CHECK_IS(all[1], 9); /* it keeps what was written */
    must_unmap(all, BYTES);
    CHECK_IS(close(other), 0);
    CHECK_IS(close(reads), 0);
    CHECK_IS(shm_unlink(name(0)), 0);
}

/* Without a name it lives: by its descriptor, then by its mapping; and a child has both. */
static void forked(void)
{
    int d = must_open(name(0), O_CREAT | O_EXCL | O_RDWR);
    long *all;
    pid_t child;

    CHECK_IS(shm_unlink(name(0)), 0);
    CHECK_ERR(try_open(name(0), O_RDWR, 0), ENOENT);
    CHECK_IS(ftruncate(d, BYTES), 0);
    for (int turn = 0; turn < 2; turn++) {
        child = must_fork();
        if (child == 0) {
            long *mine = map_words(d, PROT_READ | PROT_WRITE);

            __atomic_fetch_add(&mine[turn], 5, __ATOMIC_SEQ_CST);
            _exit(0);
        }
        reap(child);
    }
    all = map_words(d, PROT_READ | PROT_WRITE);
    CHECK_IS(all[0], 5);
    CHECK_IS(all[1], 5);
    CHECK_IS(close(d), 0);
    for (int i = 0; i < 4; i++) {
        child = must_fork();
        if (child == 0) {
            for (int word = 0; word < WORDS; word += 64)
                __atomic_fetch_add(&all[word], 1, __ATOMIC_SEQ_CST);
            _exit(0);
        }
        for (int word = 0; word < WORDS; word += 64)
            __atomic_fetch_add(&all[word], 1, __ATOMIC_SEQ_CST);
        reap(child);
    }
    CHECK_IS(all[0], 13);
    CHECK_IS(all[64], 8);
    must_unmap(all, BYTES);
}

static int as_nobody(void)
{
    if (setgid(65534) < 0 || setuid(65534) < 0)
        return 1;
    CHECK_ERR(try_open(name(0), O_RDONLY, 0), EACCES);
    CHECK_IS(try_open(name(1), O_RDONLY, 0), 0);
    CHECK_ERR(try_open(name(1), O_RDWR, 0), EACCES);
    CHECK_ERR(shm_unlink(name(1)), EACCES);
    return 0;
}

static void rights(void)
{
    pid_t child;

    if (geteuid() != 0)
        return;
    CHECK_IS(try_open(name(0), O_CREAT | O_EXCL | O_RDWR, 0600), 0);
    CHECK_IS(try_open(name(1), O_CREAT | O_EXCL | O_RDWR, 0644), 0);
    child = must_fork();
    if (child == 0)
        _exit(as_nobody());
    reap(child);
    CHECK_IS(shm_unlink(name(0)), 0);
    CHECK_IS(shm_unlink(name(1)), 0);
}

/* Many that come and go: nothing of them stays. */
static void many(void)
{
    for (int i = 0; i < 20; i++) {
        int d = sized(name(0));
        long *all = map_words(d, PROT_READ | PROT_WRITE);

        CHECK_IS(shm_unlink(name(0)), 0);
        CHECK_IS(close(d), 0);
        for (int word = 0; word < WORDS; word += 512) {
            CHECK(all[word] == 0);
            all[word] = 1;
        }
        must_unmap(all, BYTES);
    }
}

int main(int argc, char **argv)
{
    int option, d;
    long *all, *half, sum = 0;

    job_name(argv[0]);
    while ((option = getopt(argc, argv, JOB_OPTIONS "r:")) != -1) {
        if (option == 'r')
            rounds = number(optarg, 1);
        else if (!job_option(option))
            usage("[-r ROUNDS]");
    }
    job.removes = unlink_names;
    meet(1, 0, 0, NULL);
    if (job.rank == 0) {
        names();
        sizes();
        mappings();
        forked();
        rights();
        many();
    }
    barrier();
    /* Whoever is first makes it; all give it the same size. */
    d = must_open(name(2), O_CREAT | O_RDWR);
    CHECK_IS(ftruncate(d, BYTES), 0);
    all = map_words(d, PROT_READ | PROT_WRITE);
    half = must_map(NULL, BYTES / 2, PROT_READ | PROT_WRITE, MAP_SHARED, d, BYTES / 2);
    CHECK_IS(close(d), 0);
    barrier();
    if (job.rank == 0)
        CHECK_IS(shm_unlink(name(2)), 0);
    barrier();
    CHECK_ERR(try_open(name(2), O_RDWR, 0), ENOENT);
    for (long round = 0; round < rounds; round++)
        for (int page = 0; page < PAGES; page++) {
            int word = page * (WORDS / PAGES);

            __atomic_fetch_add(&all[word], 1, __ATOMIC_SEQ_CST);
            if (page < PAGES / 2)
                __atomic_fetch_add(&half[word + 1], 1, __ATOMIC_SEQ_CST);
            all[word + 2 + job.rank] += round; /* nobody else's */
        }
    barrier();
    for (int page = 0; page < PAGES; page++) {
        int word = page * (WORDS / PAGES);

        CHECK_IS(all[word], rounds * job.all);
        CHECK_IS(all[word + 1], page < PAGES / 2 ? 0 : rounds * job.all);
        for (int rank = 0; rank < job.all; rank++)
            sum += all[word + 2 + rank];
    }
    CHECK_IS(sum, rounds * (rounds - 1) / 2 * PAGES * job.all);
    barrier();
    must_unmap(half, BYTES / 2);
    must_unmap(all, BYTES);
    barrier();
    if (job.rank == 0)
        printf("posix_shm: %d processes, %ld rounds, %d checks of rank 0: ok\n", job.all, rounds, checks);
    return part();
}
