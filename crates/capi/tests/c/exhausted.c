/* A node that reaches a limit of addresses in the middle of the job, while its locks become more and more. */
#include "check.h"

#include <sys/resource.h>

static rlim_t addresses_in_use(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages;

    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    struct rlimit limit;

    OK(mg_init(&argc, &argv));
    OK(mg_barrier(0, 0));
    if (mg_node() == mg_nodes() - 1) {
        CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
        limit.rlim_cur = addresses_in_use();
        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        for (uint32_t id = 1; id < 20000000; id++)
            OK(mg_sem_post(id, 1));
    }
    OK(mg_barrier(0, 0));
    return 1;
}
