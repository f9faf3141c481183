/* A block is freed while another node does atomic operations on it: that is the program's mistake, and nobody broke the protocol. For
 * 2 nodes. */
#include "check.h"

int main(int argc, char **argv)
{
    enum { ROUNDS = 50, BYTES = 3 << 20 };

    OK(mg_init(&argc, &argv));
    for (int round = 0; round < ROUNDS; round++) {
        char name[16];
        int64_t *block, one = 1;

        snprintf(name, sizeof name, "block-%d", round);
        block = SHARE(name, 0, mg_calloc(1, BYTES));
        OK(mg_barrier(1, 0));
        if (mg_node() == 0) {
            OK(mg_free(block));
        } else {
            usleep((unsigned)(round % 5) * 50);
            int code = mg_fetch_op(block, MG_INT64, MG_SUM, &one, NULL);
            CHECK(code == 0 || code == MG_ENOTSHARED);
        }
        OK(mg_barrier(1, 0));
    }
    return mg_finalize();
}
