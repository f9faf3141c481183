/* distances.c - the cities of tsp.h, two lower bounds, and the exact answer for the check. */
#include "tsp.h"

#include <math.h>
#include <stdlib.h>

int cities;
int32_t distance[MAX_CITIES][MAX_CITIES];
int32_t least_step[MAX_CITIES];

/* Points in a square, and the distances between them, rounded. */
void make_distances(int count, uint64_t seed)
{
    double x[MAX_CITIES], y[MAX_CITIES];

    cities = count;
    for (int i = 0; i < cities; i++) {
        x[i] = 10000 * scramble_unit(seed << 32 | (uint64_t)(2 * i));
        y[i] = 10000 * scramble_unit(seed << 32 | (uint64_t)(2 * i + 1));
    }
    for (int i = 0; i < cities; i++) {
        least_step[i] = INT32_MAX;
        for (int j = 0; j < cities; j++) {
            distance[i][j] = (int32_t)lround(hypot(x[i] - x[j], y[i] - y[j]));
            if (i != j && distance[i][j] < least_step[i])
                least_step[i] = distance[i][j];
        }
    }
}

int32_t spanning_tree(uint32_t set)
{
    int32_t near[MAX_CITIES], total = 0;
    int city = __builtin_ctz(set);

    for (int i = 0; i < cities; i++)
        near[i] = INT32_MAX;
    set &= set - 1;
    while (set != 0) {
        int next = -1;

        for (uint32_t rest = set; rest != 0; rest &= rest - 1) {
            int i = __builtin_ctz(rest);

            if (distance[city][i] < near[i])
                near[i] = distance[city][i];
            if (next < 0 || near[i] < near[next])
                next = i;
        }
        total += near[next];
        set &= ~(1u << next);
        city = next;
    }
    return total;
}

/* dp[set][j]: the shortest path from city 0 through `set` of the others that ends in city j + 1. */
int32_t shortest_tour(void)
{
    int others = cities - 1;
    uint32_t all = (1u << others) - 1;
    int32_t *dp = private_alloc(((size_t)all + 1) * (size_t)others * sizeof *dp);
    int32_t shortest = INT32_MAX;

    for (uint32_t set = 1; set <= all; set++)
        for (int j = 0; j < others; j++) {
            uint32_t before = set & ~(1u << j);
            int32_t length = before == 0 ? distance[0][j + 1] : INT32_MAX;

            if (before == set)
                continue;
            for (uint32_t rest = before; rest != 0; rest &= rest - 1) {
                int i = __builtin_ctz(rest);
                int32_t via = dp[(size_t)before * (size_t)others + (size_t)i];

                if (via + distance[i + 1][j + 1] < length)
                    length = via + distance[i + 1][j + 1];
            }
            dp[(size_t)set * (size_t)others + (size_t)j] = length;
        }
    for (int j = 0; j < others; j++) {
        int32_t length = dp[(size_t)all * (size_t)others + (size_t)j] + distance[j + 1][0];

        if (length < shortest)
            shortest = length;
    }
    free(dp);
    return shortest;
}
