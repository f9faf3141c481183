/* A breakpoint of the program's own ends it, as it would without Multigrain: SIGTRAP is not lost. */
#include "check.h"

#include <signal.h>

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    if (argc > 1)
        raise(SIGTRAP);
    else
        __asm__ volatile("int3");
    puts("went on");
    return mg_finalize();
}
