//! One episode of a barrier, as far as one node gathers it: who has come, and whether all of them are quiescent.

use multigrain_types::NodeId;
use multigrain_types::sync_id::IdName;

use super::input::SyncError;
use super::small_map::SmallMap;
use crate::nodeset::NodeSet;

/// Threads by the node that has announced them.
pub(super) type Came = SmallMap<NodeId, u32>;

/// Who has come to the present episode.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Gathering {
    came: Came,
    /// Their sum.
    here: u64,
    /// The episode's size, once somebody has come.
    total: u32,
    /// Of them, those that are quiescent.
    quiescent: NodeSet,
}

impl Gathering {
    /// Whether so many more threads may come to a barrier of `total`, of which `part` gather here.
    pub(super) fn check(
        &self,
        id: u64,
        (arrivals, total): (u32, u32),
        part: u64,
    ) -> Result<(), SyncError> {
        if !self.came.is_empty() && self.total != total {
            return Err(SyncError::Misuse(format!(
                "barrier {}: threads disagree about its size ({} and {total})",
                IdName(id),
                self.total
            )));
        }
        let sum = self.here + u64::from(arrivals);
        if sum > part {
            return Err(SyncError::Misuse(format!(
                "barrier {}: {sum} threads came to a barrier of {part}",
                IdName(id)
            )));
        }
        Ok(())
    }

    /// Threads of a node, or of it and those below it, have come; they were checked. Whether that makes up the `part`.
    /// `quiescent` says whether all of the node are here, given how many are: its last word counts.
    pub(super) fn come(
        &mut self,
        from: NodeId,
        (arrivals, total): (u32, u32),
        quiescent: impl FnOnce(u32) -> bool,
        part: u64,
    ) -> bool {
        self.total = total;
        self.here += u64::from(arrivals);
        self.came.update(from, |of_node| *of_node += arrivals);
        if quiescent(self.of(from)) {
            self.quiescent.insert(from);
        } else {
            self.quiescent.remove(from);
        }
        self.here == part
    }

    /// How many threads a node has announced.
    pub(super) fn of(&self, node: NodeId) -> u32 {
        self.came.get(node)
    }

    /// A node takes back that it is quiescent; false if it has not come to this episode.
    pub(super) fn retract(&mut self, node: NodeId) -> bool {
        self.quiescent.remove(node);
        self.of(node) > 0
    }

    /// The episode is complete: who came, and whether all of `nodes` did and are quiescent.
    pub(super) fn conclude(&mut self, nodes: u16) -> (Came, bool) {
        (self.here, self.total) = (0, 0);
        let quiescent = core::mem::take(&mut self.quiescent).len() == usize::from(nodes);
        (core::mem::take(&mut self.came), quiescent)
    }
}
