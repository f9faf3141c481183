//! Checks release-consistent memory for races: bytes that two nodes wrote without synchronization.
//!
//! Role: the mode of `multigrain run --check-races`. The engines know nothing of it, and without it
//! nothing of it runs and no byte on the wire differs. It keeps books of its own:
//!
//! - A *clock*, a vector time over nodes. An entry counts how often a node has released. It goes
//!   ahead of every message that carries a release, in a frame of its own, and ahead of the
//!   runtime's own requests and answers (thread starts and ends, names, frees).
//! - *Watched* minipages: those that this node's threads may write, each with what it held when it
//!   was opened, and the clock then. When writing ends, the bytes that differ are the node's writes.
//!   Writing ends where an engine takes the access away; at each release of this node; and when a
//!   clock brings news, for what is written then is written later. The last two are unknown to the
//!   engines: the minipage is closed for writes behind their back, and the next write is a spurious
//!   fault to them. For the same reason an area's owner starts without access, so that no page is
//!   open unwatched.
//! - The [`Judge`] of a minipage, at the node that allocated it, is sent all writes and compares.
//!
//! Invariants: writes are dated and leave the watch in one critical section, and a release dates
//! what is open under the minipages' locks before its epoch ends, so nothing is dated later than
//! the release that carries it. A clock is merged before the watch is renewed, so nothing that
//! follows an acquire is dated before it. So what the judge calls a race was not ordered by
//! anything this runtime knows of. Order of locks: minipage, then `open`; nothing is taken under
//! `open`, `judge` or `sites`.
//!
//! What it cannot see is in docs/TOOLS.md: writes that left a byte as it was, reads, threads of one
//! node, and races that another thread's synchronization on the same node hides.

#![expect(unsafe_code, reason = "copies pages, by pointer")]

mod judge;
mod site;
mod written;

use std::collections::BTreeMap;

use multigrain_memory::diff::{self, Diff};
use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{Input, Message, SyncMessage};
use multigrain_transport::{Header, Payload};
use multigrain_types::{Access, Consistency, MinipageId, NodeId};

use crate::boot::Runtime;
use crate::control::kind;
use crate::report::last_words;
use crate::shim::Mutex;
use crate::tables::lock;
use judge::{Judge, Writes};
use site::Sites;
use written::Written;

/// The books of one node.
#[derive(Debug, Default)]
pub(crate) struct Races {
    open: Mutex<Open>,
    judge: Mutex<Judge>,
    sites: Mutex<Sites>,
}

/// What is being written here, and when that is.
#[derive(Debug, Default)]
struct Open {
    /// Of every node, how many of its releases come before what is written here now.
    clock: Vec<u32>,
    watched: BTreeMap<MinipageId, Watched>,
}

/// A minipage that this node's threads may write.
#[derive(Debug)]
struct Watched {
    bytes: Vec<u8>,
    since: Vec<u32>,
}

impl Open {
    /// Takes what another node knows; whether it was news.
    fn hear(&mut self, me: NodeId, clock: &[u32]) -> bool {
        if self.clock.len() < clock.len() {
            self.clock.resize(clock.len(), 0);
        }
        let mut news = false;
        let others = self.clock.iter_mut().zip(clock).enumerate();
        for (_, (own, other)) in others.filter(|(node, _)| *node != me.index()) {
            news |= *own < *other;
            *own = (*own).max(*other);
        }
        news
    }

    /// The epoch of what is written here now, which the next release ends.
    fn epoch(&self, me: NodeId) -> u32 {
        self.clock.get(me.index()).map_or(1, |ended| ended.wrapping_add(1))
    }

    fn end_epoch(&mut self, me: NodeId) {
        let epoch = self.epoch(me);
        if self.clock.len() <= me.index() {
            self.clock.resize(me.index() + 1, 0);
        }
        self.clock[me.index()] = epoch;
    }
}

impl Runtime {
    /// The books, if this minipage is to be in them.
    fn races_of(&self, minipage: MinipageId) -> Option<&Races> {
        let races = self.races.as_ref()?;
        let relaxed = self.tables.consistency_of(minipage) != Consistency::Sequential;
        relaxed.then_some(races)
    }

    /// The caller holds the minipage's lock and is about to open it for writes.
    pub(crate) fn watch(&self, minipage: MinipageId) {
        let Some(races) = self.races_of(minipage) else { return };
        let mut open = lock(&races.open);
        if !open.watched.contains_key(&minipage) {
            let since = open.clock.clone();
            let bytes = self.snapshot(minipage);
            open.watched.insert(minipage, Watched { bytes, since });
        }
    }

    /// The caller holds the minipage's lock and has closed it for writes.
    pub(crate) fn unwatch(&self, minipage: MinipageId) {
        let Some(races) = self.races_of(minipage) else { return };
        let mut open = lock(&races.open);
        let Some(watched) = open.watched.remove(&minipage) else { return };
        let now = self.snapshot(minipage);
        let writes = self.writes(&open, watched.since, &watched.bytes, &now);
        drop(open);
        self.hand_in(minipage, writes);
    }

    /// The caller holds the minipage's lock and is about to write what other nodes wrote to a copy
    /// that this node's threads may write too.
    pub(crate) fn watch_merge(&self, minipage: MinipageId, diffs: &[&[u8]]) {
        let Some(races) = self.races_of(minipage) else { return };
        let mut open = lock(&races.open);
        let Some(mut watched) = open.watched.remove(&minipage) else { return };
        let mut now = self.snapshot(minipage);
        let writes = self.writes(&open, watched.since.clone(), &watched.bytes, &now);
        for diff in diffs {
            // A diff that is wrong is found so when it is merged.
            let _ = diff::apply_to(diff, &mut now);
        }
        watched.bytes = now;
        open.watched.insert(minipage, watched);
        drop(open);
        self.hand_in(minipage, writes);
    }

    /// Before a step: a release ends the epoch of what was written here.
    pub(crate) fn watch_step(&self, input: &Input) {
        let Some(races) = &self.races else { return };
        let releases = match input {
            Input::Release { .. } => true,
            Input::Sync(asked) => matches!(
                asked,
                SyncInput::Unlock { .. }
                    | SyncInput::Barrier { .. }
                    | SyncInput::SemaphorePost { .. }
                    | SyncInput::ConditionWait { .. }
            ),
            Input::Fault { .. }
            | Input::Insist { .. }
            | Input::Prefetch { .. }
            | Input::Ask { .. }
            | Input::Push { .. }
            | Input::Resumed { .. }
            | Input::Retired { .. }
            | Input::Reclaim { .. }
            | Input::Tell { .. }
            | Input::Acquire
            | Input::Message { .. }
            | Input::News { .. } => false,
        };
        if releases && self.tables.is_relaxed() {
            self.renew_watch(races);
            lock(&races.open).end_epoch(self.me);
        }
    }

    /// Before a message that may carry a release.
    pub(crate) fn tell_clock_with(&self, to: NodeId, message: Message) {
        if let Message::Sync { body, .. } = message
            && SyncMessage::is_release(body)
        {
            self.tell_clock(to);
        }
    }

    /// Before a node is told of anything that orders what its threads do after it.
    pub(crate) fn tell_clock(&self, to: NodeId) {
        let Some(races) = &self.races else { return };
        let clock = lock(&races.open).clock.clone();
        if to == self.me || clock.is_empty() {
            return;
        }
        let header = Header { kind: kind::RACE_CLOCK, from: self.me.0, ..Header::default() };
        self.send_frame(to, header, Payload::Owned(clock_bytes(&clock)));
    }

    /// A peer's clock; false for what none sends.
    pub(crate) fn serve_race_clock(&self, body: &[u8]) -> bool {
        let Some(races) = &self.races else { return false };
        let Some((clock, [])) = read_clock(body, self.nodes) else { return false };
        if lock(&races.open).hear(self.me, &clock) {
            self.renew_watch(races);
        }
        true
    }

    /// A peer's writes; false for what none sends.
    pub(crate) fn serve_race_writes(
        &self,
        writer: NodeId,
        minipage: u64,
        epoch: u64,
        body: &[u8],
    ) -> bool {
        let minipage = MinipageId(minipage);
        if !self.tables.knows(minipage) || self.judge_of(minipage) != self.me {
            return false;
        }
        let Some(races) = self.races_of(minipage) else { return false };
        let (_, len) = self.memory.privileged(minipage);
        let (Ok(epoch), Some((since, rest))) = (u32::try_from(epoch), read_clock(body, self.nodes))
        else {
            return false;
        };
        let Some(bytes) = Written::from_bytes(rest, len) else { return false };
        self.judge(races, minipage, Writes { writer, epoch, since, bytes });
        true
    }

    /// What a program is told that asks for a check of nothing.
    pub(crate) fn note_unchecked(&self) {
        if self.races.is_some() && !self.tables.is_relaxed() && self.me == NodeId(0) {
            self.tell_launcher(format_args!(
                "note --check-races has found nothing to check: no memory of this job is release \
                 consistent (--consistency)"
            ));
        }
    }

    /// Dates what was written so far in every open minipage.
    fn renew_watch(&self, races: &Races) {
        let open: Vec<MinipageId> = lock(&races.open).watched.keys().copied().collect();
        for minipage in open {
            let lent = self.tables.lend(minipage);
            if lock(&races.open).watched.contains_key(&minipage) {
                // Its engine goes on believing that it is open: the next write is a spurious fault.
                let closed = self.memory.protect(minipage, Access::ReadWrite, Access::ReadOnly);
                if let Err(error) = closed {
                    self.fatal(&error.to_string());
                }
                self.unwatch(minipage);
            }
            drop(lent);
        }
    }

    fn writes(&self, open: &Open, since: Vec<u32>, before: &[u8], now: &[u8]) -> Writes {
        let bytes = written(before, now);
        Writes { writer: self.me, epoch: open.epoch(self.me), since, bytes }
    }

    fn hand_in(&self, minipage: MinipageId, writes: Writes) {
        if writes.bytes.is_empty() {
            return;
        }
        let judge = self.judge_of(minipage);
        if judge == self.me {
            if let Some(races) = &self.races {
                self.judge(races, minipage, writes);
            }
            return;
        }
        let header = Header {
            kind: kind::RACE_WRITES,
            from: self.me.0,
            subject: minipage.0,
            value: writes.epoch.into(),
            ..Header::default()
        };
        let mut body = clock_bytes(&writes.since);
        writes.bytes.append_to(&mut body);
        self.send_frame(judge, header, Payload::Owned(body));
    }

    fn judge(&self, races: &Races, minipage: MinipageId, writes: Writes) {
        let found = lock(&races.judge).hear(minipage, writes);
        for race in found {
            let line = self.describe(races, &race);
            if !self.tell_launcher(format_args!("race {line}")) {
                last_words(self.me, &format!("race: {line}"));
            }
        }
    }

    /// The node that allocated it, which knows what it is part of.
    fn judge_of(&self, minipage: MinipageId) -> NodeId {
        self.tables.area(minipage.area()).map_or(self.me, |area| area.record.owner)
    }

    fn snapshot(&self, minipage: MinipageId) -> Vec<u8> {
        let (page, len) = self.memory.privileged(minipage);
        let mut bytes = vec![0; len];
        // SAFETY: the privileged view is readable for the length of the minipage, and others may
        // write it meanwhile: bytes are copied, never referred to.
        unsafe { page.cast_const().copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
        bytes
    }
}

/// Where two states of a minipage differ.
fn written(before: &[u8], now: &[u8]) -> Written {
    let mut bytes = Vec::new();
    // SAFETY: both have the length of the minipage.
    unsafe { diff::encode(before, now.as_ptr(), &mut bytes) };
    let diff = Diff::check(&bytes, now.len()).expect("what was just encoded is sound");
    diff.runs().map(|(offset, run)| offset..offset + run.len()).collect()
}

/// A count, then the entries, 4 bytes each, little-endian.
fn clock_bytes(clock: &[u32]) -> Vec<u8> {
    let count = u32::try_from(clock.len()).unwrap_or(u32::MAX);
    core::iter::once(&count).chain(clock).flat_map(|entry| entry.to_le_bytes()).collect()
}

/// The clock at the start of a body, and the rest of it.
fn read_clock(body: &[u8], nodes: u16) -> Option<(Vec<u32>, &[u8])> {
    let (count, body) = body.split_first_chunk()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    if count > usize::from(nodes) {
        return None;
    }
    let (clock, rest) = body.split_at_checked(count * size_of::<u32>())?;
    let (entries, _) = clock.as_chunks();
    Some((entries.iter().map(|entry| u32::from_le_bytes(*entry)).collect(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_survives_its_bytes_and_a_wrong_one_is_refused() {
        let bytes = clock_bytes(&[3, 0, 7]);
        assert_eq!(read_clock(&bytes, 3), Some((vec![3, 0, 7], &[][..])));
        assert_eq!(read_clock(&bytes, 2), None);
        for end in 0..bytes.len() {
            assert_eq!(read_clock(&bytes[..end], 3), None, "cut to {end}");
        }
    }

    #[test]
    fn an_epoch_ends_with_a_release_and_is_known_to_who_hears_of_it() {
        let (mut one, mut two) = (Open::default(), Open::default());
        assert_eq!(one.epoch(NodeId(1)), 1);
        one.end_epoch(NodeId(1));
        assert_eq!((one.epoch(NodeId(1)), &one.clock), (2, &vec![0, 1]));
        assert!(two.hear(NodeId(0), &one.clock));
        assert!(!two.hear(NodeId(0), &one.clock), "no news twice");
        assert_eq!(two.clock, [0, 1]);
        assert!(!one.hear(NodeId(1), &[0, 9]), "nobody knows better than a node itself");
    }

    #[test]
    fn what_was_written_is_where_bytes_differ() {
        let (before, mut now) = ([0; 200], [0; 200]);
        now[3] = 1;
        now[63..66].fill(2);
        assert_eq!(written(&before, &now), [3..4, 63..66].into_iter().collect());
    }
}
