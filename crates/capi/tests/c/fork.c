/*
 * Children of a node are outside of the job: "calls": their calls are refused, nothing of the node's stays
 * open in them, they exit(0) or end by pthread_exit, and they may exec; "touch": shared memory ends them with a line.
 */
#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static volatile unsigned *count;
static volatile int done;

/* Keeps the node's sockets and locks busy while others fork. */
static void *add(void *argument)
{
    unsigned long added = 0;

    while (!done) {
        __atomic_fetch_add((unsigned *)count, 1, __ATOMIC_SEQ_CST);
        added++;
    }
    *(unsigned long *)argument = added;
    return NULL;
}

static int ended(pid_t child)
{
    int status;

    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void *leave(void *argument)
{
    pthread_exit(argument);
}

/* Peers and launcher learn of a node's end by the ends of its streams: no child may keep them open. */
static void nothing_held(void)
{
    DIR *all = opendir("/proc/self/fd");
    struct dirent *one;

    CHECK(all != NULL);
    while ((one = readdir(all)) != NULL) {
        char what[256] = "";

        if (atoi(one->d_name) > 2)
            CHECK(readlinkat(dirfd(all), one->d_name, what, sizeof what - 1) >= 0);
        if (strncmp(what, "socket:", 7) == 0 || strncmp(what, "anon_inode:", 11) == 0 ||
            strncmp(what, "/memfd:", 7) == 0)
            FAIL("descriptor %s is %s", one->d_name, what);
    }
    closedir(all);
}

static void refused(void)
{
    struct mg_stats stats;
    mg_thread thread;
    pthread_t other;

    CODE(mg_lock(1), MG_ENOTINIT);
    CODE(mg_unlock(1), MG_ENOTINIT);
    CODE(mg_barrier(7, 0), MG_ENOTINIT);
    CODE(mg_sem_post(1, 1), MG_ENOTINIT);
    CODE(mg_publish("child", (void *)count), MG_ENOTINIT);
    CODE(mg_thread_create(&thread, 0, add, NULL), MG_ENOTINIT);
    CODE(mg_touch_read((void *)count, 4), MG_ENOTINIT);
    CODE(mg_get_stats(&stats, sizeof stats), MG_ENOTINIT);
    CODE(mg_free((void *)count), MG_ENOTINIT);
    NONE(mg_malloc(8), MG_ENOTINIT);
    CHECK(mg_node() == MG_ENOTINIT);
    mg_progress(1, 2);
    CODE(mg_finalize(), MG_ENOTINIT);
    CHECK(freopen("/dev/null", "w", stderr) != NULL); /* it says that it cannot join */
    CODE(mg_init(NULL, NULL), MG_ENOTINIT);
    CHECK(strstr(mg_strerror(MG_ENOTINIT), "is a child of node ") != NULL);
    CODE(mg_lock(1), MG_ENOTINIT);
    CHECK(strstr(mg_strerror(MG_ENOTINIT), "made by fork, and outside of the job") != NULL);
    CHECK(pthread_create(&other, NULL, leave, NULL) == 0 && pthread_join(other, NULL) == 0);
}

/* What is left of a thread of the job in the child that it makes ends as the only thread of a process does. */
static void *forks(void *argument)
{
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0)
        return argument;
    CHECK(ended(child) == 0);
    return NULL;
}

static void only_threads_end(void)
{
    mg_thread thread;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0)
        pthread_exit(NULL);
    CHECK(ended(child) == 0);
    OK(mg_thread_create(&thread, mg_node(), forks, NULL));
    OK(mg_thread_join(thread, NULL));
}

static void calls(void)
{
    char *arguments[] = {"true", NULL};
    unsigned long added;
    pthread_t adder;
    pid_t child;

    CHECK(pthread_create(&adder, NULL, add, &added) == 0);
    for (int i = 0; i < 40; i++) {
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            refused();
            nothing_held();
            exit(0);
        }
        CHECK(ended(child) == 0);
    }
    child = fork();
    if (child == 0) {
        execvp("true", arguments);
        _exit(1);
    }
    CHECK(ended(child) == 0);
    CHECK(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0 && ended(child) == 0);
    CHECK(system("true") == 0);
    only_threads_end();
    done = 1;
    CHECK(pthread_join(adder, NULL) == 0);
    OK(mg_lock(1));
    count[1 << 16] += added;
    OK(mg_unlock(1));
    OK(mg_barrier(2, 0));
    CHECK(count[0] == count[1 << 16]);
}

static void touch(void)
{
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        count[1]++;
        _exit(0);
    }
    int status = ended(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 70);
    count[1 + mg_node()] = 1;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    count = SHARE("count", 0, mg_calloc(1 << 17, sizeof *count));
    OK(mg_barrier(0, 0));
    if (strcmp(argv[1], "calls") == 0)
        calls();
    else
        touch();
    OK(mg_barrier(1, 0));
    return mg_finalize();
}
