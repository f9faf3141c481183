/*
 * While a thread of a node is in a close that lasts 20 s, the node speaks to others for the first time, and soon. Links are made
 * when they are first used in a job of so many nodes.
 */
#include "check.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LINGERS = 20, SOON = 5 };

static int sender, in_close[2];

/* A connection to itself whose peer reads nothing. */
static void connect_and_fill(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger lingers = {1, LINGERS};
    socklen_t bytes = sizeof at;
    static char zeros[1 << 16];
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&at, &bytes) == 0);
    sender = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(sender, (struct sockaddr *)&at, sizeof at) == 0);
    CHECK(accept(listener, NULL, NULL) >= 0);
    while (send(sender, zeros, sizeof zeros, MSG_DONTWAIT) > 0)
        ;
    CHECK(setsockopt(sender, SOL_SOCKET, SO_LINGER, &lingers, sizeof lingers) == 0);
}

static void *close_it(void *none)
{
    CHECK(write(in_close[1], "x", 1) == 1);
    close(sender);
    FAIL("that closed at once%s", none == NULL ? "" : "?");
}

int main(int argc, char **argv)
{
    pthread_t thread;
    char x;

    OK(mg_init(&argc, &argv));
    if (mg_node() == 3) {
        connect_and_fill();
        CHECK(pipe(in_close) == 0 && pthread_create(&thread, NULL, close_it, NULL) == 0);
        CHECK(read(in_close[0], &x, 1) == 1);
        /* Nothing tells from here that a thread is inside of close; if it is not yet, this tries less, and passes. */
        usleep(200000);
    }
    OK(mg_barrier(0, 0));
    const time_t since = time(NULL);
    for (uint32_t id = 0; id < (uint32_t)mg_nodes(); id++) {
        OK(mg_lock(id));
        OK(mg_unlock(id));
    }
    if (time(NULL) - since > SOON)
        FAIL("links took %ld s", (long)(time(NULL) - since));
    return mg_finalize();
}
