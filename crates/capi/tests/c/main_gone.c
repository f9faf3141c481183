/* Main ends by pthread_exit after mg_finalize: of its own ("main"), or of a thread that it joins ("joined") or that is in it
   ("thread"). */
#include "check.h"

#include <pthread.h>

static void *finalizes(void *unused)
{
    usleep(50000);
    OK(mg_finalize());
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    OK(mg_init(&argc, &argv));
    OK(mg_barrier(1, 0));
    if (strcmp(argv[1], "main") == 0) {
        OK(mg_finalize());
    } else {
        CHECK(pthread_create(&thread, NULL, finalizes, NULL) == 0);
        if (strcmp(argv[1], "joined") == 0)
            CHECK(pthread_join(thread, NULL) == 0);
    }
    pthread_exit(NULL);
}
