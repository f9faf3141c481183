/*
 * Memory that a program locks is its own: shared memory, which is sparse, is not allocated by it, be it
 * locked "before" mg_init or after; and what shared memory allows the program does not change.
 */
#include "check.h"

#include <sys/mman.h>

/* Bytes that this process has in memory: "RssShmem: %lu", "RssAnon: %lu". */
static unsigned long resident_kib(const char *format)
{
    unsigned long kib = ~0ul;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");

    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, format, &kib);
    fclose(file);
    return kib;
}

static void lock(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        perror("mlockall"); /* too low a limit: nothing is tested */
        _exit(0);
    }
}

int main(int argc, char **argv)
{
    unsigned *words;
    size_t page = 4096;

    if (argc > 1)
        lock();
    OK(mg_init(&argc, &argv));
    if (argc == 1)
        lock();
    words = SHARE("words", 0, mg_calloc(1 << 20, sizeof *words));
    OK(mg_barrier(0, 0));
    for (int i = 0; i < 64; i++)
        __atomic_fetch_add(words + 1024 * i, 1, __ATOMIC_SEQ_CST);
    OK(mg_barrier(1, 0));
    for (int i = 0; i < 64; i++)
        CHECK(words[1024 * i] == (unsigned)mg_nodes());
    if (resident_kib("RssShmem: %lu") > 32 << 10)
        FAIL("%lu KiB of shared memory", resident_kib("RssShmem: %lu"));
    /* Stacks of the library's threads, its tables as far as they are used, and its heap. */
    if (resident_kib("RssAnon: %lu") > 400 << 10)
        FAIL("%lu KiB of its own", resident_kib("RssAnon: %lu"));

    CHECK(mprotect(words, page, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
    CHECK(mprotect(words, page, PROT_NONE) == -1 && errno == EACCES);
    CHECK(pkey_mprotect(words, page, PROT_READ | PROT_WRITE, -1) == -1 && errno == EACCES);
    void *own = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED && mprotect(own, page, PROT_READ | PROT_WRITE) == 0);
    CHECK(pkey_mprotect(own, page, PROT_READ | PROT_WRITE, -1) == 0);
    *(char *)own = 1;
    OK(mg_barrier(2, 0));
    return mg_finalize();
}
