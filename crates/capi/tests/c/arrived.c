/*
 * A thread begins on a node whose only thread waits at a barrier already, and writes there: no write
 * may be lost when homes move. A flag in sequentially consistent memory tells who has come how far;
 * it orders nothing for the pages, on which every thread has bytes of its own.
 */
#include "check.h"

#define PAGES 64
#define PAGE 4096
#define ROUNDS 4

static int me, nodes;
static unsigned char *pages;
static volatile long *flag;

/* One byte in every page, on the node of the thread; then it says so, and perhaps goes on. */
static void *write_there(void *arg)
{
    long round = (long)arg / 2;
    int goes_on = (long)arg % 2;

    for (int p = 0; p < PAGES; p++)
        pages[p * PAGE + 1] = (unsigned char)(round + p);
    *flag = round;
    for (int turn = 0; goes_on && turn < 50; turn++)
        for (int p = 0; p < PAGES; p++)
            pages[p * PAGE + 2] = (unsigned char)(round + p + turn);
    if (!goes_on)
        for (int p = 0; p < PAGES; p++)
            pages[p * PAGE + 2] = (unsigned char)(round + p + 49);
    return NULL;
}

static void look(int byte, long plus)
{
    int lost = 0;

    for (int p = 0; p < PAGES; p++)
        lost += pages[p * PAGE + byte] != (unsigned char)(plus + p);
    if (lost)
        FAIL("byte %d lost in %d of %d pages", byte, lost, PAGES);
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    pages = SHARE("pages", 0, mg_malloc(PAGES * PAGE));
    flag = SHARE("flag", 0, mg_malloc_with(sizeof *flag, 0, MG_SEQUENTIAL));
    if (me == 0)
        memset(pages, 9, PAGES * PAGE);
    OK(mg_barrier(0, 0));
    for (long round = 1; round <= ROUNDS; round++) {
        /* Every node manages a barrier, and every node but the starter is where the thread begins. */
        uint32_t barrier = (uint32_t)round;
        int starter = 1 + (int)round % (nodes - 1);
        int there = (starter + 1 + (int)(round / 2) % (nodes - 1)) % nodes;
        mg_thread thread;

        if (me == starter) {
            for (int p = 0; p < PAGES; p++)
                pages[p * PAGE] = (unsigned char)(round + p);
            OK(mg_thread_create(&thread, there, write_there, (void *)(2 * round + round % 2)));
            while (*flag != round)
                usleep(100);
        }
        OK(mg_barrier(barrier, 0));
        if (me == starter) {
            OK(mg_thread_join(thread, NULL));
            look(0, round);
            look(1, round);
            look(2, round + 49);
        }
        OK(mg_barrier(0, 0));
        look(0, round);
        look(1, round);
        look(2, round + 49);
        OK(mg_barrier(0, 0));
    }
    return mg_finalize();
}
