//! Release consistency of a whole node: what it owes the others before a release leaves it, and
//! what it has to forget before an acquire ends.
//!
//! The [`ReleaseTracker`] keeps the delayed update queue (MGS 3.2.2), one for all threads of the node: they
//! share a page table, so nobody can say which of them wrote. A *flush* empties it: every minipage's
//! engine sends what was written, and the messages that carry the release wait in the tracker until
//! all of it, and all of older flushes, is acknowledged. Messages to one node stay in order.
//!
//! The [`IntervalLog`] in it is for lazy release consistency alone: how far this node has heard of
//! every other (a vector time over nodes, not threads, so that threads of one node never invalidate
//! each other), and which minipages were written in which interval.

mod interval_log;
mod write_notices;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use interval_log::IntervalLog;
use multigrain_types::{MinipageId, NodeId, ThreadId};
pub use write_notices::{MigrationPlan, WriteNotice, WriteNotices, WriteNoticesError};

use crate::message::{Message, SyncMessage};
#[cfg(feature = "mutants")]
use crate::mutants;

/// What may come too early from one node about one minipage: every thread of it waits for one copy, or
/// for the end of one release, at most, and a node has no more threads than this.
pub const EARLY: u32 = 4096;

/// What a node owes the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ReleaseTracker {
    /// The delayed update queue.
    dirty: BTreeSet<MinipageId>,
    /// Number of the last flush begun.
    begun: u64,
    /// Whether some of its minipages have not been flushed yet.
    sweeping: bool,
    /// Flushes not ended, oldest first; the last may be one that has not begun.
    flushes: VecDeque<Flush>,
    /// What waits for flushes, in the order it came.
    held: VecDeque<Held>,
    /// What may go now.
    ready: VecDeque<Ready>,
    /// What came from nodes that know of more moves of homes than this one; it waits for its turn.
    early: Vec<(MinipageId, Early)>,
    /// How much of that is whose; see [`EARLY`].
    early_of: BTreeMap<(MinipageId, NodeId), u32>,
    /// What this node knows of lazily consistent writes.
    log: IntervalLog,
}

/// Some minipages' writes on their way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flush {
    number: u64,
    awaited: u32,
    noticed: Vec<MinipageId>,
}

/// What must wait until this node knows of the moves that its sender knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are those of the messages")]
pub enum Early {
    Fetch {
        requester: NodeId,
        waits: bool,
    },
    /// The diff itself is kept already.
    Diff {
        writer: NodeId,
        flush: u64,
    },
}

/// Something that waits until flush `after`, and all before it, has ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    after: u64,
    what: Ready,
}

/// What a release lets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "a message and its receiver, or a thread")]
pub enum Ready {
    /// A synchronization message, perhaps to this node itself.
    Send { to: NodeId, id: u32, body: SyncMessage },
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
    /// The tracker of node `me`, which owes nothing.
    #[must_use]
    pub fn new(me: NodeId) -> Self {
        Self { log: IntervalLog::new(me), ..Self::default() }
    }

    /// The tracker of a node whose job of `nodes` nodes has made so many flushes, intervals and moves of
    /// homes already: to see what large numbers do.
    #[must_use]
    pub fn starting_at(me: NodeId, nodes: u16, number: u64) -> Self {
        let log = IntervalLog::starting_at(me, nodes, number);
        Self { begun: number, log, ..Self::default() }
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

    /// Something about a minipage that came too early; false if no correct node asks for so much.
    #[must_use]
    pub fn defer(&mut self, minipage: MinipageId, early: Early) -> bool {
        let (Early::Fetch { requester: node, .. } | Early::Diff { writer: node, .. }) = early;
        let count = self.early_of.entry((minipage, node)).or_default();
        let most = EARLY;
        #[cfg(feature = "mutants")]
        let most = crate::mutants::most_early(most);
        if *count == most {
            return false;
        }
        *count += 1;
        self.early.push((minipage, early));
        true
    }

    /// Diffs of a minipage that came too early.
    #[must_use]
    pub fn deferred_diffs(&self, minipage: MinipageId) -> usize {
        let diff = |&&(of, early): &&_| of == minipage && matches!(early, Early::Diff { .. });
        self.early.iter().filter(diff).count()
    }

    /// What came too early, in the order it came.
    pub fn take_deferred(&mut self) -> Vec<(MinipageId, Early)> {
        self.early_of.clear();
        core::mem::take(&mut self.early)
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
    /// last while it sweeps the minipages it has taken from the queue, for theirs may be among them.
    #[must_use]
    pub fn next_flush(&self) -> u64 {
        if self.sweeping { self.begun } else { after(self.begun) }
    }

    /// Begins a flush if there is anything to flush: its number, and the minipages of the queue.
    /// [`ReleaseTracker::swept`] has to be called when all of them have been flushed, before the next.
    #[must_use]
    pub fn begin(&mut self) -> Option<(u64, Vec<MinipageId>)> {
        let next = after(self.begun);
        let early = self.flushes.back().is_some_and(|flush| flush.number == next);
        if self.dirty.is_empty() && !early {
            return None;
        }
        (self.begun, self.sweeping) = (next, true);
        self.flush(next).awaited += 1;
        Some((next, core::mem::take(&mut self.dirty).into_iter().collect()))
    }

    /// All minipages of the last flush begun have been flushed.
    pub fn swept(&mut self) {
        self.sweeping = false;
        let begun = self.acked(self.begun, 1);
        assert!(begun, "a flush that sweeps has not ended");
    }

    /// A minipage's writes go with that flush; see [`crate::Effect::Flushed`].
    pub fn flushed(&mut self, minipage: MinipageId, number: u64, awaited: bool, notice: bool) {
        self.dirty.remove(&minipage);
        let flush = self.flush(number);
        flush.awaited += u32::from(awaited);
        if notice {
            flush.noticed.push(minipage);
        }
    }

    /// So many of a flush's messages were acknowledged; false if fewer were awaited.
    #[must_use]
    pub fn acked(&mut self, number: u64, count: u32) -> bool {
        let Some(flush) = self.flushes.iter_mut().find(|flush| flush.number == number) else {
            return false;
        };
        let Some(left) = flush.awaited.checked_sub(count) else { return false };
        flush.awaited = left;
        while let Some(flush) = self.flushes.pop_front_if(|flush| {
            // A flush that has not begun may still grow.
            flush.awaited == 0 && flush.number <= self.begun
        }) {
            self.log.close_interval(flush.noticed);
        }
        let oldest = self.flushes.front().map(|flush| flush.number);
        #[cfg(feature = "mutants")]
        let oldest = mutants::oldest_flush(oldest);
        let ended = |held: &mut Held| oldest.is_none_or(|oldest| held.after < oldest);
        while let Some(held) = self.held.pop_front_if(ended) {
            self.ready.push_back(held.what);
        }
        true
    }

    /// Something that must not go before all flushes begun so far have ended.
    pub fn hold(&mut self, what: Ready) {
        let open = self.flushes.front().is_some_and(|flush| flush.number <= self.begun);
        if open {
            self.held.push_back(Held { after: self.begun, what });
        } else {
            self.ready.push_back(what);
        }
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
                self.held.insert(place, Held { after, what });
            }
            None => self.ready.push_back(what),
        }
    }

    /// Messages that wait for flushes to end.
    #[must_use]
    pub fn held(&self) -> usize {
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
    pub fn owes(&self) -> bool {
        !self.dirty.is_empty() || !self.flushes.is_empty()
    }

    /// Whether nothing is unacked and nothing waits.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.flushes.is_empty() && self.held.is_empty() && self.ready.is_empty()
    }

    /// Minipages in the delayed update queue.
    #[must_use]
    pub fn queue(&self) -> &BTreeSet<MinipageId> {
        &self.dirty
    }

    fn flush(&mut self, number: u64) -> &mut Flush {
        // One that has ended may be opened again: writes of a minipage it did not take left while
        // it swept, and were entered after it.
        let place = self.flushes.partition_point(|flush| flush.number < number);
        if self.flushes.get(place).is_none_or(|flush| flush.number != number) {
            self.flushes.insert(place, Flush { number, awaited: 0, noticed: Vec::new() });
        }
        &mut self.flushes[place]
    }
}

/// The number of the next flush.
fn after(flush: u64) -> u64 {
    #[cfg(feature = "mutants")]
    return mutants::next_number(mutants::Mutant::FlushesWrap, flush);
    #[cfg(not(feature = "mutants"))]
    return flush + 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{LockMessage, SemaphoreMessage};

    const M: MinipageId = MinipageId(0);
    const N: MinipageId = MinipageId(1);

    fn post(to: u16, count: u32) -> Ready {
        let body = SyncMessage::Semaphore(SemaphoreMessage::Post { count });
        Ready::Send { to: NodeId(to), id: 0, body }
    }

    fn ask(to: u16) -> Ready {
        Ready::Send { to: NodeId(to), id: 0, body: SyncMessage::Lock(LockMessage::Request) }
    }

    fn ready(tracker: &mut ReleaseTracker) -> Vec<Ready> {
        core::iter::from_fn(|| tracker.pop_ready()).collect()
    }

    /// Begins a flush of a minipage that one acknowledgement will end.
    fn open(tracker: &mut ReleaseTracker, minipage: MinipageId) -> u64 {
        tracker.dirty(minipage);
        let (flush, minipages) = tracker.begin().expect("there is something to flush");
        assert_eq!(minipages, [minipage]);
        tracker.flushed(minipage, flush, true, false);
        tracker.swept();
        flush
    }

    #[test]
    fn a_node_that_owes_nothing_holds_nothing() {
        let mut tracker = ReleaseTracker::new(NodeId(0));
        assert_eq!(tracker.begin(), None);
        tracker.hold(post(1, 1));
        assert_eq!(ready(&mut tracker), [post(1, 1)]);
        assert!(tracker.is_settled());
    }

    #[test]
    fn what_is_held_goes_when_its_flush_and_all_older_ones_have_ended() {
        let mut tracker = ReleaseTracker::new(NodeId(0));
        let first = open(&mut tracker, M);
        tracker.hold(post(1, 1));
        let second = open(&mut tracker, N);
        tracker.hold(post(2, 2));
        assert!(tracker.acked(second, 1));
        assert!(ready(&mut tracker).is_empty(), "the older one is open");
        assert!(tracker.acked(first, 1));
        assert_eq!(ready(&mut tracker), [post(1, 1), post(2, 2)]);
        assert!(!tracker.acked(first, 1), "nothing is awaited any more");
    }

    #[test]
    fn one_acknowledgement_may_stand_for_several() {
        let mut tracker = ReleaseTracker::new(NodeId(0));
        for minipage in [M, N] {
            tracker.dirty(minipage);
        }
        let (flush, _) = tracker.begin().expect("there is something to flush");
        for minipage in [M, N] {
            tracker.flushed(minipage, flush, true, false);
        }
        tracker.swept();
        tracker.hold(post(1, 1));
        assert!(!tracker.acked(flush, 3), "two are awaited");
        assert!(ready(&mut tracker).is_empty());
        assert!(tracker.acked(flush, 2));
        assert_eq!(ready(&mut tracker), [post(1, 1)]);
    }

    #[test]
    fn a_message_without_a_release_waits_for_those_before_it_to_the_same_node_alone() {
        let mut tracker = ReleaseTracker::new(NodeId(0));
        let first = open(&mut tracker, M);
        tracker.hold(post(1, 1));
        let second = open(&mut tracker, N);
        tracker.hold(post(2, 2));
        tracker.hold(Ready::Wake { thread: ThreadId(3) });
        for to in [1, 2, 3] {
            tracker.follow(ask(to));
        }
        assert_eq!(ready(&mut tracker), [ask(3)]);
        assert!(tracker.acked(first, 1));
        assert_eq!(ready(&mut tracker), [post(1, 1), ask(1)]);
        assert!(tracker.acked(second, 1));
        assert_eq!(ready(&mut tracker), [post(2, 2), Ready::Wake { thread: ThreadId(3) }, ask(2)]);
    }

    #[test]
    fn what_comes_too_early_has_a_bound_for_each_node_and_minipage() {
        let mut tracker = ReleaseTracker::new(NodeId(0));
        let fetch = |node| Early::Fetch { requester: NodeId(node), waits: true };
        for flush in 0..EARLY {
            let diff = Early::Diff { writer: NodeId(1), flush: flush.into() };
            assert!(tracker.defer(M, if flush % 2 == 0 { diff } else { fetch(1) }));
        }
        assert!(!tracker.defer(M, fetch(1)), "no node has so many threads");
        assert!(tracker.defer(N, fetch(1)) && tracker.defer(M, fetch(2)));
        assert_eq!(tracker.take_deferred().len(), EARLY as usize + 2);
        assert!(tracker.defer(M, fetch(1)), "what was early has had its turn");
    }

    #[test]
    fn writes_that_left_before_a_flush_began_keep_it_open() {
        let mut tracker = ReleaseTracker::new(NodeId(0));
        tracker.dirty(M);
        let early = tracker.next_flush();
        tracker.flushed(M, early, true, true);
        assert!(tracker.queue().is_empty());
        tracker.hold(post(1, 1));
        assert_eq!(ready(&mut tracker), [post(1, 1)], "no release has begun");
        assert_eq!(tracker.begin(), Some((early, Vec::new())));
        tracker.swept();
        tracker.hold(post(1, 2));
        assert!(ready(&mut tracker).is_empty());
        assert!(tracker.acked(early, 1));
        assert_eq!((ready(&mut tracker), tracker.log_mut().notices()), (vec![post(1, 2)], 1));
    }

    #[test]
    fn writes_that_leave_while_a_flush_sweeps_belong_to_it() {
        let mut tracker = ReleaseTracker::new(NodeId(0));
        tracker.dirty(M);
        let (flush, _) = tracker.begin().expect("there is something to flush");
        // The sweep waits for the lock of the minipage; an invalidation has it.
        let own = tracker.next_flush();
        assert_eq!(own, flush);
        tracker.flushed(M, own, true, false);
        tracker.swept();
        tracker.hold(post(1, 1));
        assert!(ready(&mut tracker).is_empty());
        assert!(tracker.acked(flush, 1));
        assert_eq!(ready(&mut tracker), [post(1, 1)]);
    }

    #[test]
    fn writes_entered_after_the_sweep_open_its_flush_again_in_its_place() {
        let mut tracker = ReleaseTracker::new(NodeId(0));
        tracker.dirty(M);
        let (flush, _) = tracker.begin().expect("there is something to flush");
        tracker.swept();
        let early = tracker.next_flush();
        tracker.flushed(M, early, true, false);
        tracker.flushed(N, flush, true, false);
        assert_eq!(tracker.begin(), Some((early, Vec::new())), "the early one is the last still");
        tracker.swept();
        tracker.hold(post(1, 1));
        assert!(tracker.acked(early, 1));
        assert!(ready(&mut tracker).is_empty());
        assert!(tracker.acked(flush, 1));
        assert_eq!(ready(&mut tracker), [post(1, 1)]);
        assert!(tracker.is_settled());
    }

    /// Numbers have 64 bits, and none of them stands for "no flush".
    #[test]
    fn flushes_go_on_where_32_bits_end() {
        let mut tracker = ReleaseTracker::starting_at(NodeId(0), 2, u64::from(u32::MAX) - 2);
        for count in 1..6 {
            let first = open(&mut tracker, M);
            tracker.hold(post(1, count));
            let second = open(&mut tracker, N);
            tracker.hold(post(2, count));
            assert!(ready(&mut tracker).is_empty(), "flush {first} is open");
            assert!(tracker.acked(first, 1));
            assert_eq!(ready(&mut tracker), [post(1, count)], "flush {second} is open");
            assert!(tracker.acked(second, 1));
            assert_eq!(ready(&mut tracker), [post(2, count)]);
            assert!(tracker.is_settled());
        }
    }
}
