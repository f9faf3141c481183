//! A node's report about false sharing: an allocation whose minipages it lost and fetched again.

use serde::{Deserialize, Serialize};

/// An allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Where it begins; the same on all nodes.
    pub base: u64,
    /// Bytes of it; of an array, of all its elements.
    pub bytes: u64,
    /// Where the program made it; the node that did knows.
    pub made: Option<String>,
    /// Whether these are all the small allocations of up to so many bytes that share pages from `base` on. `made` is where one of
    /// them was made then.
    #[serde(default)]
    pub small: bool,
}

/// Fetches by a node, under release consistency, of pages that it had before and that other nodes had written since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refetches {
    /// All of them.
    pub all: u64,
    /// Of them, those after which this node wrote the page before it lost it again, and no 64 bytes that the others had
    /// written: of parts that begin a page each they had not been, unless it read what the others wrote.
    pub apart: u64,
}

/// Traps of one node on one allocation, and pages that it fetched again. Counts are exact but for `too_fine`; what each says is
/// in the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// Which one.
    #[serde(flatten)]
    pub allocation: Allocation,
    /// Traps of this node's threads on it.
    pub faults: u64,
    /// Of them, those at a place that was as this node had left it when it lost the minipage: nobody else
    /// had written that cache line. With parts in minipages of their own they had not been.
    pub apart: u64,
    /// Others of them, those at a place of 8 bytes that nobody else had written, in a cache line that somebody had:
    /// counters side by side, or the head and the tail of a queue.
    pub beside: u64,
    /// Where most of `apart` and `beside` trapped, in bytes from its begin, and how many more than elsewhere in
    /// its minipage; none if there is no such place.
    pub place: Option<(u64, u64)>,
    /// Of them, those that found the minipage lost again since a trap of the same kind in the same interval
    /// between two synchronizations of this node (releases and acquires of its threads). Under lazy release
    /// they had not been.
    pub again: u64,
    /// Of `faults`, those that had not been, as far as this node knows, if minipages that follow each other and fill a page were
    /// one: of their traps in an interval all but the first, and the first to write what was read, unless one of them was lost since.
    /// An estimate: what other nodes write of other parts of the page would take it away.
    #[serde(default)]
    pub too_fine: u64,
    /// Under release consistency.
    #[serde(default)]
    pub refetches: Refetches,
    /// Whether this node wrote it where `apart` or `beside` counts.
    pub writes: bool,
}
