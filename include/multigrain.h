/*
 * multigrain.h - software distributed shared memory at the grain you choose.
 *
 * A program of threads runs as N nodes (processes) that share one memory. Memory from mg_malloc and
 * its family is sequentially consistent, unless release consistency is asked for (mg_consistency):
 * any node may read, write or apply atomics to it through ordinary pointers, which have the same
 * value on every node. Globals, the stack and malloc memory stay private to a node.
 *
 * Futexes do not cross nodes: what sleeps in the kernel until another node has written shared memory
 * (a wait on a C++20 std::atomic, a process-shared pthread mutex or condition that is contended, sem_wait)
 * sleeps for ever. Poll, or wait by the calls below.
 *
 * SIGSEGV, SIGBUS and SIGTRAP make accesses work (SIGTRAP: on x86-64 they keep shares of contended memory
 * fair). The library finds a place for itself in sigaction, signal, sigprocmask, pthread_sigmask and their
 * older forms (sigset, sighold, sigblock and the like), and in sigsuspend: these three are never blocked, and
 * a program's handler for them, installed before mg_init or after it, gets what is not the library's; so it is in
 * threads of timers (SIGEV_THREAD; refused with ENOTSUP in a static program). With the guard mprotect a stack that is
 * full ends the process without the program's handler. Where a
 * mask comes another way, leave the three out of it: ppoll, pselect, epoll_pwait (if a handler that they let
 * through touches shared memory), pthread_attr_setsigmask_np, setcontext, and system calls of the program's own,
 * which must not replace the handlers of the three either.
 * A handler of any other signal must not touch shared memory while its thread is inside a function of this
 * interface: access and call would wait in the same place, and one of them for ever. Where the call waits already,
 * the node ends with a line that says so; so it does where such a handler calls what waits, exit() as well. It may
 * post a semaphore, anywhere (inside of such a function another thread does it, soon; MG_ELIMIT if 1,024 wait).
 * SIGHUP, SIGINT, SIGQUIT and SIGTERM end a program that has no handler for them at once, also while it waits for
 * memory.
 *
 * A child made by fork() is outside of the job: the functions below give MG_ENOTINIT there, shared memory
 * ends it with one line, and it may exit or exec as it likes. The library keeps its file descriptors and
 * the protection of shared memory to itself: close, close_range, closefrom, dup2 and dup3 leave the ones
 * alone, and mprotect, munmap, mremap and mmap with MAP_FIXED refuse the other with EACCES, and a line on stderr
 * (mg_free takes memory away). mlockall locks what is the program's, but no shared
 * memory, and what was mapped with MAP_NORESERVE, such as the library's tables, only as it is used. Do not
 * give shared memory to madvise(MADV_REMOVE): it empties one node's copy. A thread that uses shared memory
 * needs a stack of 64 KiB, which is not in shared memory: the kernel needs it when an access traps. So does an
 * alternate stack (sigaltstack), if a handler that runs there touches shared memory: where less than 32 KiB of it
 * are left then, the node ends with a line that says so (but with SS_AUTODISARM, where the system does not tell).
 *
 * The library's file descriptors lie above 2, also where stdin, stdout or stderr are closed. They must not be
 * closed: the node ends with one line. A program that loads the library when it runs (dlopen; Python's ctypes), or
 * makes system calls of its own, closes them if it closes all from 3 on (closefrom, os.closerange): the calls named
 * above are not the library's there. Let it close only those that it has opened. In a job of more than 8 nodes links
 * are made when they are first used: a limit that the program lowers (RLIMIT_NOFILE) must leave one for each node.
 * Where there is none for 4 s, the node ends with a line that says so.
 *
 * Hand shared buffers to the kernel through mg_read and its kin: read and write of what is elsewhere fail
 * with EFAULT, and fread and fwrite with a short count.
 *
 * Every int function returns 0 or a negative mg_error; functions that return a pointer return NULL on
 * failure. mg_last_error has the code of what failed last in this thread, and mg_strerror says in words
 * which lock, thread, address or limit it was.
 */
#ifndef MULTIGRAIN_H
#define MULTIGRAIN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

struct timespec; /* C89 and C99 alone have none */

#ifdef __cplusplus
extern "C" {
#endif

#define MG_VERSION_MAJOR 0
#define MG_VERSION_MINOR 1

/* Errors. Values are fixed for ever. */
enum mg_error {
    MG_OK = 0,         /* all went well */
    MG_EINVAL = -1,    /* an argument is wrong: NULL, zero, out of range */
    MG_ENOMEM = -2,    /* no memory, or the job's shared size is used up */
    MG_ENOTINIT = -3,  /* mg_init was not called, or mg_finalize was */
    MG_EAGAIN = -4,    /* mg_init was called already, or another thread is in it */
    MG_ENODE = -5,     /* no such node */
    MG_ENOTSHARED = -6,/* the address is not shared memory, or not the start of an allocation */
    MG_ELIMIT = -7,    /* too many minipages, views, areas, threads or ids; a line on stderr names the limit */
    MG_EPEER = -8,     /* mg_init: another node did not come up, or ended meanwhile */
    MG_ESYS = -9,      /* a system call failed; mg_strerror names it */
    MG_EPERM = -10,    /* not the owner: unlock without lock, free of freed memory */
    MG_EBUSY = -11,    /* a try: somebody has it, or there is none */
    MG_ETIMEDOUT = -12,/* the deadline came first */
    MG_EEXIST = -13,   /* there is a segment of that name already */
    MG_ENOENT = -14,   /* there is no segment of that name */
    MG_EACCES = -15    /* the mode of a segment does not allow that, or this node is not attached to it (for that) */
};

/*
 * What happened, in English; never NULL. If this thread's last failed call gave this code, that call's own
 * words ("unlock of lock 7, which this thread does not hold"), which are good until the thread's next
 * failure or end; if not, one sentence about the code. What is said of a number that is no code is good until the
 * thread asks for another one.
 */
const char *mg_strerror(int error);
/* The code of this thread's last failed call, MG_OK before any; what goes well does not change it. */
int mg_last_error(void);
/* Name and version: "multigrain 0.1.0". */
const char *mg_version(void);

/* ---- Job ------------------------------------------------------------------------------------ */

/*
 * Joins the job that `multigrain run` started, or a process manager (mpiexec, mpirun, srun); without any, a
 * job of one node. If it cannot, it says why in one line on stderr, and returns a code. Under a process
 * manager the program is executed anew before main, to have its addresses fixed. Both arguments may be NULL.
 * Call once, before any other call, while no other thread uses the environment: where the job's secret is
 * found is taken out of it, and the descriptor that it comes by is closed; until then the program closes none
 * that it has not opened. So a program that a node starts cannot join the node's job;
 * mg_init says so there, unless MULTIGRAIN_RANK is unset, and then it is a job of one node. If a node dies
 * while the job starts, mg_init ends this process, so that the launcher can say in one line who it was.
 * A program may fork before, or call daemon(): of its processes the first that calls mg_init is the node, and
 * the others get MG_EINVAL. (Open MPI's mpirun ends a job whose processes call daemon().) Any thread may call this; if it is not the main thread, main returns or calls exit(),
 * for its end by pthread_exit is not noticed then.
 */
int mg_init(int *argc, char ***argv);
/*
 * Waits for every node, then leaves the job; until then this node goes on serving its memory to the
 * others. exit(0) calls it if the program did not, and waits for a call under way in another thread; a
 * call while another thread is in exit(0) waits for that. Any other exit ends the job as a failure.
 * Shared memory is gone then: touching it, even by an atexit handler, ends the process with one line. A
 * thread that waits in one of these functions meanwhile, for a lock or a signal, waits until the process ends.
 * Threads of this node that still run when all nodes leave end with its process, as after exit(3): join those whose work counts.
 */
int mg_finalize(void);

int mg_node(void);    /* this node's rank, 0 to mg_nodes() - 1; negative before mg_init */
int mg_nodes(void);   /* nodes in the job */
int mg_threads(void); /* threads each node is meant to run (`multigrain run -t`), at least 1 */

/* Shows `done` of `total` steps in the launcher's progress line; cheap, may be called often. */
void mg_progress(uint64_t done, uint64_t total);

/* ---- Memory --------------------------------------------------------------------------------- */

/*
 * What a program may rely on when it shares memory. The default is that of the job, sequential
 * unless `multigrain run --consistency` says otherwise.
 *
 * Sequential: every access takes place in one order all nodes agree on.
 *
 * Release (eager or lazy): many nodes may write a page at the same time, and the program keeps to
 * these rules:
 * - A write is seen by another node only after a lock, barrier, semaphore, thread start or thread
 *   join has ordered it before the read, or a name: what was written before mg_publish is seen
 *   after the mg_lookup that returns it. A condition variable orders through its lock.
 * - There are no data races: of two accesses to a byte, one of them a write, these calls put one
 *   before the other. Different bytes may be written at the same time, also in one word.
 * - Atomics and flags that are polled are unsafe on this memory: they do not communicate. Keep them
 *   in sequential memory; what they announce must be sequential too. The first atomic instruction
 *   that a node traps at here is named on stderr with file and line (built with -g), and is an error
 *   under `multigrain run --check-races`.
 *
 * Eager: the call that releases (unlocks, arrives, posts, starts, ends) has notified all nodes with a
 * copy of what was written before it returns. Lazy: the call that acquires learns of it. Auto: lazy,
 * and adapted at barriers by what is counted.
 */
enum mg_consistency {
    MG_DEFAULT = 0,       /* as the job has it */
    MG_SEQUENTIAL = 1,    /* one order of all accesses */
    MG_EAGER_RELEASE = 2, /* releases notify */
    MG_LAZY_RELEASE = 3,  /* acquires learn */
    MG_AUTO = 4           /* lazy and adaptive */
};

/*
 * Memory of the job's consistency. If that is sequential, one allocation = one minipage up to
 * a page, a larger one is divided into minipages of one page, and a node's fresh memory is writable
 * there at once: no fault. If not, see mg_malloc_with. Alignment: 16 bytes as malloc's, a page for
 * allocations above half a page, and 8 bytes for those of less than 16 bytes, which no type of more
 * fits in. So a minipage of less than 16 bytes has 8; any other up to half a page has a multiple of
 * 16 bytes, as many as lets the most of them share a page; larger ones have whole pages. The contents
 * are undefined (mg_calloc zeroes). 0 bytes are 1, as of mg_calloc, mg_memalign, mg_realloc and
 * mg_malloc_with: a pointer of its own. Allocation calls may be made by any node and thread; the memory
 * belongs to the whole job until mg_free.
 */
void *mg_malloc(size_t bytes);
/* As mg_malloc, zeroed. */
void *mg_calloc(size_t count, size_t bytes);
/*
 * As mg_malloc, at a multiple of `align`, a power of two up to 4 MiB. The minipage has a multiple of
 * `align` bytes up to half a page; with an `align` above a page the allocation shares no page.
 */
void *mg_memalign(size_t align, size_t bytes);
/*
 * The allocation p, which any node made, with another size: p itself if it has room and is not twice
 * too large, else a new allocation of this node, of the same consistency and, if p has minipages of a
 * grain, of that grain, with the contents of p, which is freed. p = NULL: as mg_malloc. On NULL, p is as
 * it was. The alignment of mg_memalign is not kept. MG_ENOTSHARED: an mg_malloc_array cannot grow.
 */
void *mg_realloc(void *p, size_t bytes);
/* Bytes from p on that the allocation p may use, those asked for or more; 0 and mg_last_error if p is
 * not the start of one, or is that of an mg_malloc_array. Freed memory may still be taken for an allocation. */
size_t mg_usable_size(const void *p);
/* A copy of a C string, as mg_malloc makes it. */
char *mg_strdup(const char *text);
/*
 * `count` elements of `bytes` each, every element a minipage of its own, as an array of pointers
 * would give, in one call. Element i is at mg_element(base, i): consecutive elements lie in
 * different views, so plain indexing does not apply. Elements of up to half a page keep their
 * size, rounded up to 4 bytes (148 bytes make 27 minipages a page); larger ones take whole pages.
 * With a chunking level c (mg_set_chunking), c neighbours share a minipage (Millipage 4.4). In a
 * job that is not sequential, mg_malloc_array_with says how they lie.
 */
void *mg_malloc_array(size_t count, size_t bytes);
/* Address of element i of an mg_malloc_array; NULL if out of range, or, as soon as the node knows, if the array was freed. */
void *mg_element(void *array, size_t i);
/* All element addresses of an mg_malloc_array at once, into out[0 .. count). */
int mg_elements(void *array, size_t count, void **out);
/*
 * One contiguous block divided into minipages of `grain` bytes; grain is rounded up to whole
 * pages. grain >= bytes makes the whole block one minipage. MG_ELIMIT: a minipage, of whatever call, has
 * 1 GiB at most. A release-consistent minipage has 512 KiB at most: of a larger grain it has those.
 */
void *mg_malloc_grain(size_t bytes, size_t grain);
/*
 * As mg_malloc, of this consistency; memory of unlike consistency never shares a page. `grain` is
 * the bytes of a minipage, or 0 for what is natural:
 * - sequential: as mg_malloc says;
 * - release: a page. Allocations of up to half a page share one with others of about their size;
 *   larger ones are contiguous, begin a page, and each of their pages is a minipage. A release
 *   costs by the minipages written since the last one: many small ones would make it dear.
 * With a grain, an allocation of up to the grain is one minipage of its own, and a larger one is
 * divided into minipages of the grain, rounded up to whole pages. A release-consistent minipage has 512 KiB at most:
 * of a larger grain it has those.
 */
void *mg_malloc_with(size_t bytes, size_t grain, enum mg_consistency consistency);
/*
 * As mg_malloc_array, of this consistency; mg_element says where elements lie. Of release memory,
 * elements up to a page fill minipages of one page, as many as fit, whatever the chunking level;
 * larger ones begin a page, and each of their pages is a minipage.
 */
void *mg_malloc_array_with(size_t count, size_t bytes, enum mg_consistency consistency);
/*
 * Gives an allocation back, from any node. NULL is allowed. Where nothing is allocated any more, the
 * memory goes back to the system, and any node may have the place for anything: arrays and blocks above
 * 1 MiB at once, smaller ones and parts that the library divides among small allocations if their node
 * has not a few to keep, which it gives up when any node finds no room. What is touched after that is an
 * address of nobody: SIGSEGV. MG_EPERM: it is free already. What goes back so leaves about 180 bytes on each
 * node until the job ends, and some 450 more where release consistent memory was used: who frees large blocks for ever should use them again. What the library knew of the minipages, about 1 KiB for each that was
 * touched far from others, it keeps for later ones.
 */
int mg_free(void *p);
/*
 * Chunking level for later mg_malloc_array and small mg_malloc calls of this node, up to 65,536; 1 is
 * off. Only the node that allocates needs to set it. It applies to sequential memory alone.
 */
int mg_set_chunking(unsigned level);

/*
 * Makes an address of shared memory known to the job under a name (up to 63 bytes), or known anew under an
 * old one. MG_ENOTSHARED: the address is this node's own, and means nothing on others. MG_ELIMIT: the job
 * has 65536 names already.
 */
int mg_publish(const char *name, const void *p);
/*
 * The address published under a name; waits until some node has published it. MG_ENOTSHARED: it is none of shared
 * memory any more.
 */
void *mg_lookup(const char *name);

/*
 * Asks for read or write copies of [p, p + bytes) without waiting. MG_EINVAL, as of mg_push, mg_touch_read and
 * mg_touch_write: the range ends beyond its allocation (of an array of elements that share pages: beyond its
 * element), and nothing is done; 0 bytes are none. MG_EACCES: they are in a segment that this node is not attached to,
 * or only to read where they are to be written.
 */
int mg_prefetch_read(const void *p, size_t bytes);
int mg_prefetch_write(void *p, size_t bytes);
/* Hands read copies of the minipages in [p, p + bytes) to every node. Does not wait. */
int mg_push(const void *p, size_t bytes);
/*
 * Makes [p, p + bytes) accessible to system calls, which do not fault (they fail with EFAULT):
 * returns once this node holds every minipage for reading, or writing. Another node that wants one may
 * take it away before the call: mg_read and its kin have no such gap.
 */
int mg_touch_read(const void *p, size_t bytes);
int mg_touch_write(void *p, size_t bytes);

/*
 * ---- Named segments -----------------------------------------------------------------------------
 *
 * Memory under a name: one node creates a segment, any node attaches to it by its name at any time, and detaches. It
 * lies at the same address on all nodes. Its bytes are of the job's shared size, and it lives until it is removed and
 * nobody is attached, or the job ends. A node may attach several times, to read or to write; it needs as many
 * detaches. What it touches beyond what its attaches allow ends the program with one line (SIGSEGV or SIGBUS, as the
 * guard has it), unless it has a handler of its own.
 *
 * Rights are those of System V segments: a mode of a file's bits (0600, 0644) for the user and the group of the
 * process that created it and for all others; user 0 may do anything. All processes of a job trust each other with
 * who they are. A name has 1 to 63 bytes; names of segments and those of mg_publish are apart, and may be equal.
 */

/* Who keeps the directory entries of a segment's minipages. */
enum mg_placement {
    MG_PLACE_LIBRARY = 0, /* the node that creates it, its library site */
    MG_PLACE_SPREAD = 1,  /* all nodes in turn */
    MG_PLACE_FIRST = 2,   /* node 0 */
    MG_PLACE_BLOCK = 3    /* each node a block of neighbours */
};

/*
 * How a segment's pages are compressed on their way to another node. Each page goes as it is unless that makes it a
 * quarter shorter; one that does not compress is tried seldom until it does. Pages of zeros are not sent at all. What a
 * fault costs more, and when it pays, is in docs/adr/0052-compression.md.
 */
enum mg_compression {
    MG_COMPRESS_NONE = 0,       /* not at all */
    MG_COMPRESS_RUN_LENGTH = 1, /* runs of a repeated word of 8 bytes: quickest, for what is nearly empty */
    MG_COMPRESS_LZ4 = 2,        /* LZ4: quick, for text and records */
    MG_COMPRESS_ZSTD = 3        /* Zstandard: shortest, for slow networks */
};

/* How a segment is shared, fixed when it is created. All zero but for `size` is what NULL stands for. */
struct mg_segment_policy {
    size_t size;                     /* sizeof(struct mg_segment_policy); later versions append */
    enum mg_consistency consistency; /* what a program may rely on; MG_DEFAULT: as the job has it */
    enum mg_placement placement;     /* who manages it */
    size_t grain;                    /* bytes of a minipage, rounded up to pages, 512 KiB at most of release memory; 0: a page */
    uint64_t window_us;              /* time window, see mg_segment_set; 0: as contention suggests */
    enum mg_compression compression; /* of pages that are sent, where that makes them shorter */
};

/*
 * Creates a segment of zeroed bytes under a name; nobody is attached to it yet. This node is its library
 * site. MG_EEXIST: there is one of that name. MG_EINVAL: no bytes, mode bits beyond 0777, a policy that is none, a
 * grain beyond the job's shared size.
 */
int mg_segment_create(const char *name, size_t bytes, unsigned mode, const struct mg_segment_policy *policy);

#define MG_SEGMENT_READ_ONLY 1 /* attach to read alone */
#define MG_SEGMENT_WAIT 2      /* wait until there is such a segment */
/*
 * Attaches this node to the segment of a name; its address. Flags: 0, or MG_SEGMENT_READ_ONLY (a write is an error of the
 * program), MG_SEGMENT_WAIT (until there is one of that name), or both. MG_ENOENT: there is none.
 * MG_EACCES: its mode allows this process less. What a node wrote before it detached is seen after an attach that
 * comes later.
 */
void *mg_segment_attach(const char *name, int flags);
/*
 * Ends an attach of this node to the segment at p, those to read before those to write, for threads share what their
 * node is attached to. MG_ENOTSHARED: it is not attached to one that begins there.
 */
int mg_segment_detach(const void *p);
/*
 * Takes the name away, which is free for another segment then; the segment itself goes when nobody is attached.
 * MG_EPERM: another user created it.
 */
int mg_segment_remove(const char *name);

struct mg_segment_info {
    void *address;                   /* where it lies on every node */
    size_t bytes;                    /* as it was created */
    size_t grain;                    /* bytes of a minipage */
    int library;                     /* the node that created it */
    enum mg_consistency consistency; /* never MG_DEFAULT */
    enum mg_placement placement;     /* who manages it */
    uint32_t user;                   /* of the process that created it */
    uint32_t group;                  /* of that process */
    uint32_t mode;                   /* who may do what */
    int removed;                     /* not 0: its name is gone */
    uint32_t attached_nodes;         /* nodes that are attached */
    int access;                      /* of this node: 0 not attached, 1 to read, 2 to write */
    uint64_t attached;               /* attaches that have not been detached, over all nodes */
    uint64_t attaches;               /* all attaches there have been */
    uint64_t window_us;              /* its time window, but for pages for which another was set */
    /* Of this node's threads since mg_init, nanoseconds where it says so. */
    uint64_t read_faults;            /* traps that asked for a read copy */
    uint64_t write_faults;           /* traps that asked for a writable copy */
    uint64_t wait_ns;                /* waited for them in all */
    uint64_t longest_wait_ns;        /* the longest of these waits */
    uint64_t windows;                /* grants that a time window of mg_segment_set kept */
    uint64_t retries;                /* instructions that lost what they were granted before they were through */
    /* What this node has sent of its pages since mg_init, but for pages of zeros. */
    enum mg_compression compression; /* as it was created */
    uint64_t pages_tried;            /* pages that were compressed, or would have been too long */
    uint64_t pages_compressed;       /* pages that went compressed */
    uint64_t raw_bytes;              /* bytes of all pages that went */
    uint64_t sent_bytes;             /* bytes that they took */
};
/*
 * The segment of a name as it is now, or that at an address, attached or not, and removed or not. `size` is
 * sizeof(struct mg_segment_info): later versions append.
 */
int mg_segment_stat(const char *name, struct mg_segment_info *out, size_t size);
int mg_segment_stat_at(const void *p, struct mg_segment_info *out, size_t size);

/* What mg_segment_set sets. */
enum mg_segment_option {
    MG_SEGMENT_WINDOW = 1 /* the time window, microseconds */
};
/*
 * Sets an option of the pages that bytes from p on lie in, or, with p where a segment begins and 0 bytes, of all its
 * pages; every node knows when this returns. This node has to be attached to write (MG_EACCES).
 *
 * The time window (MIRAGE+'s Delta) is how long a node keeps a page that it was granted, to read or to write, though
 * others ask for it: up to 10,000,000 us. Readers do not wait for readers, and a node that has a page to read and
 * writes it ends its window to read. 0, which is the default, is a window that the library measures: as long as the
 * others' turns while nodes compete, and none else; also then no page is taken from an instruction twice before it
 * was used. MG_EINVAL: more than that, a range beyond the segment, or release consistency, where nodes do not take
 * pages from each other.
 */
int mg_segment_set(const void *p, size_t bytes, enum mg_segment_option option, uint64_t value);

/*
 * Locks the pages that bytes from p on lie in, to write: they come to this node, and no other node gets one of
 * them, not even to read, until this thread unlocks them, whatever time window there is (MIRAGE+ 5.4). Threads of one
 * node do not exclude each other so. A thread may lock pages again, and unlocks them as often; when it ends, or its
 * node leaves, it has none locked. Any shared memory will do that is sequentially consistent (MG_EINVAL if not). Lock pages in
 * the same order everywhere, and wait for nothing that needs them elsewhere: such a deadlock is not found.
 * MG_EACCES: this node is not attached to write them. MG_EPERM: unlock of a page that this thread has not locked.
 */
int mg_write_lock(const void *p, size_t bytes);
int mg_write_unlock(const void *p, size_t bytes);

/*
 * ---- System calls and stdio --------------------------------------------------------------------
 *
 * The kernel does not wait for memory that is elsewhere: a system call on it fails with EFAULT or does
 * only a part, and so do fread and fwrite of buffers larger than the stream's. These do as read(2),
 * write(2), pread(2), pwrite(2), recv(2), send(2), fread(3) and fwrite(3) do, with buffers anywhere: the
 * bytes of shared ones pass through memory of the library, 4 MiB at a time, while other nodes may use
 * them. A partial transfer means what it means there. (For all others: mg_touch_read, mg_touch_write.)
 * A shared buffer that ends beyond its allocation is refused before anything is done: -1 and EFAULT, of
 * mg_fread and mg_fwrite 0 items and EFAULT, and mg_last_error gives MG_EINVAL; MG_EACCES where it is in a
 * segment that this node is not attached to, or only to read what would be written; MG_ENOTSHARED where it was freed and
 * the library has given the place up (until then, as with free(3), nobody notices). After other failures it
 * gives MG_ESYS, and mg_strerror(mg_last_error()) is the call and what errno means.
 */

ssize_t mg_read(int file, void *buffer, size_t bytes);
ssize_t mg_write(int file, const void *buffer, size_t bytes);
ssize_t mg_pread(int file, void *buffer, size_t bytes, int64_t offset);
ssize_t mg_pwrite(int file, const void *buffer, size_t bytes, int64_t offset);
ssize_t mg_recv(int socket, void *buffer, size_t bytes, int flags);
ssize_t mg_send(int socket, const void *buffer, size_t bytes, int flags);
size_t mg_fread(void *buffer, size_t size, size_t count, FILE *file);
size_t mg_fwrite(const void *buffer, size_t size, size_t count, FILE *file);

/*
 * ---- Synchronization: ids are any numbers below 2^32 - 1, ready to use --------------------------
 *
 * A job all of whose threads wait in such calls, in mg_finalize, mg_thread_join, mg_lookup or pthread_join for each
 * other, or some of whose threads wait in a cycle, each for a lock or read-write lock that the next one holds or for its end
 * (mg_thread_join), ends with one line that says who waits where, and with exit code 35 (EDEADLK). (A thread's number there is its place in the table of its
 * node: the lowest that was free when it was started by mg_thread_create or first called one of these.) A thread that does anything else counts as one that
 * may go on. So does, while a program of the job has a handler for a signal such as SIGTERM, one that waits for a semaphore, which
 * that may post, and one of that program in pthread_join, where a handler may do anything. (Handlers of SIGSEGV and others of a
 * program's own faults do not count.)
 *
 * An id costs nothing while nobody uses it, so a program may go on to new ones for ever. A node may have
 * 1,048,576 in use at each node that manages some (id mod nodes): locks it holds, semaphores with units
 * that it posted. Beyond that it gets MG_ELIMIT, or the manager, if it is another node and finds out
 * first, ends the job with one line that names the node and the limit.
 *
 * Locks, barriers, semaphores, conditions, read-write locks and onces have ids of their own each: lock 1 is
 * not semaphore 1. A deadline is a time of CLOCK_REALTIME, as pthread's; MG_EINVAL if tv_nsec is not
 * below 10^9. What can be had at once is had, also when the deadline is over. No call is a cancellation point,
 * here or elsewhere in this interface, but those of mg_read and its kin, which are where their namesakes are, without
 * mg_fread and mg_fwrite. A thread must not be cancelled asynchronously while it is in a
 * call of this library, or in one of the C library's that this one finds a place in: that ends the process.
 */

/*
 * An id that nobody in the job has: of 2^31 to 2^32 - 2, which programs leave to this function. Costs no
 * message. 0 (mg_last_error: MG_ELIMIT) when this node has given out its share, 2^31 / mg_nodes().
 */
uint32_t mg_new_id(void);

/*
 * A lock belongs to the thread that took it. A thread that ends with a lock keeps it for ever: one line on
 * stderr names it, and nobody can unlock it. So it is of the thread that leaves the job, by mg_finalize or by
 * its return from main.
 */
int mg_lock(uint32_t id);
int mg_unlock(uint32_t id);
/* MG_EBUSY if any thread holds it, the caller too. */
int mg_trylock(uint32_t id);
/* Waits until the deadline at most; MG_ETIMEDOUT if the lock was held all the time. */
int mg_timedlock(uint32_t id, const struct timespec *deadline);
/*
 * Waits until `threads` threads of the job have called it with this id; threads = 0 means
 * mg_nodes() * mg_threads(), mg_threads() of them on each node (combined into one message a node).
 * Threads that disagree about `threads` are an error of the program: MG_EPERM on the node that
 * manages the id (id mod nodes), and the end of the job with one line if it is found elsewhere. In a job of more
 * than 8 nodes a barrier with threads = 0 goes by a tree over the nodes, and is another one than those of some threads
 * with the same id: threads that give 0 and threads that give a number never meet there. MG_EINVAL: more threads than
 * the job can have, as -1 is.
 */
int mg_barrier(uint32_t id, uint32_t threads);

/*
 * Collective operations: barriers that bring something along, combined inside of the barrier's messages, within a
 * node first. All threads of the party call the same with the same arguments, but for `place` and their values:
 * `id` and `threads` as of mg_barrier (the ids are others than a barrier's), `place` is the thread's own number of 0
 * to threads - 1, and `root` the place of the thread that gives (mg_broadcast) or alone takes the result
 * (mg_reduce). What was written to shared memory before is seen after, as at a barrier. `in` may be `out`;
 * both may be private or shared memory.
 *
 * Values are combined in the order of the places within each node, and nodes in the order of their lowest
 * places; with threads = 0 in a job of more than 8 nodes each node's with those of the nodes below it in the tree first
 * (of a party of so many `threads`: all in the order of the places): the same places on the same
 * nodes give the same floating-point sum to the last bit, on every node and in every run. Sums of
 * integers wrap around; of a number and a NaN the number is the least and the greatest; MG_AND and MG_OR give 1 or 0.
 *
 * Threads that disagree (about the operation, type, count or root, or two with one place) are an error of the program:
 * MG_EPERM where it is found before the thread has come, which then has not, and else the end of the job with
 * one line. MG_EINVAL for no elements, a place beyond the threads, or more threads than the job can have. Arrays beyond 32 KiB go in pieces of that,
 * each a barrier.
 */
enum mg_type {
    MG_INT32 = 0,
    MG_INT64 = 1,
    MG_UINT64 = 2,
    MG_FLOAT = 3,
    MG_DOUBLE = 4
};
enum mg_operation {
    MG_SUM = 0,
    MG_MIN = 1,
    MG_MAX = 2,
    MG_AND = 3,
    MG_OR = 4
};
int mg_broadcast(uint32_t id, uint32_t threads, uint32_t place, uint32_t root, void *data, size_t bytes);
int mg_reduce(uint32_t id, uint32_t threads, uint32_t place, uint32_t root, const void *in, void *out,
              size_t count, enum mg_type type, enum mg_operation operation);
int mg_allreduce(uint32_t id, uint32_t threads, uint32_t place, const void *in, void *out,
                 size_t count, enum mg_type type, enum mg_operation operation);
/* The result is that of the threads of lower places and the caller's own. */
int mg_scan(uint32_t id, uint32_t threads, uint32_t place, const void *in, void *out,
            size_t count, enum mg_type type, enum mg_operation operation);
/*
 * The same with elements of `bytes` (up to 32 KiB; all threads' together up to 960 KiB) that a function of the program
 * combines, element by element, in the order of all places: `with` is of the later one, the result goes
 * where `into` points. It need not be commutative. Each thread that takes a result calls it itself: all
 * values travel to all nodes. An exception of C++ that leaves it leaves the operation, too, without a result; where
 * the values are so many that they travel in pieces, the other threads then wait for this one.
 */
int mg_reduce_with(uint32_t id, uint32_t threads, uint32_t place, uint32_t root, const void *in, void *out,
                   size_t count, size_t bytes, void (*combine)(void *into, const void *with));
int mg_allreduce_with(uint32_t id, uint32_t threads, uint32_t place, const void *in, void *out,
                      size_t count, size_t bytes, void (*combine)(void *into, const void *with));
int mg_scan_with(uint32_t id, uint32_t threads, uint32_t place, const void *in, void *out,
                 size_t count, size_t bytes, void (*combine)(void *into, const void *with));

/* Counting semaphore; its value starts at 0: post the initial value once. A post of 0 units adds none, and is no error. */
int mg_sem_post(uint32_t id, uint32_t count);
int mg_sem_wait(uint32_t id);
/* MG_EBUSY if it has no unit; one that was just posted elsewhere may be on its way still. */
int mg_sem_trywait(uint32_t id);
/* Waits until the deadline at most; MG_ETIMEDOUT if there was no unit. */
int mg_sem_timedwait(uint32_t id, const struct timespec *deadline);
/*
 * Condition variable `id` used with lock `lock`, which the caller holds. No wake-up is spurious, and
 * a signal that comes with a deadline wakes another thread if there is one.
 */
int mg_cond_wait(uint32_t id, uint32_t lock);
/* As mg_cond_wait; MG_ETIMEDOUT, with the lock held again, if no signal came by then. */
int mg_cond_timedwait(uint32_t id, uint32_t lock, const struct timespec *deadline);
/* Wakes one thread that waits, or all of them; the caller need not hold the lock. */
int mg_cond_signal(uint32_t id);
int mg_cond_broadcast(uint32_t id);
/*
 * Read-write lock: many readers or one writer, first come first served; a thread that reads already may
 * read once more at once, and unlocks as often. Belongs to threads as a lock does. The try forms
 * give MG_EBUSY where the others would wait, perhaps for an unlock elsewhere that is on its way, and where this thread has it
 * already, which is MG_EPERM for the others: a reader unlocks before it asks to write.
 */
int mg_rwlock_rdlock(uint32_t id);
int mg_rwlock_wrlock(uint32_t id);
int mg_rwlock_tryrdlock(uint32_t id);
int mg_rwlock_trywrlock(uint32_t id);
int mg_rwlock_unlock(uint32_t id);
/*
 * Calls f() once in the whole job, in the first thread that comes; all calls of this id return after it has,
 * and see what it wrote to shared memory. Globals it sets are set on its node alone. If an exception of C++ or
 * pthread_exit leaves f, it has not run, and the next that comes runs its own; after a longjmp out of it, nobody does.
 */
int mg_once(uint32_t id, void (*f)(void));

/*
 * The same, keyed by an address of shared memory instead of a number: a lock in a structure is the address
 * of one of its bytes. Nothing is read or written there. MG_ENOTSHARED for any other address. Like
 * ids, they need no initialization; leave them as they began (unlocked, without units) before
 * their memory is freed, for the next owner of the address finds them so. What mg_once_at has run stays run
 * while the job lasts: memory that named it is not to name another one.
 */
int mg_lock_at(const void *lock);
int mg_unlock_at(const void *lock);
int mg_trylock_at(const void *lock);
int mg_timedlock_at(const void *lock, const struct timespec *deadline);
int mg_barrier_at(const void *barrier, uint32_t threads);
int mg_sem_post_at(const void *sem, uint32_t count);
int mg_sem_wait_at(const void *sem);
int mg_sem_trywait_at(const void *sem);
int mg_sem_timedwait_at(const void *sem, const struct timespec *deadline);
int mg_cond_wait_at(const void *cond, const void *lock);
int mg_cond_timedwait_at(const void *cond, const void *lock, const struct timespec *deadline);
int mg_cond_signal_at(const void *cond);
int mg_cond_broadcast_at(const void *cond);
int mg_rwlock_rdlock_at(const void *rwlock);
int mg_rwlock_wrlock_at(const void *rwlock);
int mg_rwlock_tryrdlock_at(const void *rwlock);
int mg_rwlock_trywrlock_at(const void *rwlock);
int mg_rwlock_unlock_at(const void *rwlock);
int mg_once_at(const void *once, void (*f)(void));

/*
 * ---- Atomic operations where the word lives -----------------------------------------------------
 *
 * An atomic instruction on a word that other nodes use moves its minipage here, each time. These do as the instruction
 * does, but where the word lives: on this node if it may write the word now, else by one message and its answer at the
 * node that manages the minipage. So many nodes may count in one word without taking it from each other. They work
 * beside atomic instructions and plain accesses to the same word, each in one order with all others. Turns are not
 * shared out: in a tight loop the node where the word lives does 60 times as many as one that sends for each, and a thousand
 * times or more where nodes share processors. mg_lock is even.
 *
 * `word` is a multiple of its size (4 bytes of MG_INT32 and MG_FLOAT, else 8), in sequentially consistent memory; MG_EINVAL if
 * not (of release-consistent memory: mg_allreduce, or a lock), for NULL, and for a word that ends beyond its allocation.
 * MG_ENOTSHARED: it is in no allocation of shared memory. Of an allocation that was freed it is that once the library has given
 * the place up; until then, as with free(3), the place may be the next allocation's, and nobody notices: to know better, each
 * call would have to ask the node that allocated it. MG_EACCES: this node is not attached to write it. `operand`, `expected` and `before` point to a value of the type, in private or shared memory; `before` may be NULL.
 */
/* The word becomes what the operation makes of it and the operand, as in mg_reduce; `before` gets what it was. */
int mg_fetch_op(void *word, enum mg_type type, enum mg_operation operation, const void *operand, void *before);
/* It becomes `operand`. */
int mg_exchange(void *word, enum mg_type type, const void *operand, void *before);
/* It becomes `operand` if it is `expected`, bit for bit: then `before` gets what `expected` points to. */
int mg_compare_exchange(void *word, enum mg_type type, const void *expected, const void *operand, void *before);

/* ---- Threads --------------------------------------------------------------------------------- */

/* The node in the top 16 bits, a number on that node in the others; never 0. */
typedef uint64_t mg_thread;
#define MG_ANY_NODE (-1)

/*
 * Starts `start(arg)` in a new thread on a node (a rank, or MG_ANY_NODE for the nodes in turn): a thread as
 * pthread_create makes it there, with the signals blocked that the calling thread blocks, which ends by returning, by
 * pthread_exit or by (deferred) cancellation. The
 * main thread may end by pthread_exit: its node leaves when its other threads have ended. Its destructors may call this
 * library, as those of any thread. Where a thread is started on such a node that has none any more, all nodes stay until it has ended.
 * Destructors of thread_local objects and of pthread_key_create run before its end: who joins it sees what they
 * wrote. Those that set their value anew have at least two more calls for that; pthreads have three. A thread
 * whose function has returned is not cancelled in its destructors: its result is what it returned.
 * `arg` should be shared memory or a number; `start` must be a function of the program itself: of
 * its executable, or of a library that is linked with libmultigrain and was loaded before mg_init
 * (MG_EINVAL if not; a node that is asked to start anything else ends the job).
 * MG_ELIMIT: the node has 4,096 threads that use shared memory (its main thread is one), or keeps
 * the results of 65,536 that ended and were never joined, or the system starts no more. Nothing is
 * started then; the first time, a line on that node's stderr says which limit it is.
 */
int mg_thread_create(mg_thread *thread, int node, void *(*start)(void *), void *arg);
/*
 * How a thread is to be. All zero but for `size` is what mg_thread_create makes.
 */
struct mg_thread_attr {
    size_t size;        /* sizeof(struct mg_thread_attr) */
    size_t stack_bytes; /* of its stack; 0: as pthread_create has it (ulimit -s). 65,536 to 2^40 */
    int detached;       /* not 0: begins detached, and cannot be joined */
};
/* As mg_thread_create, with attributes; NULL for none. MG_EINVAL for a size or stack that is none. */
int mg_thread_create_with(mg_thread *thread, int node, const struct mg_thread_attr *attributes,
                          void *(*start)(void *), void *arg);
/*
 * Waits for a thread started by any node; *result may be NULL. Join each thread once: what was
 * joined, is being joined or was detached gives MG_EINVAL.
 */
int mg_thread_join(mg_thread thread, void **result);
/* Nobody will join this thread: its node forgets its result. Once, by any node, in place of joining. */
int mg_thread_detach(mg_thread thread);

/* ---- Statistics ------------------------------------------------------------------------------ */

struct mg_stats {
    uint64_t read_faults;      /* traps of this node's threads that asked for a read copy */
    uint64_t write_faults;     /* those that asked for a writable copy */
    uint64_t local_faults;     /* traps answered without any message */
    uint64_t messages_sent;    /* frames; frames that travel together are one */
    uint64_t bytes_sent;       /* headers and payload */
    uint64_t messages_received;
    uint64_t bytes_received;
    uint64_t page_bytes_sent;  /* minipage contents alone, as they went */
    uint64_t upgrades;         /* write requests answered without data */
    uint64_t invalidations;    /* copies this node lost */
    uint64_t competing;        /* requests queued here behind another for the same minipage */
    uint64_t barriers;         /* mg_barrier calls, and pieces of collective operations, of this node's threads, counted on entry; without mg_finalize's */
    uint64_t locks;            /* calls of mg_lock, mg_trylock and mg_timedlock of this node's threads */
    uint64_t lock_messages;    /* of them, those that needed a message */
    uint64_t minipages;        /* made by this node's allocations; the job's are the sum */
    uint64_t shared_bytes;     /* in this node's live allocations; the job's are the sum */
    uint64_t views;            /* most minipages of this node that share one page: views in use */
    uint64_t twins;            /* copies made of minipages about to be written (release consistency) */
    uint64_t twin_bytes;       /* bytes of those that exist now */
    uint64_t diffs_sent;       /* messages that said what this node wrote */
    uint64_t diff_bytes_sent;  /* their bytes */
    uint64_t notices_sent;     /* minipages named to other nodes as written (lazy release) */
    uint64_t notices_kept;     /* what this node remembers of writes, its own and others' */
    /*
     * Nanoseconds of all threads that use this interface, of each from its first call or trap (the main
     * thread: from mg_init) to its end or mg_finalize. The five are all of that time.
     */
    uint64_t compute_ns;       /* not waiting here: computing, system calls, waits outside of Multigrain */
    uint64_t fault_wait_ns;    /* waiting for minipages, from the trap on */
    uint64_t lock_wait_ns;     /* waiting in mg_lock */
    uint64_t barrier_wait_ns;  /* waiting in mg_barrier */
    uint64_t other_wait_ns;    /* waiting for semaphores, conditions, read-write locks, threads, names and other nodes' answers */
    /*
     * Calls of this node's threads, by numbers and by addresses, counted on entry. mg_once is none of them.
     */
    uint64_t rwlock_reads;     /* mg_rwlock_rdlock and mg_rwlock_tryrdlock */
    uint64_t rwlock_writes;    /* mg_rwlock_wrlock and mg_rwlock_trywrlock */
    uint64_t sem_waits;        /* mg_sem_wait, mg_sem_trywait and mg_sem_timedwait */
    uint64_t sem_posts;        /* mg_sem_post, of however many units */
    uint64_t cond_waits;       /* mg_cond_wait and mg_cond_timedwait */
    uint64_t cond_signals;     /* mg_cond_signal and mg_cond_broadcast */
    uint64_t racing_faults;    /* of the read faults: while another thread of this node was served the same minipage */
};
/*
 * This node's counters since mg_init; `size` is sizeof(struct mg_stats). Later versions append counters:
 * a program gets those it was compiled with, and 0 for what an older library does not count.
 */
int mg_get_stats(struct mg_stats *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
