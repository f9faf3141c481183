//! The interval log: what a node knows of lazily consistent writes, its own and others': its vector time, write
//! notices, and the migrations of homes.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use multigrain_types::tree::{Fan, Tree};
use multigrain_types::{MinipageId, NodeId};

use super::write_notice_encoding::{WriteNotice, WriteNotices};
use super::writer_log::WriterLog;
use crate::context::Illegal;
use crate::message::{BarrierMessage, SyncMessage};
use crate::migration::{Migrations, sole_writers};
use crate::mutant_macro::mutant;
use crate::vector_time::{at, merge};

/// Vector time, write notices and migrations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct IntervalLog {
    me: NodeId,
    /// Of every node, the last of its intervals this node has received; empty before the first.
    clock: Vec<u64>,
    /// Intervals of this node from which on that node alone may be told of them: it has not acknowledged their writes yet.
    told: Option<(u64, NodeId)>,
    /// Of every node, what it wrote.
    logs: BTreeMap<NodeId, WriterLog>,
    /// Minipages that others wrote and this node has not invalidated yet.
    pending: BTreeSet<MinipageId>,
    /// Of other nodes, the time they have at least: what this node has sent them, or received.
    sent: BTreeMap<NodeId, Vec<u64>>,
    /// Of other nodes, the time they said they have.
    reported: BTreeMap<NodeId, Vec<u64>>,
    /// Of nodes right below in the tree of the job, the time that they and all below them have at least.
    below: BTreeMap<NodeId, Vec<u64>>,
    fan: Fan,
    /// What every node has reported.
    common: Vec<u64>,
    migrations: Migrations,
}

impl IntervalLog {
    /// The log of node `me`, which has received nothing.
    #[must_use]
    pub fn new(me: NodeId) -> Self {
        Self { me, ..Self::default() }
    }

    /// The log of node `me` in a job of `nodes` nodes in which every one of them has closed so
    /// many intervals, which all know of and have forgotten, and homes have migrated as often.
    #[must_use]
    pub fn starting_at(me: NodeId, nodes: u16, number: u64) -> Self {
        if number == 0 {
            return Self::new(me);
        }
        let clock = vec![number; nodes.into()];
        let migrations = Migrations::starting_at(number, &clock);
        Self { common: clock.clone(), clock, migrations, ..Self::new(me) }
    }

    /// The same, in a job whose tree has this fan.
    #[must_use]
    pub fn with_fan(self, fan: Fan) -> Self {
        Self { fan, ..self }
    }

    /// Migrations of homes this node knows of.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.migrations.epoch()
    }

    /// Write notices kept.
    #[must_use]
    pub fn notices(&self) -> usize {
        self.logs.values().map(WriterLog::len).sum()
    }

    /// A flush of this node has ended: other nodes may be notified of its writes. The interval, if it has any.
    pub(super) fn close_interval(&mut self, written: Vec<MinipageId>) -> Option<u64> {
        if written.is_empty() {
            return None;
        }
        let (me, interval) = (self.me, at(&self.clock, self.me) + 1);
        let interval = mutant!("intervals-wrap": interval & u64::from(u32::MAX), else interval);
        if self.clock.len() <= me.index() {
            self.clock.resize(me.index() + 1, 0);
        }
        self.clock[me.index()] = interval;
        self.logs.entry(me).or_default().add(interval, written);
        Some(interval)
    }

    /// All writes of this node are acknowledged but for those from this interval on, by that node.
    pub(super) fn acknowledged(&mut self, told: Option<(u64, NodeId)>) {
        self.told = told;
    }

    /// What this node may say that it knows.
    fn clock_for(&self, to: Option<NodeId>) -> Vec<u64> {
        let mut clock = self.clock.clone();
        if let Some((interval, node)) = self.told
            && mutant!("told-before-merged": false, else to != Some(node))
        {
            clock[self.me.index()] = interval - 1;
        }
        clock
    }

    /// What a node of the job of `nodes` has not been sent and must know before it acts on `body`;
    /// `None` if there is nothing to send.
    pub fn notices_for(
        &mut self,
        to: NodeId,
        nodes: u16,
        body: Option<SyncMessage>,
    ) -> Option<WriteNotices> {
        if self.clock.is_empty() {
            return None;
        }
        let clock = self.clock_for(Some(to));
        let sent = self.sent.entry(to).or_default();
        merge(sent, &self.common);
        let known = clock.iter().zip((0..).map(NodeId)).all(|(&own, node)| own <= at(sent, node));
        // At a barrier every node reports its time, so that all may forget.
        let barrier = matches!(body, Some(SyncMessage::Barrier(_)));
        if known && !barrier {
            return None;
        }
        let others = self.logs.iter().filter(|(writer, _)| **writer != to);
        let notices = others.flat_map(|(&writer, log)| {
            let fresh = log.after(at(sent, writer));
            fresh.map(move |(interval, minipage)| WriteNotice { writer, interval, minipage })
        });
        let notices = notices.collect();
        merge(sent, &clock);
        let batch = WriteNotices { clock, notices, ..WriteNotices::default() };
        let Some(SyncMessage::Barrier(message)) = body else { return Some(batch) };
        let plan = |quiescent: bool| {
            debug_assert!(!quiescent || self.migrations.has_switched(), "nobody knows before");
            quiescent.then(|| self.migrations.latest().clone())
        };
        Some(match message {
            BarrierMessage::Release { quiescent, .. } => {
                WriteNotices { floor: self.floor(nodes), plan: plan(quiescent), ..batch }
            }
            BarrierMessage::Open { quiescent, .. } => {
                let is_root = self.me == NodeId(0);
                let floor = if is_root { self.floor_below(nodes) } else { self.common.clone() };
                WriteNotices { floor, plan: plan(quiescent), ..batch }
            }
            BarrierMessage::Combine { .. } => {
                WriteNotices { floor: self.floor_below(nodes), below: true, ..batch }
            }
            BarrierMessage::Arrive { .. } | BarrierMessage::Retract | BarrierMessage::Retracted => {
                batch
            }
        })
    }

    /// What another node sends of its log.
    ///
    /// # Errors
    /// [`Illegal`] if it says more of this node than this node has done, that all know what not even
    /// it knows, has the plan of another epoch than the next, or moves a home twice.
    pub fn receive(&mut self, from: NodeId, batch: &WriteNotices) -> Result<(), Illegal> {
        self.check(from, batch)?;
        let together = |one: &WriteNotice, other: &WriteNotice| {
            (one.writer, one.interval) == (other.writer, other.interval)
        };
        for notices in batch.notices.chunk_by(together) {
            let WriteNotice { writer, interval, .. } = notices[0];
            if writer != self.me && interval > at(&self.clock, writer) {
                let written: Vec<_> = notices.iter().map(|notice| notice.minipage).collect();
                self.pending.extend(&written);
                self.logs.entry(writer).or_default().add(interval, written);
            }
        }
        merge(&mut self.clock, &batch.clock);
        merge(self.sent.entry(from).or_default(), &batch.clock);
        merge(self.reported.entry(from).or_default(), &batch.clock);
        // A batch too long for one frame comes in parts, and so does its plan.
        if let Some(plan) = &batch.plan {
            self.migrations.receive(from, plan);
        }
        let below = mutant!("subtree-speaks-for-all": false, else batch.below);
        if below {
            merge(self.below.entry(from).or_default(), &batch.floor);
        } else {
            self.forget(&batch.floor);
        }
        Ok(())
    }

    fn check(&self, from: NodeId, batch: &WriteNotices) -> Result<(), Illegal> {
        let own = at(&self.clock, self.me);
        let plan = batch.plan.as_ref();
        let own_notices = batch.notices.iter().filter(|notice| notice.writer == self.me);
        let of_this = own_notices
            .map(|notice| notice.interval)
            .chain([at(&batch.clock, self.me)])
            .chain(plan.map(|plan| at(&plan.clock, self.me)));
        let known = |node| at(&self.clock, node).max(at(&batch.clock, node));
        let mut floor = batch.floor.iter().zip((0..).map(NodeId));
        let (most, epoch) = (of_this.max().unwrap_or(0), self.migrations.next_epoch());
        let state = if most > own {
            // Who passes on another's word is believed as that is.
            format!("{} has closed {own} intervals, not the {most} said or passed on", self.me)
        } else if floor.any(|(&all, node)| all > known(node)) {
            format!("all know {:?}, and it knows {:?}", batch.floor, batch.clock)
        } else if plan.is_some_and(|plan| plan.epoch != epoch) {
            format!("epoch {epoch} is the next")
        } else if plan.is_some_and(|plan| !self.migrations.goes_on(from, plan)) {
            format!("{from} has moved the home of another minipage last")
        } else {
            return Ok(());
        };
        Err(Illegal { role: "interval log", state })
    }

    /// Whether an acquire has any minipages to invalidate.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// An acquire: the minipages to invalidate.
    pub fn take_pending(&mut self) -> BTreeSet<MinipageId> {
        core::mem::take(&mut self.pending)
    }

    /// Manager of a quiescent barrier: the minipages that one node alone has written since the last
    /// such barrier, and that node. Empty if not all is known any more.
    pub fn sole_writers(&mut self) -> Vec<(MinipageId, NodeId)> {
        if !self.migrations.take_writes_known() {
            return Vec::new();
        }
        let writes = self.logs.iter().flat_map(|(&writer, log)| {
            log.after(self.migrations.since(writer)).map(move |(_, minipage)| (writer, minipage))
        });
        sole_writers(writes)
    }

    /// Manager of a quiescent barrier: what its releases shall say. It forgets what all know.
    pub fn announce(&mut self, nodes: u16, moves: Vec<(MinipageId, NodeId)>) {
        self.migrations.announce(self.clock_for(None), moves);
        let mut floor = self.floor(nodes);
        if self.me == NodeId(0) {
            merge(&mut floor, &self.floor_below(nodes));
        }
        let floor = mutant!("notices-forgotten-early": self.clock.clone(), else floor);
        self.forget(&floor);
    }

    /// The release of this manager's quiescent barrier: a new epoch, with these moves.
    pub fn switch(&mut self, manager: NodeId) -> Vec<(MinipageId, NodeId)> {
        self.migrations.switch(Some(manager).filter(|manager| *manager != self.me))
    }

    /// What every other node has reported; nothing while one has not.
    fn floor(&self, nodes: u16) -> Vec<u64> {
        self.least((0..nodes).map(NodeId).filter(|&node| node != self.me), &self.reported)
    }

    /// What this node has, and every node below it in the tree of the job has reported.
    fn floor_below(&self, nodes: u16) -> Vec<u64> {
        self.least(Tree::new(nodes, self.fan).children(self.me), &self.below)
    }

    /// The least of this node's time and what these others have `reported`.
    fn least(
        &self,
        others: impl Iterator<Item = NodeId>,
        reported: &BTreeMap<NodeId, Vec<u64>>,
    ) -> Vec<u64> {
        let mut floor = self.clock.clone();
        for node in others {
            let reported = reported.get(&node).map_or(&[][..], Vec::as_slice);
            for (entry, writer) in floor.iter_mut().zip((0..).map(NodeId)) {
                *entry = (*entry).min(at(reported, writer));
            }
        }
        floor
    }

    /// Forgets what all know.
    fn forget(&mut self, floor: &[u64]) {
        merge(&mut self.common, floor);
        for (&writer, log) in &mut self.logs {
            let last = log.forget(at(floor, writer));
            self.migrations.forget(writer, last);
        }
        self.logs.retain(|_, log| log.len() > 0);
    }
}
