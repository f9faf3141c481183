/* The first accesses to memory that its node has never touched, across borders of minipages: node 0 stores,
 * the others load the same eight bytes meanwhile. No access takes more than five faults (ADR 17). */
#include "check.h"

#include <unistd.h>

enum { BORDERS = 64, PAGE = 4096, MOST = 5 };

static volatile uint64_t *border(char *pages, int i)
{
    return (volatile uint64_t *)(pages + (2 * i + 1) * PAGE - 4);
}

static uint64_t load(volatile uint64_t *place)
{
    uint64_t value;

    __asm__ volatile("movq (%1), %0" : "=r"(value) : "r"(place) : "memory");
    return value;
}

static void store(volatile uint64_t *place, uint64_t value)
{
    __asm__ volatile("movq %1, (%0)" : : "r"(place), "r"(value) : "memory");
}

static uint64_t faults(void)
{
    struct mg_stats now = stats_now();

    return now.read_faults + now.write_faults;
}

int main(int argc, char **argv)
{
    char *pages;

    OK(mg_init(&argc, &argv));
    pages = SHARE("pages", 0, mg_calloc(2 * BORDERS, PAGE));
    for (int i = 0; i < BORDERS; i++) {
        volatile uint64_t *place = border(pages, i);
        uint64_t before, taken, value = 0;

        OK(mg_barrier(0, 0));
        do {
            if (mg_node() == 0)
                usleep(50);
            before = faults();
            if (mg_node() == 0)
                store(place, value = 1);
            else
                value = load(place);
            taken = faults() - before;
            if (taken > MOST)
                FAIL("border %d: %llu faults", i, (unsigned long long)taken);
        } while (value == 0);
    }
    OK(mg_barrier(0, 0));
    return mg_finalize();
}
