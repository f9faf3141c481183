/* shm_seq.c - shm.h for one thread: the calls count what the parallel builds would do. */
#include "app.h"

#include <stdlib.h>
#include <string.h>

static struct shm_counts counts;

void shm_init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
}

const char *shm_set_threads(long threads)
{
    return threads > 1 ? "this is the sequential build; it runs one thread" : NULL;
}

void shm_finish(void)
{
}

const char *shm_build(void)
{
    return "seq";
}

int shm_node(void)
{
    return 0;
}

int shm_nodes(void)
{
    return 1;
}

int shm_threads(void)
{
    return 1;
}

int shm_workers(void)
{
    return 1;
}

void *shm_block(const char *name, size_t bytes, size_t grain)
{
    (void)name;
    (void)grain;
    return private_alloc(bytes);
}

void *shm_plain(const char *name, size_t bytes)
{
    (void)name;
    return private_alloc(bytes);
}

void *shm_atomics(const char *name, size_t bytes)
{
    (void)name;
    return private_alloc(bytes);
}

void shm_add(uint64_t *word, uint64_t part)
{
    *word += part;
}

void shm_array(const char *name, size_t count, size_t bytes, unsigned chunk, void **out)
{
    size_t stride = (bytes + 63) / 64 * 64;
    char *base = private_alloc(count * stride);

    (void)name;
    (void)chunk;
    for (size_t i = 0; i < count; i++)
        out[i] = base + i * stride;
}

void *shm_alloc(size_t bytes)
{
    void *p = malloc(bytes);

    if (p == NULL)
        die("no memory for %zu bytes", bytes);
    return p;
}

void shm_free(void *p)
{
    free(p);
}

void shm_lock(uint32_t id)
{
    (void)id;
    counts.locks++;
}

void shm_unlock(uint32_t id)
{
    (void)id;
}

void shm_barrier(void)
{
    counts.barriers++;
}

void shm_sum(int worker, double *values, size_t count)
{
    (void)worker;
    (void)values;
    (void)count;
    counts.barriers++;
}

void shm_push(const void *p, size_t bytes)
{
    (void)p;
    (void)bytes;
}

void shm_prefetch(const void *p, size_t bytes)
{
    (void)p;
    (void)bytes;
}

void shm_progress(uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
}

void shm_run(void (*body)(int worker))
{
    body(0);
}

void shm_get_counts(struct shm_counts *out)
{
    *out = counts;
}
