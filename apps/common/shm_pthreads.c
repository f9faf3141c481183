/* shm_pthreads.c - shm.h for the threads of one process: the reference that DSM is measured by. */
#include "app.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A mutex with its own count, kept on a cache line of its own; `taken` belongs to the holder. */
struct counted_mutex {
    _Alignas(64) pthread_mutex_t mutex;
    uint64_t taken;
};

/* What a worker adds to a sum; `half` is the worker's own. */
struct part {
    _Alignas(64) double values[2][SHM_SUMS];
    int half;
};

struct start {
    void (*body)(int worker);
    int worker;
};

static int team = 1;
static struct counted_mutex locks[SHM_LOCKS];
static pthread_barrier_t barrier;
static struct part *parts;
static uint64_t arrivals; /* at barriers, of all threads together */

void shm_init(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    for (size_t i = 0; i < SHM_LOCKS; i++)
        pthread_mutex_init(&locks[i].mutex, NULL);
}

const char *shm_set_threads(long threads)
{
    team = threads > 0 ? (int)threads : 1;
    if (pthread_barrier_init(&barrier, NULL, (unsigned)team) != 0)
        return "no barrier for so many threads";
    parts = private_alloc((size_t)team * sizeof *parts);
    return NULL;
}

void shm_finish(void)
{
}

const char *shm_build(void)
{
    return "pthreads";
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
    return team;
}

int shm_workers(void)
{
    return team;
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
    __atomic_fetch_add(word, part, __ATOMIC_RELAXED);
}

/* Elements start on cache lines, so that the hardware does not share falsely what DSM does not. */
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
    if (id >= SHM_LOCKS)
        die("lock %u: ids end at %d", id, SHM_LOCKS - 1);
    pthread_mutex_lock(&locks[id].mutex);
    locks[id].taken++;
}

void shm_unlock(uint32_t id)
{
    pthread_mutex_unlock(&locks[id].mutex);
}

void shm_barrier(void)
{
    __atomic_fetch_add(&arrivals, 1, __ATOMIC_RELAXED);
    pthread_barrier_wait(&barrier);
}

/* The next sum uses the other half, so those that still read this one need not be waited for. */
void shm_sum(int worker, double *values, size_t count)
{
    int half = parts[worker].half;

    if (count > SHM_SUMS)
        die("%zu values to add up: %d is the most", count, SHM_SUMS);
    memcpy(parts[worker].values[half], values, count * sizeof *values);
    parts[worker].half = 1 - half;
    shm_barrier();
    memcpy(values, parts[0].values[half], count * sizeof *values);
    for (int w = 1; w < team; w++)
        for (size_t i = 0; i < count; i++)
            values[i] += parts[w].values[half][i];
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

static void *enter(void *arg)
{
    struct start *start = arg;

    start->body(start->worker);
    return NULL;
}

void shm_run(void (*body)(int worker))
{
    pthread_t *threads = private_alloc((size_t)team * sizeof *threads);
    struct start *starts = private_alloc((size_t)team * sizeof *starts);

    for (int t = 1; t < team; t++) {
        starts[t] = (struct start){.body = body, .worker = t};
        if (pthread_create(&threads[t], NULL, enter, &starts[t]) != 0)
            die("cannot start thread %d", t);
    }
    body(0);
    for (int t = 1; t < team; t++)
        pthread_join(threads[t], NULL);
    free(threads);
    free(starts);
}

/* The caller is at no barrier, so those that wait at the next one do not make up an episode. */
void shm_get_counts(struct shm_counts *out)
{
    uint64_t arrived = __atomic_load_n(&arrivals, __ATOMIC_RELAXED);

    *out = (struct shm_counts){.barriers = arrived / (uint64_t)team};
    for (size_t i = 0; i < SHM_LOCKS; i++) {
        pthread_mutex_lock(&locks[i].mutex);
        out->locks += locks[i].taken;
        pthread_mutex_unlock(&locks[i].mutex);
    }
}
