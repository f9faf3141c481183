/* Who receives at a service level: processor time and turns of the thread that serves. The argument is the level. */
#include "check.h"

#include <dirent.h>
#include <stdbool.h>

enum { FETCHES = 400, MS = 1000000 };

struct turns {
    unsigned long long ns, waited, count; /* as /proc/PID/task/TID/schedstat has them */
};

static struct turns of_service_thread(void)
{
    struct turns turns = {0, 0, 0};
    DIR *tasks = opendir("/proc/self/task");
    bool found = false;

    CHECK(tasks != NULL);
    for (struct dirent *task; !found && (task = readdir(tasks)) != NULL;) {
        char path[64], name[32] = "";
        FILE *file;

        snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", task->d_name);
        if ((file = fopen(path, "r")) == NULL)
            continue;
        found = fgets(name, sizeof name, file) != NULL && strcmp(name, "mg-service\n") == 0;
        fclose(file);
        if (!found)
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%.20s/schedstat", task->d_name);
        CHECK((file = fopen(path, "r")) != NULL);
        CHECK(fscanf(file, "%llu %llu %llu", &turns.ns, &turns.waited, &turns.count) == 3);
        fclose(file);
    }
    closedir(tasks);
    CHECK(found);
    return turns;
}

int main(int argc, char **argv)
{
    const char *level = argv[1];
    struct turns before, after;
    volatile char *pages;

    OK(mg_init(&argc, &argv));
    if (strcmp(level, "polling") != 0) {
        /* The first wait of all, in which a thread of the program sleeps. */
        if (mg_node() == 1)
            usleep(400 * 1000);
        OK(mg_barrier(1, 0));
        after = of_service_thread();
        if (after.ns > 100 * MS)
            FAIL("%s: the service thread took %llu ms until the first barrier", level, after.ns / MS);
    }
    pages = SHARE("pages", 0, memset(MUST(mg_malloc(FETCHES * 4096)), 7, FETCHES * 4096));
    OK(mg_barrier(0, 0));
    if (mg_node() == 1) {
        before = of_service_thread();
        for (int i = 0; i < FETCHES; i++)
            CHECK(pages[i * 4096] == 7);
        after = of_service_thread();
        printf("%s: %llu turns of the service thread in %d fetches\n", level, after.count - before.count, FETCHES);
        /* Nobody else can have received what they waited for. */
        if (strcmp(level, "blocked") == 0)
            CHECK(after.count - before.count >= FETCHES / 4);
        /* Nothing arrives from here to the barrier. */
        before = of_service_thread();
        usleep(100000);
        if (strcmp(level, "polling") == 0)
            while (of_service_thread().ns - before.ns < 20 * MS) /* soon, or the job's limit of time */
                usleep(1000);
        else
            CHECK(of_service_thread().ns - before.ns < 20 * MS);
    }
    OK(mg_barrier(0, 0));
    OK(mg_finalize());
    return 0;
}
