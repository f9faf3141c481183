//! What a site of System V programs counts (ADR 55): it sends that with its node's counters, and the launcher sums it up.

use serde::{Deserialize, Serialize};

/// What processes of a site have done with a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentUsage {
    /// Its id; `!id` of a POSIX object.
    pub id: i32,
    /// Faults of processes, to read.
    pub read_faults: u64,
    /// And to write.
    pub write_faults: u64,
    /// Pages that this site had not and got.
    pub pages_fetched: u64,
    /// Pages that it had and were taken away.
    pub pages_taken: u64,
}

/// What was asked of an object; a segment is here for what it is known by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectUsage {
    /// `segment`, `set`, `queue`, `semaphore`; `others` for the sum of those beyond the first ones.
    pub kind: String,
    /// Its id; `!id` of a POSIX shared memory object.
    pub id: i32,
    /// Its key, 0 if it has none.
    pub key: i32,
    /// The name of a POSIX object.
    pub name: String,
    /// Bytes of a segment, semaphores of a set.
    pub size: u64,
    /// Calls: semop, or msgsnd and msgrcv, or sem_post and sem_wait.
    pub calls: [u64; 2],
    /// Calls that had to wait.
    pub waited: u64,
}

/// What a site sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteUsage {
    /// By segment.
    pub sysv_segments: Vec<SegmentUsage>,
    /// By object, of all sites: node 0 has them.
    pub sysv_objects: Vec<ObjectUsage>,
}
