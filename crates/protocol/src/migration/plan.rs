//! The migration plan of a quiescent barrier: which homes migrate; and the epoch, how often that has happened.

use std::collections::BTreeMap;

use multigrain_types::{MinipageId, NodeId};

use crate::mutant_macro::mutant;
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

/// A home that barriers have migrated so often in a row has writers that change: it is dynamic, it
/// goes to the next node where a thread waits for it. `HomeMoves::count` of `hlrc` counts; only minipages whose consistency has
/// [`crate::Homes::Dynamic`] have such homes (ADR 11).
pub const DYNAMIC_AFTER: u8 = 2;

/// Whether a minipage's only writer is named in the plan, by what its manager knows of the home: where that is dynamic, or
/// may have gone to the first node that touched it, the writer is named wherever it is, for not all nodes know.
#[must_use]
pub fn migrates(home: NodeId, is_known: bool, writer: NodeId) -> bool {
    !is_known || home != writer
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
    /// What the last quiescent barrier's manager found, if this node is that or has its release.
    latest: MigrationPlan,
    /// Of other nodes, what they sent as the next plan: the release that follows says whose counts.
    received: BTreeMap<NodeId, MigrationPlan>,
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
        Self { epoch, since: clock.to_vec(), latest, ..Self::default() }
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

    /// Whether this node has made the moves of the last plan it knows: only then it tells others of that.
    pub(crate) fn has_switched(&self) -> bool {
        self.latest.epoch == self.epoch
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

    /// A plan came from a node, or one more part of it.
    pub(crate) fn receive(&mut self, from: NodeId, plan: &MigrationPlan) {
        let moves = mutant!(
            "old-plan-repeated": if plan.clock == self.latest.clock {
                self.latest.moves.iter().chain(&plan.moves).copied().collect()
            } else {
                plan.moves.clone()
            },
            else plan.moves.clone()
        );
        let parts = self
            .received
            .entry(from)
            .or_insert_with(|| MigrationPlan { moves: Vec::new(), ..plan.clone() });
        parts.moves.extend(moves);
    }

    /// Whether these moves go on where those end that the same node sent before: they come in the order
    /// of minipages, so none has two homes, and no more are kept than there are minipages.
    pub(crate) fn goes_on(&self, from: NodeId, plan: &MigrationPlan) -> bool {
        let before = self.received.get(&from).and_then(|plan| plan.moves.last());
        let moves = before.into_iter().chain(&plan.moves);
        mutant!("moves-without-end": true, else moves.is_sorted_by(|one, other| one.0 < other.0))
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

    /// The release of a quiescent barrier by its manager, `None` for this node: a new epoch, with these
    /// moves. What others have sent as that epoch's plan is void.
    pub(crate) fn switch(&mut self, manager: Option<NodeId>) -> Vec<(MinipageId, NodeId)> {
        let mut received = core::mem::take(&mut self.received);
        if let Some(manager) = manager {
            // A manager that knows of no write at all sends no plan: nothing moves. This node may have to pass the
            // plan on all the same, if it knows of a write after the barrier.
            let epoch = mutant!("empty-plan-of-old": self.latest.epoch, else self.next_epoch());
            let clock = core::mem::take(&mut self.latest.clock);
            let nothing = MigrationPlan { epoch, clock, moves: Vec::new() };
            self.latest = received.remove(&manager).unwrap_or(nothing);
        }
        self.epoch += 1;
        self.since.clone_from(&self.latest.clock);
        self.writes = Writes::Known;
        self.latest.moves.clone()
    }
}
