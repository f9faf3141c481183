/*
 * A word that all nodes of a job have read, so many that its invalidation goes by a tree, is written by each in turn: all
 * see what was written last, and the manager sends fewer messages than there are copies.
 *
 * With the argument STOPPED one node stops before the word is written, and is killed while the writer waits for it: it has to end the
 * job, wherever in the tree it is.
 */
#define _DEFAULT_SOURCE
#include "check.h"

#include <signal.h>
#include <unistd.h>

enum { MANAGER = 0 };

static void writes_in_turn(volatile int *word, int me, int nodes)
{
    uint64_t sent = 0;

    for (int turn = 0; turn < 2 * nodes; turn++) {
        CHECK(*word == turn);
        OK(mg_barrier(0, 0));
        uint64_t before = stats_now().messages_sent;
        if (turn % nodes == me) {
            *word = turn + 1;
            sent += stats_now().messages_sent - before;
        }
        OK(mg_barrier(0, 0));
    }
    /* It writes twice; every other node has a copy each time. */
    if (me == MANAGER && (sent < 2 * 8 || sent > (uint64_t)nodes))
        FAIL("%llu messages in two writes of what %d nodes have read", (unsigned long long)sent, nodes);
}

static void is_killed_amid(volatile int *word, int me, int stops)
{
    pid_t *stopped = SHARE("stopped", MANAGER, mg_malloc(sizeof *stopped));

    if (me == stops)
        *stopped = getpid();
    OK(mg_barrier(0, 0));
    /* All of this page is read before a node answers nothing any more. */
    pid_t known = *stopped;

    CHECK(*word == 0);
    OK(mg_barrier(0, 0));
    if (me == stops) {
        printf("stops\n");
        fflush(stdout);
        raise(SIGSTOP);
    }
    if (me == MANAGER) {
        char state = 0;

        while (state != 'T') {
            char path[32], line[256] = "";
            snprintf(path, sizeof path, "/proc/%d/stat", (int)known);
            FILE *stat = MUST(fopen(path, "r"));
            CHECK(fgets(line, sizeof line, stat));
            fclose(stat);
            state = strrchr(line, ')')[2];
            usleep(1000);
        }
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            usleep(200 * 1000);
            kill(known, SIGKILL);
            _exit(0);
        }
        *word = 1;
        FAIL("written, though node %d has not answered", stops);
    }
    OK(mg_barrier(0, 0));
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    int me = mg_node(), nodes = mg_nodes();
    int *word = SHARE("word", MANAGER, mg_calloc(1, sizeof *word));

    OK(mg_barrier(0, 0));
    if (argc > 1)
        is_killed_amid(word, me, atoi(argv[1]));
    else
        writes_in_turn(word, me, nodes);
    OK(mg_finalize());
    return 0;
}
