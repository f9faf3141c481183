/* Accesses that end a node. The argument says where: null, global, unallocated, reserved, wild, far, code, stack, thread,
 * overrun, thread-overrun. */
#include "check.h"

#include <sys/mman.h>

struct list {
    struct list *next;
    int values[30];
};

static struct list *head; /* of each node its own: set by node 0 alone */

static int deeper(volatile int *from)
{
    volatile int here[1000];

    here[0] = *from + 1;
    return here[0] == 0 ? 0 : deeper(here) + here[0];
}

static void *overflow(void *arg)
{
    volatile int zero = 0;

    return (void *)((intptr_t)arg + deeper(&zero));
}

/* From a local upwards, to where the stack begins. */
static void *overrun(void *arg)
{
    volatile char here[16];
    volatile char *p = here;

    (void)arg;
    for (;;)
        *p++ = 1;
    return NULL;
}

/* Apart, for the register that p is in says which signal an impossible address gives. */
__attribute__((noinline)) static void store(volatile int *p)
{
    *p = 1;
}

int main(int argc, char **argv)
{
    const char *where = argv[1];

    OK(mg_init(&argc, &argv));
    if (mg_node() == 0)
        head = MUST(mg_calloc(1, sizeof *head));
    OK(mg_barrier(1, 0));
    if (mg_node() == 1) {
        volatile int *p = NULL;

        if (strcmp(where, "global") == 0)
            p = &head->values[3];
        if (strcmp(where, "unallocated") == 0)
            p = (int *)0x1fff00000040; /* a shared address nobody has allocated */
        /* As the C library has for its heaps: nothing that may be touched. */
        if (strcmp(where, "reserved") == 0)
            p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (strcmp(where, "wild") == 0)
            p = (int *)0x600000001000;
        if (strcmp(where, "far") == 0)
            p = (int *)0xdeadbeefdeadbee8; /* no processor has such an address */
        if (strcmp(where, "code") == 0)
            ((void (*)(void))mg_malloc(64))();
        if (strcmp(where, "stack") == 0)
            overflow(NULL);
        if (strcmp(where, "overrun") == 0)
            overrun(NULL);
        if (strncmp(where, "thread", strlen("thread")) == 0) {
            int over = strcmp(where, "thread-overrun") == 0;
            mg_thread thread;

            OK(mg_thread_create(&thread, 1, over ? overrun : overflow, NULL));
            OK(mg_thread_join(thread, NULL));
        }
        store(p);
    }
    OK(mg_barrier(1, 0));
    return mg_finalize();
}
