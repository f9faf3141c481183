/*
 * Never calls mg_init, and looks at no result; with an argument it calls it, but later than something else.
 */
#include "check.h"

int main(int argc, char **argv)
{
    (void)mg_malloc(4096);
    (void)mg_barrier(1, 0);
    if (argc > 1) {
        OK(mg_init(&argc, &argv));
        OK(mg_barrier(1, 0));
        OK(mg_finalize());
        (void)mg_malloc(4096);
    }
    return 0;
}
