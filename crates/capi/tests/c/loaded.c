/*
 * A program that is not linked with the library and loads it when it runs, as Python does. loaded PATH [RANK]: that node
 * closes all descriptors that it has not opened, and the library's are among them.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;

static void *function(const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

/* Calls of functions that return a code. */
#define CALL(name, type, ...)                                                                 \
    do {                                                                                      \
        int (*call)type;                                                                      \
        void *found = function(name);                                                         \
        memcpy(&call, &found, sizeof call);                                                   \
        if (call(__VA_ARGS__) != 0) {                                                         \
            fprintf(stderr, "%s failed\n", name);                                             \
            exit(1);                                                                          \
        }                                                                                     \
    } while (0)

int main(int argc, char **argv)
{
    int (*node)(void), (*nodes)(void);
    void *(*allocate)(size_t), *(*lookup)(const char *);
    void *found;
    int64_t *sum;

    library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    CALL("mg_init", (int *, char ***), &argc, &argv);
    found = function("mg_node");
    memcpy(&node, &found, sizeof node);
    found = function("mg_nodes");
    memcpy(&nodes, &found, sizeof nodes);
    found = function("mg_malloc");
    memcpy(&allocate, &found, sizeof allocate);
    found = function("mg_lookup");
    memcpy(&lookup, &found, sizeof lookup);
    if (node() == 0) {
        sum = allocate(sizeof *sum);
        *sum = 0;
        CALL("mg_publish", (const char *, void *), "sum", sum);
    }
    sum = lookup("sum");
    if (argc > 2 && node() == atoi(argv[2]))
        closefrom(3);
    for (int i = 0; i < 100; i++) {
        CALL("mg_lock", (uint32_t), 1);
        *sum += node() + 1;
        CALL("mg_unlock", (uint32_t), 1);
    }
    CALL("mg_barrier", (uint32_t, uint32_t), 0, 0);
    if (*sum != 50 * (int64_t)nodes() * (nodes() + 1)) {
        fprintf(stderr, "%lld\n", (long long)*sum);
        return 1;
    }
    CALL("mg_finalize", (void));
    return 0;
}
