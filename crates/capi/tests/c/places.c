/* Two nodes use different parts of one allocation, of as many bytes as the argument says. */
#include "check.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    volatile long *all;
    int i;

    OK(mg_init(&argc, &argv));
    if (mg_node() == 0) {
        all = mg_malloc((size_t)atol(argv[1])); /* the place */
        OK(mg_publish("all", (void *)all));
    }
    all = MUST(mg_lookup("all"));
    for (i = 0; i < 600; i++) {
        all[mg_node() * 8]++;
        OK(mg_barrier(1, 0));
    }
    return mg_finalize();
}
