/*
 * shm.h - the few shared-memory calls that the applications make, in three builds:
 *   shm_seq.c       one thread, no library
 *   shm_pthreads.c  -t T threads of one process
 *   shm_mg.c        Multigrain: N nodes x T threads (`multigrain run -n N -t T`)
 * The application sources are the same in all three and hold no #ifdef.
 *
 * Every node runs main(). Memory is allocated by node 0 and looked up by the others, under a name;
 * all nodes make the same shm_block and shm_array calls, from main, before shm_run.
 * A call that fails ends the program with one line on stderr; there is no error to return.
 */
#ifndef APPS_SHM_H
#define APPS_SHM_H

#include <stddef.h>
#include <stdint.h>

/* Lock ids are 0 .. SHM_LOCKS - 1; up to SHM_SUMS values are added at a time. */
enum { SHM_LOCKS = 16384, SHM_SUMS = 16 };

/* One node's counters since shm_init; a build without nodes fills in barriers and locks only. */
struct shm_counts {
    uint64_t barriers;
    uint64_t locks;
    uint64_t read_faults;
    uint64_t write_faults;
    uint64_t messages;
    uint64_t bytes;
    uint64_t competing;
    uint64_t twins; /* this and the rest under release consistency */
    uint64_t diffs;
    uint64_t diff_bytes;
    uint64_t notices;
    uint64_t views;
    uint64_t shared_bytes;
    uint64_t compute_ns; /* of all threads together; this and the rest only where there are nodes */
    uint64_t fault_wait_ns;
    uint64_t lock_wait_ns;
    uint64_t barrier_wait_ns;
    uint64_t other_wait_ns;
    uint64_t racing; /* read faults on what another thread of the node is served */
};

void shm_init(int *argc, char ***argv);
/* Sets the threads per node, 0 = as started; NULL, or why this build cannot run that many. */
const char *shm_set_threads(long threads);
/* Leaves the job; waits for every node. */
void shm_finish(void);

const char *shm_build(void); /* "seq", "pthreads" or "mg" */
int shm_node(void);
int shm_nodes(void);
int shm_threads(void); /* per node */
int shm_workers(void); /* nodes x threads */

/* A zeroed block divided into minipages of `grain` bytes, which is a multiple of the page size. */
void *shm_block(const char *name, size_t bytes, size_t grain);
/* A block divided as the library thinks best: what a program without hints gets. Not zeroed. */
void *shm_plain(const char *name, size_t bytes);
/* A zeroed block for atomics, sequentially consistent whatever the job is. */
void *shm_atomics(const char *name, size_t bytes);
/* Adds to a word of such a block, where the word lives. */
void shm_add(uint64_t *word, uint64_t part);
/*
 * `count` elements of `bytes` each, each a minipage of its own (or `chunk` neighbours in one);
 * their addresses go to out[0 .. count), which is private to the node. Not zeroed.
 */
void shm_array(const char *name, size_t count, size_t bytes, unsigned chunk, void **out);

/* Shared memory of the calling worker, without a name, and its end; as malloc and free. */
void *shm_alloc(size_t bytes);
void shm_free(void *p);

void shm_lock(uint32_t id);
void shm_unlock(uint32_t id);
/* Waits for all workers. */
void shm_barrier(void);
/*
 * Waits for all workers as well; each gets the sums of all their values in place of its own, added in
 * the order of the workers: the same to the last bit for all, and in every run of that many.
 */
void shm_sum(int worker, double *values, size_t count);

/* Hands read copies to every node; asks for a read copy ahead of use. Neither waits. */
void shm_push(const void *p, size_t bytes);
void shm_prefetch(const void *p, size_t bytes);
/* Shows `done` of `total` steps in the launcher's progress line. */
void shm_progress(uint64_t done, uint64_t total);

/* Runs body(worker) on every worker of this node and waits for them; worker = node * T + t. */
void shm_run(void (*body)(int worker));

void shm_get_counts(struct shm_counts *out);

#endif
