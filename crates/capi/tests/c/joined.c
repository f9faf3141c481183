/* Threads that are started many at a time and joined leave nothing behind: the memory of their node does not grow. */
#include "check.h"

enum { AT_ONCE = 100, ROUNDS = 60, KB_EACH_LEAVES = 2 };

static void *comes_and_goes(void *arg)
{
    return arg;
}

static long resident_kb(void)
{
    char line[256];
    long kb = 0;
    FILE *status = MUST(fopen("/proc/self/status", "r"));
    while (fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0)
            kb = atol(line + 8);
    CHECK(fclose(status) == 0 && kb > 0);
    return kb;
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    mg_thread threads[AT_ONCE];
    long before = 0;
    for (int round = 0; mg_node() == 0 && round < ROUNDS; round++) {
        if (round == ROUNDS / 4)
            before = resident_kb();
        for (int i = 0; i < AT_ONCE; i++)
            OK(mg_thread_create(&threads[i], 0, comes_and_goes, &threads[i]));
        for (int i = 0; i < AT_ONCE; i++) {
            void *result = NULL;
            OK(mg_thread_join(threads[i], &result));
            CHECK(result == &threads[i]);
        }
    }
    long grown = mg_node() == 0 ? resident_kb() - before : 0;
    if (grown > AT_ONCE * ROUNDS * 3 / 4 * KB_EACH_LEAVES / 4)
        printf("grown by %ld KB\n", grown);
    CHECK(grown <= AT_ONCE * ROUNDS * 3 / 4 * KB_EACH_LEAVES / 4);
    return 0;
}
