/* What a node takes by joining: no huge page is zeroed for the library's few kilobytes. */
#include "check.h"

/* A field of /proc/self/smaps_rollup, in KiB. */
static unsigned long rollup(const char *format)
{
    unsigned long kib = ~0ul;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");

    CHECK(file != NULL);
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, format, &kib);
    fclose(file);
    return kib;
}

int main(int argc, char **argv)
{
    char mode[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

    if (file != NULL) {
        CHECK(fgets(mode, sizeof mode, file) != NULL);
        fclose(file);
    }
    OK(mg_init(&argc, &argv));
    OK(mg_barrier(0, 0));
    /* Where the system gives them to everybody, nobody asks. */
    if (strstr(mode, "[always]") == NULL && rollup("AnonHugePages: %lu") != 0)
        FAIL("%lu KiB of huge pages", rollup("AnonHugePages: %lu"));
    return mg_finalize();
}
