/* up_to_n.c - UptoN (MIRAGE+, sections 5.2 and 5.3): the first n bytes of the pages are written. */
#include "pattern.h"

static bool up_to_nth(uint64_t seed, long n, long index, long *offset)
{
    (void)seed;
    *offset = index;
    return index < n;
}

int main(int argc, char **argv)
{
    return run_pattern(argc, argv, "up to", 128, up_to_nth);
}
