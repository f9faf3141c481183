//! A node's report about false sharing: an allocation whose minipages it lost and fetched again.

use serde::{Deserialize, Serialize};

/// Traps of one node on one allocation. Counts are exact but for the last; what each says is in the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// Where it begins; the same on all nodes.
    pub base: u64,
    /// Bytes of it; of an array, of all its elements.
    pub bytes: u64,
    /// Where the program made it; the node that did knows.
    pub made: Option<String>,
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
    /// Whether this node wrote it where `apart` or `beside` counts.
    pub writes: bool,
}
