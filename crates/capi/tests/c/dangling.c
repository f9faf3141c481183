/* A name for what was freed meanwhile, and taken away from all nodes: who looks it up hears so, and gets no address. */
#include "check.h"

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    if (mg_node() == 0) {
        char *block = MUST(mg_malloc(3000000));

        OK(mg_publish("block", block));
        OK(mg_publish("inside", block + 4096));
        OK(mg_barrier(1, 0));
        OK(mg_barrier(1, 0));
        OK(mg_free(block));
        OK(mg_barrier(1, 0));
    } else {
        char *block;

        OK(mg_barrier(1, 0));
        block = MUST(mg_lookup("block"));
        CHECK(MUST(mg_lookup("inside")) == (void *)(block + 4096));
        OK(mg_barrier(1, 0));
        OK(mg_barrier(1, 0));
        NONE(mg_lookup("block"), MG_ENOTSHARED);
        NONE(mg_lookup("inside"), MG_ENOTSHARED);
    }
    OK(mg_finalize());
    return 0;
}
