//! Vector times over nodes: for each node, the last of its intervals that is known. A missing entry is zero.
//! `release/interval_log.rs` keeps a node's own, with the write notices.

use multigrain_types::NodeId;

/// An entry.
pub(crate) fn at(clock: &[u64], node: NodeId) -> u64 {
    clock.get(node.index()).copied().unwrap_or(0)
}

/// The later of two vector times.
pub(crate) fn merge(clock: &mut Vec<u64>, other: &[u64]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (own, other) in clock.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}
