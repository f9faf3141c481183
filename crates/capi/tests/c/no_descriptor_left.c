/* Node 5 has opened all descriptors it may when node 3 speaks to it for the first time, and closes them later, or never. */
#include <fcntl.h>
#include <multigrain.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST = 300 };

static int opened[MOST];
static int count;

static void *close_later(void *seconds)
{
    usleep((useconds_t)(atof(seconds) * 1e6));
    while (count > 0)
        close(opened[--count]);
    return NULL;
}

int main(int argc, char **argv)
{
    if (mg_init(&argc, &argv) != MG_OK)
        return 1;
    if (mg_node() == 5) {
        long *word = mg_calloc(1, sizeof *word);
        *word = 7;
        mg_publish("word", word);
    }
    mg_barrier(1, 0);
    pthread_t closer;
    if (mg_node() == 5) {
        struct rlimit limit;
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = MOST;
        setrlimit(RLIMIT_NOFILE, &limit);
        while (count < MOST && (opened[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
            count++;
        if (count == 0 || pthread_create(&closer, NULL, close_later, argv[1]) != 0)
            return 2;
    }
    mg_barrier(2, 0);
    if (mg_node() == 3 && *(long *)mg_lookup("word") != 7)
        return 3;
    mg_barrier(3, 0);
    if (mg_node() == 5)
        pthread_join(closer, NULL);
    return mg_finalize();
}
