//! Collective operations: what threads bring to a barrier of their own is combined on its way, and the result
//! comes back with the release.
//!
//! Role: keeps operands beside a [`super::Barrier`] whose id has [`multigrain_types::sync_id::COLLECTIVE`]. Every
//! arrival there has one operand and every release one result, which travel ahead of their message on the same
//! link; so what comes first belongs to the message that comes first. Threads of a node are folded when they are
//! announced, nodes at the manager or on their way up the tree of the job; see [`super::operand`] for the order.

use std::collections::{BTreeMap, VecDeque};

use multigrain_types::NodeId;
use multigrain_types::sync_id::IdName;

use super::input::SyncError;
use super::operand::Operand;

/// The operands of one collective operation as one node sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Collective {
    /// Of threads of this node that are not announced.
    brought: Option<Operand>,
    /// Manager: whose arrival has not come yet.
    early: BTreeMap<NodeId, VecDeque<Operand>>,
    /// Manager: of the present episode, and who brought what of it.
    here: Option<Operand>,
    takers: BTreeMap<NodeId, bool>,
    /// Node of a tree: of episodes that the node above was told of, who brought what, longest first.
    told: VecDeque<BTreeMap<NodeId, bool>>,
    /// Results whose release has not come yet.
    results: VecDeque<Operand>,
}

impl Collective {
    /// Whether a thread of this node may bring this.
    pub(super) fn check(&self, id: u64, operand: &Operand) -> Result<(), SyncError> {
        let mut others = [&self.brought, &self.here].into_iter().flatten();
        others.try_for_each(|other| other.check(operand)).map_err(misuse(id))
    }

    /// It has come; it was checked.
    pub(super) fn bring(&mut self, operand: Operand) {
        match &mut self.brought {
            Some(brought) => brought.merge(operand),
            None => self.brought = Some(operand),
        }
    }

    /// All that is here is announced: the operand for the manager.
    pub(super) fn announce(&mut self) -> Option<Operand> {
        let mut brought = self.brought.take()?;
        brought.fold();
        Some(brought)
    }

    /// Manager: an operand comes ahead of its arrival.
    pub(super) fn come_ahead(&mut self, from: NodeId, operand: Operand) {
        self.early.entry(from).or_default().push_back(operand);
    }

    /// Manager: so many threads of a node arrive; bytes of their operand.
    pub(super) fn arrive(
        &mut self,
        id: u64,
        from: NodeId,
        arrivals: u32,
    ) -> Result<usize, SyncError> {
        let early = self.early.get_mut(&from).and_then(VecDeque::pop_front);
        self.early.retain(|_, operands| !operands.is_empty());
        let operand = early.ok_or_else(|| {
            SyncError::Illegal("threads that came to a collective operation with nothing".into())
        })?;
        let (values, bytes) = operand.size();
        if values > arrivals as usize {
            return Err(SyncError::Illegal(format!("{values} operands of {arrivals} threads")));
        }
        *self.takers.entry(from).or_default() |= operand.takes();
        match &mut self.here {
            Some(here) => {
                here.check(&operand).map_err(misuse(id))?;
                here.merge(operand);
            }
            None => self.here = Some(operand),
        }
        Ok(bytes)
    }

    /// Manager: all are here; what each node gets.
    pub(super) fn conclude(&mut self) -> Option<(Operand, BTreeMap<NodeId, bool>)> {
        let mut result = self.here.take()?;
        result.fold();
        Some((result, core::mem::take(&mut self.takers)))
    }

    /// Node of a tree: all of this node and those below are here; the operand for the node above.
    pub(super) fn combine(&mut self) -> Option<Operand> {
        let mut combined = self.here.take()?;
        combined.fold();
        self.told.push_back(core::mem::take(&mut self.takers));
        Some(combined)
    }

    /// Node of a tree: the node above ends the episode that it was told of first; what each node below gets.
    pub(super) fn pass_on(&mut self) -> BTreeMap<NodeId, bool> {
        self.told.pop_front().unwrap_or_default()
    }

    /// A result comes ahead of its release, for some of `waiting` threads.
    pub(super) fn result(&mut self, result: Operand, waiting: usize) -> Result<(), SyncError> {
        if self.results.len() >= waiting {
            return Err(SyncError::Illegal("results that nobody waits for".into()));
        }
        self.results.push_back(result);
        Ok(())
    }

    /// Threads of this node are let go.
    pub(super) fn release(&mut self) -> Result<Operand, SyncError> {
        let missing = || SyncError::Illegal("a collective operation without a result".into());
        self.results.pop_front().ok_or_else(missing)
    }
}

/// What a program did wrong.
fn misuse(id: u64) -> impl Fn(String) -> SyncError {
    move |text| SyncError::Misuse(format!("barrier {}: {text}", IdName(id)))
}
