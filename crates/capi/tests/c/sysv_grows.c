/* What is attached does not grow, and is not mapped twice by mremap; other memory grows as ever. */
#include <errno.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

static int is_refused(void *at, size_t bytes, size_t to)
{
    errno = 0;
    return mremap(at, bytes, to, MREMAP_MAYMOVE) == MAP_FAILED && errno == ENOMEM;
}

int main(void)
{
    int segment = shmget(IPC_PRIVATE, 8 * 4096, 0600);
    char *at = shmat(segment, NULL, 0);
    char *other = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == (void *)-1 || munmap(at + 4 * 4096, 4 * 4096) != 0)
        return 1;
    at[0] = 5;
    if (!is_refused(at, 4 * 4096, 8 * 4096) || !is_refused(at, 0, 4096) || !is_refused(at + 4096, 4096, 8192) ||
        mremap(at, 4096, 4096, MREMAP_MAYMOVE | MREMAP_DONTUNMAP) != MAP_FAILED || errno != ENOMEM)
        return 2;
    other = mremap(other, 4096, 8192, MREMAP_MAYMOVE);
    if (other == MAP_FAILED || at[0] != 5)
        return 3;
    other[8191] = 1;
    return mremap(at, 4 * 4096, 4096, 0) != at || at[0] != 5 || shmdt(at) != 0;
}
