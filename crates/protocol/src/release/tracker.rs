//! The release tracker: the delayed update queue, the flushes that empty it, and what waits for them.
//!
//! A *flush* empties the queue: every minipage's engine sends what was written, and the messages that
//! carry the release wait here until all of it, and all of older flushes, is acknowledged; but not for the acknowledgements of
//! their receiver, if all are its (ADR 61). Messages to one node stay in order.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use multigrain_types::tree::Fan;
use multigrain_types::{MinipageId, NodeId, ThreadId};

use super::interval_log::IntervalLog;
use crate::effect::AckFrom;
use crate::message::{Message, SyncMessage};
use crate::migration::EarlyMessages;
use crate::mutant_macro::mutant;

/// So many flushes may be open while messages that carry a release leave all the same: what is held has a bound.
const MOST_AHEAD: usize = 16;

/// What a node's releases wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ReleaseTracker {
    /// The delayed update queue.
    dirty: BTreeSet<MinipageId>,
    /// Number of the last flush begun; the first has number 1.
    begun: u64,
    /// Flushes not ended, in the order of their numbers.
    flushes: VecDeque<Flush>,
    /// What waits for flushes, in the order of their numbers, then as it came.
    held: VecDeque<AfterFlush>,
    /// What may go now.
    ready: VecDeque<Ready>,
    /// What came from nodes that know of more migrations than this one.
    early: EarlyMessages,
    /// What this node knows of lazily consistent writes.
    log: IntervalLog,
}

/// Some minipages' writes on their way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flush {
    number: u64,
    phase: Phase,
    /// Messages without an acknowledgement, by who acknowledges them; none is 0.
    awaited: BTreeMap<AckFrom, u32>,
    /// Minipages that get a write notice.
    noticed: Vec<MinipageId>,
    /// The interval that they are, and the node that may be told of it before it has acknowledged them, as no other has to.
    told: Option<(u64, NodeId)>,
}

/// How far a flush is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Not begun: writes of minipages that were invalidated left before the release that it is for. It
    /// may still grow.
    Early,
    /// Some minipages that it has taken from the queue have not been flushed yet.
    Sending,
    /// It ends with its last acknowledgement.
    Sent,
}

/// Something that waits until flush `after`, and all before it, has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AfterFlush {
    after: u64,
    what: Ready,
}

/// What a release lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "a message and its receiver, or a thread")]
pub enum Ready {
    /// A synchronization message, perhaps to this node itself.
    Send { to: NodeId, id: u64, body: SyncMessage },
    /// A thread that waits for its release.
    Wake { thread: ThreadId },
}

impl Ready {
    /// The message as it travels, and to whom.
    #[must_use]
    pub fn message(self) -> Option<(NodeId, Message)> {
        match self {
            Self::Send { to, id, body } => Some((to, Message::Sync { id, body })),
            Self::Wake { .. } => None,
        }
    }
}

impl ReleaseTracker {
    /// The tracker of node `me`, which has nothing outstanding.
    #[must_use]
    pub fn new(me: NodeId) -> Self {
        Self { log: IntervalLog::new(me), ..Self::default() }
    }

    /// The tracker of a node whose job of `nodes` nodes has made so many flushes, intervals and
    /// migrations already: to see what large numbers do.
    #[must_use]
    pub fn starting_at(me: NodeId, nodes: u16, number: u64) -> Self {
        let log = IntervalLog::starting_at(me, nodes, number);
        Self { begun: number, log, ..Self::default() }
    }

    /// The same, in a job whose tree has this fan.
    #[must_use]
    pub fn with_fan(self, fan: Fan) -> Self {
        Self { log: self.log.with_fan(fan), ..self }
    }

    /// What this node knows of lazily consistent writes.
    #[must_use]
    pub fn log(&self) -> &IntervalLog {
        &self.log
    }

    /// The same, to change it.
    pub fn log_mut(&mut self) -> &mut IntervalLog {
        &mut self.log
    }

    /// What came from nodes that know of more migrations.
    #[must_use]
    pub fn early(&self) -> &EarlyMessages {
        &self.early
    }

    /// The same, to change it.
    pub fn early_mut(&mut self) -> &mut EarlyMessages {
        &mut self.early
    }

    /// A minipage is about to be opened for writes.
    pub fn dirty(&mut self, minipage: MinipageId) {
        self.dirty.insert(minipage);
    }

    /// A minipage's writes are on their way.
    pub fn clean(&mut self, minipage: MinipageId) {
        self.dirty.remove(&minipage);
    }

    /// The number of the flush that writes belong to which leave by themselves: the next, or the
    /// last while it sends the minipages it has taken from the queue, for theirs may be among them.
    #[must_use]
    pub fn next_flush(&self) -> u64 {
        let sending = self.flushes.back().filter(|flush| flush.phase == Phase::Sending);
        sending.map_or(after(self.begun), |flush| flush.number)
    }

    /// Begins a flush if there is anything to flush: its number, and the minipages of the queue.
    /// [`ReleaseTracker::sent`] has to be called when all of them have been flushed, before the next.
    #[must_use]
    pub fn begin(&mut self) -> Option<(u64, Vec<MinipageId>)> {
        let next = after(self.begun);
        let early = self.flushes.back().is_some_and(|flush| flush.phase == Phase::Early);
        if self.dirty.is_empty() && !early {
            return None;
        }
        self.begun = next;
        self.flush(next).phase = Phase::Sending;
        Some((next, core::mem::take(&mut self.dirty).into_iter().collect()))
    }

    /// All minipages of the last flush begun have been flushed.
    pub fn sent(&mut self) {
        let number = self.begun;
        let flush = self.flush(number);
        assert_eq!(flush.phase, Phase::Sending, "a flush that is sent has begun");
        flush.phase = Phase::Sent;
        self.end_flushes();
    }

    /// A minipage's writes go with that flush; see [`crate::Effect::Flushed`].
    pub fn flushed(
        &mut self,
        minipage: MinipageId,
        number: u64,
        awaited: Option<AckFrom>,
        notice: bool,
    ) {
        self.dirty.remove(&minipage);
        let flush = self.flush(number);
        if let Some(by) = awaited {
            *flush.awaited.entry(by).or_default() += 1;
        }
        if notice {
            flush.noticed.push(minipage);
        }
    }

    /// So many of a flush's messages were acknowledged; false if fewer were awaited of who did.
    #[must_use]
    pub fn acked(&mut self, number: u64, count: u32, by: AckFrom) -> bool {
        let Some(flush) = self.flushes.iter_mut().find(|flush| flush.number == number) else {
            return false;
        };
        let by = mutant!("acknowledged-by-anyone": flush.awaited.keys().next().copied().unwrap_or(by), else by);
        let awaited = flush.awaited.get(&by).copied().unwrap_or(0);
        match awaited.checked_sub(count) {
            None => return false,
            Some(0) => {
                flush.awaited.remove(&by);
            }
            Some(left) => {
                flush.awaited.insert(by, left);
            }
        }
        self.end_flushes();
        true
    }

    /// Ends the oldest flushes that may, and lets go what waited for them.
    fn end_flushes(&mut self) {
        let ends = |flush: &mut Flush| flush.phase == Phase::Sent && flush.awaited.is_empty();
        while let Some(flush) = self.flushes.pop_front_if(ends) {
            self.log.close_interval(flush.noticed);
        }
        self.log.acknowledged(self.flushes.iter().find_map(|flush| flush.told));
        let oldest = self.flushes.front().map(|flush| flush.number);
        let oldest = mutant!("flushes-wrap": oldest.or(Some(u32::MAX.into())), else oldest);
        let ended = |held: &mut AfterFlush| oldest.is_none_or(|oldest| held.after < oldest);
        while let Some(held) = self.held.pop_front_if(ended) {
            self.ready.push_back(held.what);
        }
    }

    /// Something that must not go before all flushes begun so far have ended, but for what its receiver alone has to
    /// acknowledge: that is ahead of it on the same link.
    pub fn hold(&mut self, what: Ready) {
        if self.flushes.is_empty() {
            self.ready.push_back(what);
        } else if let Ready::Send { to, .. } = what
            && self.is_ahead_of(to)
        {
            self.tell(to);
            self.ready.push_back(what);
        } else if self.flushes.front().is_some_and(|flush| flush.phase != Phase::Early) {
            self.held.push_back(AfterFlush { after: self.begun, what });
        } else {
            self.ready.push_back(what);
        }
    }

    /// Whether this node, and no other, has to acknowledge what the flushes begun so far have sent, and nothing else is
    /// held for it.
    fn is_ahead_of(&self, to: NodeId) -> bool {
        let is_behind = |flush: &Flush| {
            let are_its = flush.awaited.keys().all(|by| *by == AckFrom::Node(to));
            let are_its = mutant!("ahead-of-other-homes": true, else are_its);
            flush.phase == Phase::Sent && are_its
        };
        let is_for = |held: &AfterFlush| held.what.message().is_some_and(|(other, _)| other == to);
        self.flushes.len() <= MOST_AHEAD
            && self.flushes.iter().all(is_behind)
            && !self.held.iter().any(is_for)
    }

    /// This node may be notified of what the flushes begun so far have sent.
    fn tell(&mut self, to: NodeId) {
        for flush in &mut self.flushes {
            let noticed = core::mem::take(&mut flush.noticed);
            if let Some(interval) = self.log.close_interval(noticed) {
                flush.told = Some((interval, to));
            }
        }
        self.log.acknowledged(self.flushes.iter().find_map(|flush| flush.told));
    }

    /// A message that carries no release: it goes after those held for the same node.
    pub fn follow(&mut self, what: Ready) {
        let to = what.message().map(|(to, _)| to);
        let before =
            self.held.iter().rev().find(|held| held.what.message().map(|(to, _)| to) == to);
        match before.map(|held| held.after) {
            Some(after) => {
                // Keep the queue ordered by what it waits for.
                let place = self.held.partition_point(|held| held.after <= after);
                self.held.insert(place, AfterFlush { after, what });
            }
            None => self.ready.push_back(what),
        }
    }

    /// Messages that wait for flushes to end.
    #[must_use]
    pub fn withheld(&self) -> usize {
        self.held.len()
    }

    /// Whether something may go.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next thing that may go.
    pub fn pop_ready(&mut self) -> Option<Ready> {
        self.ready.pop_front()
    }

    /// Whether writes of this node are not at their homes yet.
    #[must_use]
    pub fn has_outstanding(&self) -> bool {
        !self.dirty.is_empty() || !self.flushes.is_empty()
    }

    /// Whether no flush is open and nothing waits for one.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.flushes.is_empty() && self.held.is_empty() && self.ready.is_empty()
    }

    /// Minipages in the delayed update queue.
    #[must_use]
    pub fn queue(&self) -> &BTreeSet<MinipageId> {
        &self.dirty
    }

    /// One that has ended may be opened again: writes of a minipage it did not take left while
    /// it was sent, and were entered after it.
    fn flush(&mut self, number: u64) -> &mut Flush {
        let place = self.flushes.partition_point(|flush| flush.number < number);
        if self.flushes.get(place).is_none_or(|flush| flush.number != number) {
            let phase = if number > self.begun { Phase::Early } else { Phase::Sent };
            let (awaited, noticed) = (BTreeMap::new(), Vec::new());
            self.flushes.insert(place, Flush { number, phase, awaited, noticed, told: None });
        }
        &mut self.flushes[place]
    }
}

/// The number of the next flush.
fn after(flush: u64) -> u64 {
    mutant!("flushes-wrap": (flush + 1) & u64::from(u32::MAX), else flush + 1)
}
