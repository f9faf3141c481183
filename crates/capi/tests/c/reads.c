/* The other of two programs of a job: attaches when the first, writes.c, has made a segment, which it leaves again. */
#include "check.h"

int main(int argc, char **argv)
{
    long *words;

    OK(mg_init(&argc, &argv));
    CHECK(argc == 1 && mg_nodes() >= 3);
    words = MUST(mg_segment_attach("between", MG_SEGMENT_WAIT | MG_SEGMENT_READ_ONLY));
    OK(mg_barrier(0, 0));
    CHECK(words[0] == 7 && words[1] == 8);
    OK(mg_barrier(0, 0));
    CHECK(words[0] == 7 && words[1] == 8);
    OK(mg_segment_detach(words));
    OK(mg_finalize());
    return 0;
}
