/* One of two programs of a job: makes a segment and writes it. The other is reads.c. */
#include "check.h"

static void *starts(void *argument)
{
    *(long *)argument += 1;
    return NULL;
}

int main(int argc, char **argv)
{
    mg_thread thread;
    long *words, *count;
    int me;

    OK(mg_init(&argc, &argv));
    CHECK(argc == 2 && strcmp(argv[1], "seven") == 0);
    me = mg_node();
    if (me == 0)
        OK(mg_segment_create("between", 8192, 0600, NULL));
    words = MUST(mg_segment_attach("between", MG_SEGMENT_WAIT));
    words[me] = 7 + me;

    /* A thread starts where its function is. */
    count = MUST(mg_calloc(1, sizeof *count));
    CODE(mg_thread_create(&thread, mg_nodes() - 1, starts, count), MG_EINVAL);
    CHECK(strstr(mg_strerror(MG_EINVAL), "runs another program") != NULL);
    for (int i = 0; i < 4; i++) {
        OK(mg_thread_create(&thread, MG_ANY_NODE, starts, count));
        CHECK((int)(thread >> 48) < 2);
        OK(mg_thread_join(thread, NULL));
    }
    CHECK(*count == 4);
    OK(mg_barrier(0, 0));
    OK(mg_segment_detach(words));
    OK(mg_barrier(0, 0));
    OK(mg_finalize());
    return 0;
}
