//! Pages of atomic operations.

use super::{CODE, Entry};

pub(super) const PAGES: &[Entry] = &[Entry {
    names: &["mg_fetch_op", "mg_exchange", "mg_compare_exchange"],
    what: "atomic operations where the word lives",
    about: "",
    returns: CODE,
    errors: &[
        (
            "MG_EINVAL",
            "A pointer is NULL, the type or operation is none, the word is not aligned, ends beyond its allocation, or is of release-consistent memory.",
        ),
        ("MG_ENOTSHARED", "The word is none of shared memory."),
        ("MG_EACCES", "It is of a segment that this node is not attached to write."),
        ("MG_ELIMIT", "The node has 4,096 threads that use shared memory."),
    ],
    see: &["mg_allreduce", "mg_lock"],
}];
