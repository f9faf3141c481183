/*
 * nas.h - the random numbers of the NAS Parallel Benchmarks (Bailey and others, RNR-94-007, section
 * 2.3): x becomes 5^13 x mod 2^46, and x / 2^46 is the number, between 0 and 1.
 *
 * Products are taken mod 2^64, of which 2^46 is a divisor: their low bits are right.
 */
#ifndef APPS_NAS_H
#define APPS_NAS_H

#include <stdint.h>

#define NAS_FACTOR UINT64_C(1220703125)
#define NAS_MASK ((UINT64_C(1) << 46) - 1)

static inline double nas_next(uint64_t *x)
{
    *x = NAS_FACTOR * *x & NAS_MASK;
    return (double)*x * 0x1p-46;
}

/* The state `steps` numbers behind x. */
static inline uint64_t nas_ahead(uint64_t x, uint64_t steps)
{
    for (uint64_t factor = NAS_FACTOR; steps != 0; steps >>= 1, factor *= factor)
        if (steps & 1)
            x *= factor;
    return x & NAS_MASK;
}

#endif
