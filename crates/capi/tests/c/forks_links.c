/*
 * A thread of each node forks, again and again, while links are made. No child has a socket of its node.
 */
#define _DEFAULT_SOURCE
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int is_over;

static bool has_a_socket(void)
{
    DIR *all = opendir("/proc/self/fd");
    struct dirent *one;
    bool found = false;
    CHECK(all != NULL);
    while ((one = readdir(all)) != NULL) {
        char name[300], target[100] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%s", one->d_name);
        if (readlink(name, target, sizeof target - 1) > 0 && strncmp(target, "socket:", 7) == 0)
            found = true;
    }
    closedir(all);
    return found;
}

static void *fork_until_it_is_over(void *none)
{
    do {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(has_a_socket());
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    } while (!is_over);
    return none;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    OK(mg_init(&argc, &argv));
    OK(mg_barrier(0, 0));
    CHECK(pthread_create(&thread, NULL, fork_until_it_is_over, NULL) == 0);
    for (uint32_t i = 0; i < (uint32_t)mg_nodes(); i++) {
        const uint32_t id = (i + (uint32_t)mg_node()) % (uint32_t)mg_nodes();
        OK(mg_lock(id));
        OK(mg_unlock(id));
    }
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    OK(mg_barrier(0, 0));
    return mg_finalize();
}
