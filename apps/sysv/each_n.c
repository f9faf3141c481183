/* each_n.c - EachN (MIRAGE+, sections 5.2 and 5.3): each n-th byte of the pages is written. */
#include "pattern.h"

static bool each_nth(uint64_t seed, long n, long index, long *offset)
{
    (void)seed;
    *offset = index * n;
    return *offset < PAGE;
}

int main(int argc, char **argv)
{
    return run_pattern(argc, argv, "each", 8, each_nth);
}
