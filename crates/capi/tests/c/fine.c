/*
 * Node 1 writes each of many elements, or each 16th, in an order that nobody foresees; node 0 reads them then. They have
 * minipages of their own, or of a page, as the argument says.
 */
#include "check.h"

enum { COUNT = 1600, BYTES = 64 };

int main(int argc, char **argv)
{
    int is_fine, step;
    char *all;

    OK(mg_init(&argc, &argv));
    is_fine = strcmp(argv[1], "coarse") != 0;
    step = strcmp(argv[1], "apart") == 0 ? 16 : 1;
    all = SHARE("all", 0, is_fine ? mg_malloc_array(COUNT, BYTES) : mg_malloc(COUNT * BYTES)); /* the place */
    OK(mg_barrier(1, 0));
    for (int node = 1; node >= 0; node--) {
        for (int i = 0; mg_node() == node && i < COUNT; i++) {
            size_t at = (size_t)i * 617 % COUNT;
            char *element = is_fine ? mg_element(all, at) : all + at * BYTES;

            if (at % (size_t)step)
                continue;
            if (node == 1)
                *element = (char)(at % 100);
            else
                CHECK(*element == (char)(at % 100));
        }
        OK(mg_barrier(1, 0));
    }
    return mg_finalize();
}
