//! Which homes migrate: the plan of a quiescent barrier, and how often that has happened.

use std::collections::BTreeMap;

use multigrain_types::{MinipageId, NodeId};

use crate::bend::mutant;
use crate::vector_time::at;

/// What a barrier's manager found when the whole job was quiescent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct MigrationPlan {
    /// Which epoch begins.
    pub epoch: u64,
    /// The manager's vector time then.
    pub clock: Vec<u64>,
    /// Minipages and their new homes.
    pub moves: Vec<(MinipageId, NodeId)>,
}

/// Whether a minipage's only writer is named in the plan: a dynamic home is, wherever it is, for not all nodes
/// know.
#[must_use]
pub fn migrates(home: NodeId, is_dynamic: bool, writer: NodeId) -> bool {
    is_dynamic || home != writer
}

/// Of all writes since the last quiescent barrier: the minipages that one node alone has written, and
/// that node.
pub(crate) fn sole_writers(
    writes: impl Iterator<Item = (NodeId, MinipageId)>,
) -> Vec<(MinipageId, NodeId)> {
    let mut writers: BTreeMap<MinipageId, Option<NodeId>> = BTreeMap::new();
    for (writer, minipage) in writes {
        let several = mutant!("two-writers-move-home": Some(writer), else None);
        writers.entry(minipage).and_modify(|sole| *sole = several).or_insert(Some(writer));
    }
    writers.into_iter().filter_map(|(minipage, sole)| Some((minipage, sole?))).collect()
}

/// The migrations of a job as one node knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Migrations {
    /// How often homes have migrated: barriers that found the whole job quiescent.
    epoch: u64,
    /// The vector time at the last of them.
    since: Vec<u64>,
    /// What is known of the writes since then.
    writes: Writes,
    /// What the last quiescent barrier's manager found; its release follows, or has.
    latest: MigrationPlan,
}

/// What is known of the writes since the last quiescent barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Writes {
    /// All that this node has received.
    #[default]
    Known,
    /// Some of it was forgotten.
    Forgotten,
}

impl Migrations {
    /// Of a job whose nodes all know of this time, and whose homes have migrated so often.
    pub(crate) fn starting_at(epoch: u64, clock: &[u64]) -> Self {
        let latest = MigrationPlan { epoch, clock: clock.to_vec(), moves: Vec::new() };
        Self { epoch, since: clock.to_vec(), writes: Writes::Known, latest }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The epoch that the next plan begins.
    pub(crate) fn next_epoch(&self) -> u64 {
        self.epoch + 1
    }

    /// The last interval of a node before the last quiescent barrier.
    pub(crate) fn since(&self, writer: NodeId) -> u64 {
        at(&self.since, writer)
    }

    pub(crate) fn latest(&self) -> &MigrationPlan {
        &self.latest
    }

    /// A node's writes up to this interval have been forgotten.
    pub(crate) fn forget(&mut self, writer: NodeId, interval: u64) {
        if interval > self.since(writer) {
            self.writes = Writes::Forgotten;
        }
    }

    /// A plan came, or one more part of the last.
    pub(crate) fn receive(&mut self, plan: &MigrationPlan) {
        let is_part = plan.epoch == self.latest.epoch;
        let is_part = mutant!(
            "old-plan-repeated": is_part || plan.clock == self.latest.clock,
            else is_part
        );
        if is_part {
            self.latest.moves.extend(&plan.moves);
        } else {
            self.latest = plan.clone();
        }
    }

    /// Whether this node knows all writes since the last quiescent barrier. Those after the next count
    /// as known again.
    pub(crate) fn take_writes_known(&mut self) -> bool {
        core::mem::take(&mut self.writes) == Writes::Known
    }

    /// Manager: what the releases of a quiescent barrier shall say.
    pub(crate) fn announce(&mut self, clock: Vec<u64>, moves: Vec<(MinipageId, NodeId)>) {
        self.latest = MigrationPlan { epoch: self.next_epoch(), clock, moves };
    }

    /// The release of a quiescent barrier: a new epoch, with these moves.
    pub(crate) fn switch(&mut self) -> Vec<(MinipageId, NodeId)> {
        self.epoch += 1;
        self.since.clone_from(&self.latest.clock);
        self.writes = Writes::Known;
        self.latest.moves.clone()
    }
}
