/* Touches far apart in an array of 20 million minipages cost a node little memory of its own. */
#include "check.h"

#define COUNT ((size_t)20 << 20)
#define TOUCHES 20000

int main(int argc, char **argv)
{
    char *array;
    double before, each;

    OK(mg_init(&argc, &argv));
    /* Of a page each: small ones would cost the page they share, and its place in each view. */
    array = SHARE("sparse", 0, mg_malloc_grain(COUNT * 4096, 4096));
    OK(mg_barrier(0, 0));
    before = own_bytes();
    if (mg_node() == mg_nodes() - 1)
        for (size_t i = 0; i < TOUCHES; i++)
            CHECK(array[COUNT / TOUCHES * i * 4096] == 0);
    OK(mg_barrier(0, 0));
    each = (own_bytes() - before) / TOUCHES;
    printf("node %d: %.0f bytes a touch\n", mg_node(), each);
    if (each > 2500)
        FAIL("%.0f bytes a touch", each);
    OK(mg_finalize());
    return 0;
}
