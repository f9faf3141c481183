/* Accesses that end a node. The argument says where: null, global, unallocated, wild, far. */
#include "check.h"

struct list {
    struct list *next;
    int values[30];
};

static struct list *head; /* of each node its own: set by node 0 alone */

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
        if (strcmp(where, "wild") == 0)
            p = (int *)0x123456789000;
        if (strcmp(where, "far") == 0)
            p = (int *)0xdeadbeefdeadbee8; /* no processor has such an address */
        *p = 1;
    }
    OK(mg_barrier(1, 0));
    return mg_finalize();
}
