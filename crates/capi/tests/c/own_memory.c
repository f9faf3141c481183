/*
 * Prints the private memory of node 0, in KiB.
 */
#include "check.h"

int main(int argc, char **argv)
{
    char line[256];
    long kb = 0;
    FILE *status;

    OK(mg_init(&argc, &argv));
    OK(mg_barrier(1, 0));
    status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL)
        sscanf(line, "RssAnon: %ld kB", &kb);
    fclose(status);
    CHECK(kb > 0);
    if (mg_node() == 0)
        printf("%ld\n", kb);
    OK(mg_finalize());
    return 0;
}
