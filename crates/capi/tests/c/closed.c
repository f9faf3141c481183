/*
 * Standard descriptors that are closed as mg_init is called, those of the bits of the argument, and 0 to 2 after it:
 * nothing of the node's comes to lie there, and what is printed goes nowhere.
 */
#include "check.h"

#include <fcntl.h>

#define WORDS 1000

/* A descriptor that is written to says nothing of a failed check. */
static void must_be_closed(int mask, const char *when)
{
    for (int fd = 0; fd < 3; fd++)
        if (mask >> fd & 1 && fcntl(fd, F_GETFD) != -1)
            _exit(10 + fd + (when[0] == 'l' ? 10 : 0));
}

static void print_lines(void)
{
    for (int i = 0; i < 100; i++) {
        printf("a line of output\n");
        fflush(stdout);
        fprintf(stderr, "a line of an error\n");
    }
}

int main(int argc, char **argv)
{
    int mask = argc > 1 ? atoi(argv[1]) : 0;
    long *words, *more;

    for (int fd = 0; fd < 3; fd++)
        if (mask >> fd & 1)
            close(fd);
    OK(mg_init(&argc, &argv));
    must_be_closed(mask, "early");
    words = MUST(mg_calloc(WORDS, sizeof *words));
    print_lines();
    for (int i = 0; i < WORDS; i++)
        CHECK(words[i] == 0);
    /* What the node makes later finds these free. */
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    OK(mg_barrier(1, 0));
    if (mg_node() == mg_nodes() - 1)
        OK(mg_segment_create("later", 1 << 20, 0600, NULL));
    more = mg_segment_attach("later", MG_SEGMENT_WAIT);
    CHECK(more != NULL);
    must_be_closed(7, "late");
    print_lines();
    for (int i = 0; i < WORDS; i++)
        CHECK(words[i] == 0 && more[i] == 0);
    OK(mg_barrier(2, 0));
    return mg_finalize() == MG_OK ? 0 : 1;
}
