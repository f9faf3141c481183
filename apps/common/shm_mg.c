/*
 * shm_mg.c - shm.h over Multigrain: every call is one or two calls of multigrain.h.
 * Node 0 allocates and publishes; the other nodes look up.
 */
#include "app.h"

#include <multigrain.h>
#include <stdlib.h>
#include <string.h>

static void (*team_body)(int worker);

static void must(int code, const char *call)
{
    if (code != MG_OK)
        die("%s: %s", call, mg_strerror(code));
}

static void *must_have(void *p, const char *call, const char *name)
{
    if (p == NULL)
        die("%s for %s: %s", call, name, mg_strerror(mg_last_error()));
    return p;
}

void shm_init(int *argc, char ***argv)
{
    must(mg_init(argc, argv), "mg_init");
}

const char *shm_set_threads(long threads)
{
    return threads > 0 && threads != mg_threads() ? "threads are set by `multigrain run -t`" : NULL;
}

void shm_finish(void)
{
    must(mg_finalize(), "mg_finalize");
}

const char *shm_build(void)
{
    return "mg";
}

int shm_node(void)
{
    return mg_node();
}

int shm_nodes(void)
{
    return mg_nodes();
}

int shm_threads(void)
{
    return mg_threads();
}

int shm_workers(void)
{
    return mg_nodes() * mg_threads();
}

/* What node 0 allocated, on every node. */
static void *known_as(const char *name, void *allocated)
{
    if (mg_node() != 0)
        return must_have(mg_lookup(name), "mg_lookup", name);
    must(mg_publish(name, allocated), "mg_publish");
    return allocated;
}

void *shm_block(const char *name, size_t bytes, size_t grain)
{
    void *p = NULL;

    if (mg_node() == 0)
        p = must_have(mg_malloc_grain(bytes, grain), "mg_malloc_grain", name);
    return known_as(name, p);
}

void *shm_plain(const char *name, size_t bytes)
{
    void *p = NULL;

    if (mg_node() == 0)
        p = must_have(mg_malloc(bytes), "mg_malloc", name);
    return known_as(name, p);
}

void *shm_atomics(const char *name, size_t bytes)
{
    void *p = NULL;

    if (mg_node() == 0) {
        p = must_have(mg_malloc_with(bytes, 0, MG_SEQUENTIAL), "mg_malloc_with", name);
        memset(p, 0, bytes);
    }
    return known_as(name, p);
}

void shm_add(uint64_t *word, uint64_t part)
{
    must(mg_fetch_op(word, MG_UINT64, MG_SUM, &part, NULL), "mg_fetch_op");
}

void shm_array(const char *name, size_t count, size_t bytes, unsigned chunk, void **out)
{
    void *array;

    if (mg_node() == 0) {
        must(mg_set_chunking(chunk), "mg_set_chunking");
        array = must_have(mg_malloc_array(count, bytes), "mg_malloc_array", name);
        must(mg_set_chunking(1), "mg_set_chunking");
        must(mg_publish(name, array), "mg_publish");
    } else {
        array = must_have(mg_lookup(name), "mg_lookup", name);
    }
    must(mg_elements(array, count, out), "mg_elements");
}

void *shm_alloc(size_t bytes)
{
    return must_have(mg_malloc(bytes), "mg_malloc", "a worker");
}

void shm_free(void *p)
{
    must(mg_free(p), "mg_free");
}

void shm_lock(uint32_t id)
{
    must(mg_lock(id), "mg_lock");
}

void shm_unlock(uint32_t id)
{
    must(mg_unlock(id), "mg_unlock");
}

void shm_barrier(void)
{
    must(mg_barrier(0, 0), "mg_barrier");
}

void shm_sum(int worker, double *values, size_t count)
{
    must(mg_allreduce(0, 0, (uint32_t)worker, values, values, count, MG_DOUBLE, MG_SUM),
         "mg_allreduce");
}

void shm_push(const void *p, size_t bytes)
{
    must(mg_push(p, bytes), "mg_push");
}

void shm_prefetch(const void *p, size_t bytes)
{
    must(mg_prefetch_read(p, bytes), "mg_prefetch_read");
}

void shm_progress(uint64_t done, uint64_t total)
{
    mg_progress(done, total);
}

static void *enter(void *arg)
{
    team_body((int)(intptr_t)arg);
    return NULL;
}

void shm_run(void (*body)(int worker))
{
    int first = mg_node() * mg_threads();
    mg_thread *threads = private_alloc((size_t)mg_threads() * sizeof *threads);

    team_body = body;
    for (int t = 1; t < mg_threads(); t++) {
        void *worker = (void *)(intptr_t)(first + t);

        must(mg_thread_create(&threads[t], mg_node(), enter, worker), "mg_thread_create");
    }
    body(first);
    for (int t = 1; t < mg_threads(); t++)
        must(mg_thread_join(threads[t], NULL), "mg_thread_join");
    free(threads);
}

void shm_get_counts(struct shm_counts *out)
{
    struct mg_stats stats;

    must(mg_get_stats(&stats, sizeof stats), "mg_get_stats");
    *out = (struct shm_counts){
        .barriers = stats.barriers,
        .locks = stats.locks,
        .read_faults = stats.read_faults,
        .write_faults = stats.write_faults,
        .messages = stats.messages_sent,
        .bytes = stats.bytes_sent,
        .competing = stats.competing,
        .twins = stats.twins,
        .diffs = stats.diffs_sent,
        .diff_bytes = stats.diff_bytes_sent,
        .notices = stats.notices_sent,
        .views = stats.views,
        .shared_bytes = stats.shared_bytes,
        .compute_ns = stats.compute_ns,
        .fault_wait_ns = stats.fault_wait_ns,
        .lock_wait_ns = stats.lock_wait_ns,
        .barrier_wait_ns = stats.barrier_wait_ns,
        .other_wait_ns = stats.other_wait_ns,
        .racing = stats.racing_faults,
    };
}
