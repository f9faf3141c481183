/*
 * A node whose thread goes on to compute behind waits that followed each other closely answers others: node 1 writes
 * what node 0 looks at without a call or a fault of its own.
 */
#include "check.h"

#define ROUNDS 30

struct shared {
    _Alignas(4096) volatile int flag;
    _Alignas(4096) volatile int counter;
};

int main(int argc, char **argv)
{
    struct shared *shared;

    OK(mg_init(&argc, &argv));
    shared = SHARE("shared", 0, mg_memalign(4096, sizeof *shared));
    for (int round = 1; round <= ROUNDS; round++) {
        OK(mg_barrier(0, 0));
        for (int i = 0; i < 100; i++) {
            OK(mg_lock(1));
            shared->counter++;
            OK(mg_unlock(1));
        }
        if (mg_node() == 0)
            while (shared->flag != round)
                ;
        if (mg_node() == mg_nodes() - 1)
            shared->flag = round;
    }
    OK(mg_barrier(0, 0));
    CHECK(shared->counter == ROUNDS * 100 * mg_nodes());
    OK(mg_finalize());
    return 0;
}
