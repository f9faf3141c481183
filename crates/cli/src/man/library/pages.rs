//! What a page of section 3 has beside the header's text: which functions share a page, return values, errors.

mod atomics;
mod segments;

/// One page.
pub(super) struct Entry {
    /// What is declared there, the page's own name first.
    pub(super) names: &'static [&'static str],
    /// After the names, as in "mg_lock - ...".
    pub(super) what: &'static str,
    /// What comes before the functions one by one.
    pub(super) about: &'static str,
    pub(super) returns: &'static str,
    /// Codes beside [`ALWAYS`], each with its cause; without one, what the header says of the code.
    pub(super) errors: &'static [(&'static str, &'static str)],
    pub(super) see: &'static [&'static str],
}

/// What every call that can fail may give.
pub(super) const ALWAYS: (&str, &str) =
    ("MG_ENOTINIT", "mg_init was not called, or mg_finalize was, or this is a child made by fork.");

/// Of functions that return an int.
pub(super) const CODE: &str = "These functions return 0, or one of the negative codes below.";
const POINTER: &str = "A pointer, or NULL: mg_last_error(3) has the code then.";
const IDS: (&str, &str) = (
    "MG_ELIMIT",
    "The node has 4,096 threads that use shared memory, or 1,048,576 ids in use at the node that manages this one.",
);
const PLACE: (&str, &str) =
    ("MG_ENOTSHARED", "Of the calls with an address: it is none of shared memory.");
const NO_ID: (&str, &str) = ("MG_EINVAL", "The id is 2^32 - 1, which is the library's own.");
const UNTIL: (&str, &str) = (
    "MG_EINVAL",
    "The id is 2^32 - 1, which is the library's own; or a deadline is NULL, or has a tv_nsec that is not below 10^9.",
);
const ROOM: (&str, &str) = (
    "MG_ENOMEM",
    "The job's shared size (`multigrain run --shared`) or the system's memory is used up.",
);
const AREAS: (&str, &str) = (
    "MG_ELIMIT",
    "Too many minipages, views or areas, vm.max_map_count, or ulimit -v: mg_strerror(3) or stderr says which.",
);

/// All pages.
pub(super) fn all() -> impl Iterator<Item = &'static Entry> {
    PAGES.iter().chain(segments::PAGES).chain(atomics::PAGES)
}

/// Those that are not in a file of their own.
const PAGES: &[Entry] = &[
    Entry {
        names: &["mg_init", "mg_finalize"],
        what: "join a job as one of its nodes, and leave it",
        about: "A program becomes a node of a job between these two calls.",
        returns: CODE,
        errors: &[
            ("MG_EAGAIN", "mg_init was called before."),
            ("MG_EINVAL", "A variable of the environment makes no sense."),
            ("MG_EPEER", "Another node did not come up, or ended meanwhile."),
            ("MG_ESYS", "A system call failed, or the job's memory cannot be had here."),
        ],
        see: &["mg_node", "multigrain-run(1)"],
    },
    Entry {
        names: &["mg_node", "mg_nodes", "mg_threads"],
        what: "place in the job",
        about: "",
        returns: "A number that is not negative, or MG_ENOTINIT.",
        errors: &[],
        see: &["mg_init"],
    },
    Entry {
        names: &["mg_progress"],
        what: "show how far the program is",
        about: "",
        returns: "Nothing. Outside of a job it does nothing.",
        errors: &[],
        see: &["multigrain-run(1)"],
    },
    Entry {
        names: &[
            "mg_malloc",
            "mg_calloc",
            "mg_memalign",
            "mg_realloc",
            "mg_usable_size",
            "mg_strdup",
            "mg_free",
        ],
        what: "allocate and free shared memory",
        about: "Shared memory has the same address on all nodes and is coherent in minipages, the unit that moves \
                between nodes. These are the calls of malloc(3) for it.",
        returns: "Those that give memory return a pointer, or NULL on failure; mg_usable_size returns bytes, or 0; \
                  mg_free returns 0 or a negative code. mg_last_error(3) has the code of a failure.",
        errors: &[
            ("MG_EINVAL", "An alignment is no power of two up to 4 MiB; NULL for a string."),
            ROOM,
            (
                "MG_ENOTSHARED",
                "The address is not where an allocation begins, or is that of an mg_malloc_array.",
            ),
            AREAS,
            ("MG_EPERM", "mg_free, mg_realloc: it is free already."),
        ],
        see: &["mg_malloc_with", "mg_malloc_array", "mg_consistency", "malloc(3)"],
    },
    Entry {
        names: &["mg_malloc_array", "mg_malloc_array_with", "mg_element", "mg_elements"],
        what: "arrays of separately shared elements",
        about: "",
        returns: "A pointer, or NULL: mg_last_error(3) has the code then. mg_elements returns 0, or a negative code.",
        errors: &[
            (
                "MG_EINVAL",
                "No elements, or of 0 bytes; an index beyond the array; NULL for the addresses.",
            ),
            ROOM,
            ("MG_ENOTSHARED", "The address is not that of an array, or the array was freed."),
            AREAS,
        ],
        see: &["mg_malloc", "mg_set_chunking", "mg_consistency"],
    },
    Entry {
        names: &["mg_malloc_with", "mg_malloc_grain"],
        what: "allocate shared memory of a grain and a consistency",
        about: "",
        returns: POINTER,
        errors: &[
            (
                "MG_EINVAL",
                "An unknown consistency; mg_malloc_grain of 0 bytes, or with a grain of 0.",
            ),
            ROOM,
            ("MG_ELIMIT", "A minipage of more than 1 GiB; too many minipages or areas."),
        ],
        see: &["mg_malloc", "mg_consistency"],
    },
    Entry {
        names: &["mg_consistency"],
        what: "what a program may rely on when it shares memory",
        about: "",
        returns: "These are values of an enumeration, for mg_malloc_with(3) and mg_malloc_array_with(3).",
        errors: &[("MG_EINVAL", "What takes a consistency gives it for any other value.")],
        see: &["mg_malloc_with", "mg_malloc_array", "mg_lock", "mg_barrier"],
    },
    Entry {
        names: &["mg_set_chunking"],
        what: "how many neighbours share a minipage",
        about: "",
        returns: CODE,
        errors: &[("MG_EINVAL", "The level is 0, or beyond 65,536.")],
        see: &["mg_malloc", "mg_malloc_array"],
    },
    Entry {
        names: &["mg_publish", "mg_lookup"],
        what: "name an address for the job, and find it by its name",
        about: "",
        returns: "mg_publish returns 0 or a negative code, mg_lookup a pointer, or NULL: mg_last_error(3) has the \
                  code then.",
        errors: &[
            (
                "MG_EINVAL",
                "A name of no bytes, or of more than 63; NULL for the name or the address.",
            ),
            ("MG_ENOTSHARED", "The address is private to this node."),
            ("MG_ELIMIT", "The job has 65,536 names already."),
        ],
        see: &["mg_malloc"],
    },
    Entry {
        names: &[
            "mg_prefetch_read",
            "mg_prefetch_write",
            "mg_push",
            "mg_touch_read",
            "mg_touch_write",
        ],
        what: "move copies of shared memory ahead of their use",
        about: "Each is about a range of one allocation, and of the minipages that it lies in.",
        returns: CODE,
        errors: &[
            ("MG_ENOTSHARED", "The range does not begin in an allocation of shared memory."),
            (
                "MG_EINVAL",
                "It ends beyond that allocation; of an array of elements that share pages, beyond the \
                           element. Nothing is done then.",
            ),
            (
                "MG_EACCES",
                "It is in a named segment that this node is not attached to, or only to read where it is to be \
                           written.",
            ),
        ],
        see: &["mg_read", "mg_malloc"],
    },
    Entry {
        names: &[
            "mg_read",
            "mg_write",
            "mg_pread",
            "mg_pwrite",
            "mg_recv",
            "mg_send",
            "mg_fread",
            "mg_fwrite",
        ],
        what: "system calls and stdio on buffers in shared memory",
        about: "",
        returns: "As those of the system: bytes or items that were passed on; -1 with errno, of mg_fread and \
                  mg_fwrite fewer items.",
        errors: &[
            (
                "EFAULT",
                "A buffer in shared memory ends beyond its allocation: mg_last_error(3) gives MG_EINVAL. Or it is in a named \
                 segment that this node is not attached to, or only to read what would be written: MG_EACCES. Or it was freed: MG_ENOTSHARED. Nothing \
                 was done.",
            ),
            (
                "others",
                "As read(2), write(2), recv(2), send(2), fread(3) and fwrite(3). mg_last_error(3) gives MG_ESYS, and \
                 mg_strerror(3) the call and what errno means.",
            ),
        ],
        see: &["mg_touch_read", "read(2)", "write(2)", "fread(3)"],
    },
    Entry {
        names: &["mg_new_id"],
        what: "an id for synchronization that nobody has",
        about: "",
        returns: "An id, or 0: mg_last_error(3) has the code then.",
        errors: &[("MG_ELIMIT", "This node has given out its share.")],
        see: &[
            "mg_lock",
            "mg_barrier",
            "mg_sem_post",
            "mg_cond_wait",
            "mg_rwlock_rdlock",
            "mg_once",
        ],
    },
    Entry {
        names: &[
            "mg_lock",
            "mg_unlock",
            "mg_trylock",
            "mg_timedlock",
            "mg_lock_at",
            "mg_unlock_at",
            "mg_trylock_at",
            "mg_timedlock_at",
        ],
        what: "locks of the job",
        about: "A lock is held by one thread of the job at a time. Who takes it sees what was written by all that \
                held it before.",
        returns: CODE,
        errors: &[
            UNTIL,
            PLACE,
            ("MG_EPERM", "mg_lock: this thread holds it already. mg_unlock: it does not."),
            ("MG_EBUSY", "mg_trylock: a thread holds it."),
            ("MG_ETIMEDOUT", "mg_timedlock: it was held until the deadline."),
            IDS,
        ],
        see: &["mg_cond_wait", "mg_rwlock_rdlock", "mg_new_id"],
    },
    Entry {
        names: &["mg_barrier", "mg_barrier_at"],
        what: "wait until so many threads of the job have come",
        about: "What any of the threads wrote before is seen by all of them after.",
        returns: CODE,
        errors: &[NO_ID, PLACE, ("MG_EPERM", "Threads disagree about their number."), IDS],
        see: &["mg_lock", "mg_new_id", "mg_threads"],
    },
    Entry {
        names: &[
            "mg_sem_post",
            "mg_sem_wait",
            "mg_sem_trywait",
            "mg_sem_timedwait",
            "mg_sem_post_at",
            "mg_sem_wait_at",
            "mg_sem_trywait_at",
            "mg_sem_timedwait_at",
        ],
        what: "counting semaphores of the job",
        about: "",
        returns: CODE,
        errors: &[
            UNTIL,
            PLACE,
            ("MG_EBUSY", "mg_sem_trywait: it has no unit."),
            ("MG_ETIMEDOUT", "mg_sem_timedwait: it had none until the deadline."),
            IDS,
        ],
        see: &["mg_lock", "mg_new_id"],
    },
    Entry {
        names: &[
            "mg_cond_wait",
            "mg_cond_timedwait",
            "mg_cond_signal",
            "mg_cond_broadcast",
            "mg_cond_wait_at",
            "mg_cond_timedwait_at",
            "mg_cond_signal_at",
            "mg_cond_broadcast_at",
        ],
        what: "condition variables of the job",
        about: "A thread that holds a lock waits here for another one's signal, without the lock meanwhile. A signal \
                or broadcast that nobody waits for is lost.",
        returns: CODE,
        errors: &[
            UNTIL,
            PLACE,
            ("MG_EPERM", "The caller does not hold the lock."),
            ("MG_ETIMEDOUT", "mg_cond_timedwait: no signal came by the deadline."),
            IDS,
        ],
        see: &["mg_lock", "mg_new_id"],
    },
    Entry {
        names: &[
            "mg_rwlock_rdlock",
            "mg_rwlock_wrlock",
            "mg_rwlock_tryrdlock",
            "mg_rwlock_trywrlock",
            "mg_rwlock_unlock",
            "mg_rwlock_rdlock_at",
            "mg_rwlock_wrlock_at",
            "mg_rwlock_tryrdlock_at",
            "mg_rwlock_trywrlock_at",
            "mg_rwlock_unlock_at",
        ],
        what: "read-write locks of the job",
        about: "",
        returns: CODE,
        errors: &[
            PLACE,
            (
                "MG_EPERM",
                "This thread has it already, to write or to read, and asks without a try to write (or, having it to write, to read); or it gives back what it does not have.",
            ),
            ("MG_EBUSY", "A try: others have it, or came before, or this thread has it already."),
            IDS,
        ],
        see: &["mg_lock", "mg_new_id"],
    },
    Entry {
        names: &["mg_once", "mg_once_at"],
        what: "call a function once in the job",
        about: "",
        returns: CODE,
        errors: &[
            ("MG_EINVAL", "NULL for the function."),
            PLACE,
            ("MG_EPERM", "A call inside of the function."),
            IDS,
        ],
        see: &["mg_new_id"],
    },
    Entry {
        names: &[
            "mg_thread_create",
            "mg_thread_create_with",
            "mg_thread_join",
            "mg_thread_detach",
            "mg_thread_attr",
        ],
        what: "threads on any node",
        about: "",
        returns: CODE,
        errors: &[
            (
                "MG_EINVAL",
                "NULL for the thread or its function, a function that is none of the program, attributes \
                           without sense; or a thread that never was, or was joined or detached.",
            ),
            ("MG_ENODE", "No node has this rank."),
            (
                "MG_ELIMIT",
                "The node can start no more threads, or keeps 65,536 results that nobody joined.",
            ),
        ],
        see: &["mg_threads", "pthread_create(3)"],
    },
    Entry {
        names: &["mg_get_stats", "mg_stats"],
        what: "counters of a node",
        about: "A node counts what it does for shared memory, from mg_init on; `multigrain run --summary` and \
                `--stats` show the counters of all nodes at the end.",
        returns: CODE,
        errors: &[("MG_EINVAL", "NULL for the place, or a size that is 0 or no multiple of 8.")],
        see: &["multigrain-run(1)"],
    },
    Entry {
        names: &["mg_strerror", "mg_last_error", "mg_error"],
        what: "what went wrong",
        about: "",
        returns: "mg_strerror returns a text, never NULL; mg_last_error a code.",
        errors: &[],
        see: &["mg_init"],
    },
    Entry {
        names: &["mg_version"],
        what: "name and version of the library",
        about: "",
        returns: "A text, never NULL.",
        errors: &[],
        see: &["mg_init"],
    },
];
