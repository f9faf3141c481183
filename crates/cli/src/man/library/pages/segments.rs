//! The pages of named segments.

use super::{AREAS, CODE, Entry, ROOM};

const SEGMENT: (&str, &str) = (
    "MG_ENOENT",
    "There is no segment of that name, or it is not made yet (MG_SEGMENT_WAIT waits for it).",
);

pub(super) const PAGES: &[Entry] = &[
    Entry {
        names: &["mg_segment_create", "mg_segment_policy", "mg_placement", "mg_compression"],
        what: "create a named segment",
        about: "",
        returns: CODE,
        errors: &[
            ("MG_EEXIST", "There is a segment of that name."),
            (
                "MG_EINVAL",
                "No bytes, mode bits beyond 0777, a name of 0 or more than 63 bytes, a policy that is none.",
            ),
            ROOM,
            AREAS,
        ],
        see: &["mg_segment_attach", "mg_consistency", "mg_publish", "shmget(2)"],
    },
    Entry {
        names: &["mg_segment_attach", "mg_segment_detach", "mg_segment_remove"],
        what: "use named segments",
        about: "",
        returns: "mg_segment_attach returns a pointer, or NULL: mg_last_error(3) has the code then. The others return \
                  0 or a negative code.",
        errors: &[
            SEGMENT,
            ("MG_EACCES", "The segment's mode allows this process less."),
            ("MG_ENOTSHARED", "This node is not attached to a segment that begins there."),
            ("MG_EPERM", "Another user created it."),
            ("MG_EINVAL", "NULL, a name of 0 or more than 63 bytes, flags that are none."),
        ],
        see: &["mg_segment_create", "mg_segment_stat", "shmat(2)"],
    },
    Entry {
        names: &["mg_segment_set", "mg_segment_option"],
        what: "change how pages of a named segment are shared",
        about: "",
        returns: CODE,
        errors: &[
            ("MG_ENOTSHARED", "No segment lies there."),
            ("MG_EACCES", "This node is not attached to write it."),
            (
                "MG_EINVAL",
                "An option or a value that is none, a range beyond the segment, or release consistency.",
            ),
        ],
        see: &["mg_segment_create", "mg_segment_stat"],
    },
    Entry {
        names: &["mg_write_lock", "mg_write_unlock"],
        what: "keep pages at a node to write",
        about: "",
        returns: CODE,
        errors: &[
            (
                "MG_ENOTSHARED",
                "The address is none of shared memory, or of a segment that this node is not attached to.",
            ),
            ("MG_EINVAL", "A range that ends beyond its allocation; release consistency."),
            ("MG_EACCES", "This node is attached to read them alone."),
            ("MG_EPERM", "This thread has not locked all of them."),
        ],
        see: &["mg_segment_set", "mg_lock"],
    },
    Entry {
        names: &["mg_segment_stat", "mg_segment_stat_at", "mg_segment_info"],
        what: "what is known of a named segment",
        about: "",
        returns: CODE,
        errors: &[
            SEGMENT,
            ("MG_ENOTSHARED", "mg_segment_stat_at: no segment lies there."),
            ("MG_EINVAL", "NULL, or a size that is none."),
        ],
        see: &["mg_segment_create", "mg_segment_attach", "mg_get_stats"],
    },
];
