/* The system takes pages out of the tables of a node that has them, as when it swaps: each access brings them back. */
#include "check.h"

#include <sys/mman.h>

#define PAGE 4096

static volatile int turn;

/* An instruction that begins with the same registers in every turn: the library takes it for the same one. */
static __attribute__((noinline)) void drop_and_touch(volatile long *word)
{
    for (turn = 0; turn < 5; turn++) {
        if (madvise((void *)word, PAGE, MADV_DONTNEED) != 0)
            FAIL("madvise: errno %d", errno);
        *word += 1;
    }
}

int main(int argc, char **argv)
{
    long *words;

    OK(mg_init(&argc, &argv));
    words = SHARE("words", 0, mg_malloc_grain(2 * PAGE, PAGE));
    if (mg_node() == 0)
        words[0] = words[PAGE / sizeof(long)] = 0;
    for (int node = 0; node < mg_nodes(); node++) {
        OK(mg_barrier(0, 0));
        if (mg_node() == node) {
            drop_and_touch(words);
            drop_and_touch(words + PAGE / sizeof(long));
        }
    }
    OK(mg_barrier(0, 0));
    CHECK(words[0] == 5 * mg_nodes() && words[PAGE / sizeof(long)] == 5 * mg_nodes());
    OK(mg_barrier(0, 0));
    OK(mg_finalize());
    return 0;
}
