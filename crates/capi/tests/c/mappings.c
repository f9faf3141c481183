/*
 * What a program maps and unmaps itself: the calls of the C library refuse shared memory and leave it as it
 * is; a system call of its own, "unmap" or "move", is named at the next touch, or as another node asks
 * for the bytes ("asked").
 */
#include "check.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096u
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

static void refused(char *shared, char *own)
{
    CHECK(munmap(shared, PAGE) == -1 && errno == EACCES);
    CHECK(munmap(shared - PAGE, 64 * PAGE) == -1 && errno == EACCES);
    errno = 0;
    CHECK(mmap(shared, PAGE, PROT_READ | PROT_WRITE, PRIVATE | MAP_FIXED, -1, 0) == MAP_FAILED);
    CHECK(errno == EACCES);
    errno = 0;
    CHECK(mmap(shared, PAGE, PROT_READ, PRIVATE | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    CHECK(errno == EEXIST);
    errno = 0;
    CHECK(mremap(shared, PAGE, 2 * PAGE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EACCES);
    errno = 0;
    CHECK(mremap(own, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, shared) == MAP_FAILED);
    CHECK(errno == EACCES);
}

/* What is not shared memory is the program's, wherever it would like to have it. */
static void allowed(char *shared)
{
    char *free_for_now = shared + ((size_t)1 << 38);
    char *own = mmap(free_for_now, PAGE, PROT_READ | PROT_WRITE, PRIVATE, -1, 0);

    CHECK(own != MAP_FAILED && own != free_for_now);
    own[0] = 7;
    own = mremap(own, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    CHECK(own != MAP_FAILED && own[0] == 7 && own[2 * PAGE] == 0);
    CHECK(mmap(own, PAGE, PROT_READ | PROT_WRITE, PRIVATE | MAP_FIXED, -1, 0) == own);
    CHECK(own[0] == 0);
    char *moved = mremap(own + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, own);
    CHECK(moved == own);
    CHECK(munmap(own, 3 * PAGE) == 0);
    CHECK(munmap(own + 1, PAGE) == -1 && errno == EINVAL);
}

int main(int argc, char **argv)
{
    char *shared;
    char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, PRIVATE, -1, 0);

    OK(mg_init(&argc, &argv));
    CHECK(own != MAP_FAILED);
    shared = SHARE("shared", 0, mg_malloc_grain(4 * PAGE, PAGE));
    if (mg_node() == 0)
        memset(shared, 1, 4 * PAGE);
    OK(mg_barrier(0, 0));
    if (argc == 1) {
        refused(shared, own);
        allowed(shared);
        CHECK(shared[0] == 1 && shared[PAGE] == 1);
        OK(mg_barrier(1, 0));
        return mg_finalize();
    }
    if (mg_node() == 0) {
        if (strcmp(argv[1], "move") == 0)
            CHECK(syscall(SYS_mremap, shared + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, own) ==
                  (long)own);
        else
            CHECK(syscall(SYS_munmap, shared, 4 * PAGE) == 0);
        if (strcmp(argv[1], "asked") != 0)
            shared[PAGE] = 2;
    }
    OK(mg_barrier(2, 0));
    if (mg_node() == 1)
        shared[PAGE]++;
    OK(mg_barrier(3, 0));
    return 0;
}
