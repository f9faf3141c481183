/* rand_n.c - RandN (MIRAGE+, sections 5.2 and 5.3): n bytes drawn at random are written in each page. */
#include "pattern.h"

static bool random_nth(uint64_t seed, long n, long index, long *offset)
{
    *offset = (long)(scramble(seed ^ (uint64_t)index) % PAGE);
    return index < n;
}

int main(int argc, char **argv)
{
    return run_pattern(argc, argv, "random", 650, random_nth);
}
