/*
 * Node 1 asks ahead for pages of the last node and leaves; that one leaves, too, with most of them still to be sent.
 */
#include "check.h"

#define PAGE 4096

int main(int argc, char **argv)
{
    size_t bytes;
    char *pages;
    int last;

    OK(mg_init(&argc, &argv));
    last = mg_nodes() - 1;
    bytes = strtoul(argv[1], NULL, 10) * PAGE;
    pages = SHARE("pages", last, mg_malloc(bytes));
    if (mg_node() == last)
        memset(pages, 7, bytes);
    OK(mg_barrier(1, 0));
    if (mg_node() == 1)
        OK(mg_prefetch_read(pages, bytes));
    return mg_finalize();
}
