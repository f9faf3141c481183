/* Prefetch, push, touch; system calls on shared buffers. */
#include "check.h"

#define BYTES (5 * 4096 + 100)

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

static void filled(const char *p, char value)
{
    for (int i = 0; i < BYTES; i++)
        if (p[i] != value)
            FAIL("byte %d is %d, not %d", i, p[i], value);
}

static void hints(char *block)
{
    for (int round = 0; round < 10; round++) {
        int writer = round % nodes;

        if (me == writer) {
            OK(mg_prefetch_write(block, BYTES));
            memset(block, round + 1, BYTES);
            if (round % 2 == 0)
                OK(mg_push(block, BYTES));
        }
        meet();
        OK(mg_prefetch_read(block, BYTES));
        if (round % 3 == 0)
            OK(mg_prefetch_read(block, BYTES)); /* again, on its way */
        filled(block, (char)(round + 1));
        meet();
    }
    if (me == 0) { /* what was pushed is there: no fault */
        memset(block, 99, BYTES);
        OK(mg_push(block, BYTES));
    }
    meet();
    OK(mg_touch_read(block, BYTES));
    {
        uint64_t before = stats_now().read_faults;

        filled(block, 99);
        CHECK(stats_now().read_faults == before);
    }
    meet();
}

static void system_calls(char *block)
{
    int ends[2];
    char *copy = malloc(BYTES);

    CHECK(pipe(ends) == 0);
    for (int turn = 0; turn < nodes; turn++) {
        if (me == turn) {
            /* Nobody but the last writer has it: the kernel does not trap. */
            if (turn > 0)
                CHECK(write(ends[1], block, BYTES) == -1 && errno == EFAULT);
            OK(mg_touch_read(block, BYTES));
            CHECK(write(ends[1], block, BYTES) == BYTES);
            CHECK(read(ends[0], copy, BYTES) == BYTES);
            filled(copy, (char)(turn + 50));
            memset(copy, turn + 51, BYTES);
            CHECK(write(ends[1], copy, BYTES) == BYTES);
            OK(mg_touch_write(block, BYTES));
            CHECK(read(ends[0], block, BYTES) == BYTES);
        }
        meet();
    }
    filled(block, (char)(nodes + 50));
    meet();
    close(ends[0]);
    close(ends[1]);
    free(copy);
}

int main(int argc, char **argv)
{
    char *block;

    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    block = SHARE("block", 0, mg_malloc_grain(BYTES, 4096));
    hints(block);
    if (me == 0)
        memset(block, 50, BYTES);
    meet();
    system_calls(block);
    OK(mg_finalize());
    return 0;
}
