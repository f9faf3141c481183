/* Where the stack is unlimited the kernel maps amid the addresses of views: what is the program's own stays that. */
#include "check.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define BYTES ((size_t)1 << 20)
#define LARGE ((size_t)3 << 40)

int main(int argc, char **argv)
{
    struct rlimit stack;
    char *own, *inside;
    long *shared;
    const int large = argc > 1;

    CHECK(getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur == RLIM_INFINITY);
    OK(mg_init(&argc, &argv));
    for (int i = 0; i < 100; i++) {
        own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(own != MAP_FAILED);
        memset(own, 1, BYTES);
        CHECK(mprotect(own, 4096, PROT_READ) == 0);
        inside = mmap(own, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        CHECK(inside == own && own[0] == 0 && own[4096] == 1);
        CHECK(munmap(own, BYTES) == 0);
    }
    shared = SHARE("shared", 0, mg_calloc(1, BYTES));
    OK(mg_barrier(0, 0));
    shared[mg_node()] = mg_node() + 1;
    OK(mg_barrier(0, 0));
    for (int node = 0; node < mg_nodes(); node++)
        CHECK(shared[node] == node + 1);
    errno = 0;
    CHECK(munmap(shared, BYTES) == -1 && errno == EACCES);

    /* What is shared and lies there all the same traps, and is kept. */
    if (large) {
        char *end = SHARE("large", 0, mg_malloc(LARGE)) + LARGE - 4096;

        OK(mg_barrier(0, 0));
        if (mg_node() == mg_nodes() - 1)
            *end = 7;
        OK(mg_barrier(0, 0));
        CHECK(*end == 7);
        errno = 0;
        CHECK(munmap(end, 4096) == -1 && errno == EACCES && *end == 7);
    }
    return mg_finalize();
}
