//! Checks release consistent memory for data races: bytes that two nodes wrote without synchronization.
//!
//! Role: the mode of `multigrain run --check-races`. The engines know nothing of it, and without it
//! nothing of it runs and no byte on the wire differs. Its own state:
//!
//! - A *clock*, a vector time over nodes ([`clock::Clock`]). An entry counts how often a node has
//!   released. Every synchronization object has a clock as well ([`happens_before`]); this node's own learns from
//!   it when a thread of this node follows it, never because the node serves as its manager.
//! - *Watched* minipages: those that this node's threads may write, each with its contents when it
//!   was opened, and the clock then. When writing ends, the bytes that differ are the node's writes.
//!   Writing ends where an engine takes the access away; at each release of this node; when a clock
//!   brings something new, since later writes come after that; and when others' writes are merged. Of the
//!   last three the engines do not know: the minipage is closed for writes without them, and
//!   the next write is a spurious fault to them. For the same reason an area's owner starts without
//!   access, so that no page is open unwatched.
//! - The [`Judge`] of a minipage, at the node that allocated it, is sent all writes and compares.
//!
//! Invariants, for jobs of one thread a node:
//!
//! - Writes get their clock and end their watch in one critical section, and a release does so for what is open,
//!   under the minipages' locks, before its epoch ends: no write is dated later than the release that carries it.
//! - A clock is merged before the watch is renewed: no write that follows an acquire is dated before it; also not that
//!   of a thread whose acquire brings nothing new while another one is renewing.
//!   So what the judge calls a race was not ordered by anything this runtime knows of.
//! - A release leaves when all judges have what was written before it ([`Races::end_epoch`]). So a
//!   judge receives writes in an order that agrees with synchronization, and the last writes of each
//!   byte suffice to find that the byte was raced for.
//!
//! Order of locks: `merging`, minipage, then `open`, then the others, of which none is taken under another.
//!
//! What it means that nothing is reported, and what not: docs/TOOLS.md.

#![expect(unsafe_code, reason = "copies pages, by pointer")]

mod clock;
mod clock_exchange;
mod happens_before;
mod judge;
mod report;
#[cfg(test)]
#[cfg(feature = "shuttle")]
mod shuttle_tests;
mod written_bytes;

use std::collections::{BTreeMap, BTreeSet};

use clock::Clock;
use multigrain_memory::diff::{self, Diff};
use multigrain_transport::{Header, Payload};
use multigrain_types::phrases::NO_RACES_CHECKED;
use multigrain_types::{Access, AreaId, MinipageId, NodeId};

use crate::allocation_sites::AllocationSites;
use crate::frames::DriverFrame;
use crate::platform::Platform;
use crate::shim::{Mutex, lock};
use happens_before::HappensBefore;
pub(crate) use happens_before::Ordered;
use judge::{Judge, MOST_RACES, Writes};
use written_bytes::WrittenBytes;

/// What a node that checks for races knows.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// Held from the merge of a clock until the watch is renewed.
    merging: Mutex<()>,
    open: Mutex<OpenWrites>,
    happens_before: Mutex<HappensBefore>,
    judge: Mutex<Judge>,
}

/// What is being written here, and when that is.
#[derive(Debug, Default)]
struct OpenWrites {
    /// Of every node, how many of its releases come before what is written here now.
    clock: Clock,
    watched: BTreeMap<MinipageId, Watched>,
    /// Judges that were sent writes since the last release.
    told: BTreeSet<NodeId>,
}

/// A minipage that this node's threads may write.
#[derive(Debug)]
struct Watched {
    bytes: Vec<u8>,
    since: Clock,
}

impl OpenWrites {
    /// Takes what another node knows; whether it was new. Nobody knows better than a node itself.
    fn receive(&mut self, me: NodeId, clock: &Clock) -> bool {
        let mut joined = self.clock.clone();
        joined.join(clock);
        joined.set(me, self.clock.of(me));
        let is_new = joined != self.clock && !clock.is_empty();
        self.clock = joined;
        is_new
    }

    /// The epoch of what is written here now, which the next release ends.
    fn epoch(&self, me: NodeId) -> u64 {
        self.clock.of(me) + 1
    }

    fn end_epoch(&mut self, me: NodeId) {
        self.clock.set(me, self.epoch(me));
    }
}

/// The checker of a node and what it checks; does nothing where nothing is to be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Races<'a> {
    checker: Option<&'a Checker>,
    sites: Option<&'a AllocationSites>,
    platform: &'a Platform,
}

impl<'a> Races<'a> {
    pub(crate) fn new(
        checker: Option<&'a Checker>,
        sites: Option<&'a AllocationSites>,
        platform: &'a Platform,
    ) -> Self {
        Self { checker, sites, platform }
    }

    pub(crate) fn are_checked(&self) -> bool {
        self.checker.is_some()
    }

    /// The checker, if this minipage is to be checked.
    fn checker_of(&self, minipage: MinipageId) -> Option<&'a Checker> {
        let relaxed = |_: &_| !self.platform.tables().consistency_of(minipage).is_sequential();
        self.checker.filter(relaxed)
    }

    /// Whether what threads of this node write there now will be judged.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) fn is_watched(&self, minipage: MinipageId) -> bool {
        self.checker.is_some_and(|races| lock(&races.open).watched.contains_key(&minipage))
    }

    /// The caller holds the minipage's lock and is about to open it for writes.
    pub(crate) fn watch(&self, minipage: MinipageId) {
        let Some(races) = self.checker_of(minipage) else { return };
        let mut open = lock(&races.open);
        if !open.watched.contains_key(&minipage) {
            let since = open.clock.clone();
            let bytes = self.snapshot(minipage);
            open.watched.insert(minipage, Watched { bytes, since });
        }
    }

    /// An area is taken away from this node, and its bytes are about to be freed: that is no write.
    pub(crate) fn forget_area(&self, area: AreaId) {
        if let Some(races) = self.checker {
            lock(&races.open).watched.retain(|minipage, _| minipage.area() != area);
        }
    }

    /// The caller holds the minipage's lock and has closed it for writes.
    pub(crate) fn unwatch(&self, minipage: MinipageId) {
        let Some(races) = self.checker_of(minipage) else { return };
        let mut open = lock(&races.open);
        let Some(watched) = open.watched.remove(&minipage) else { return };
        let bytes = written(&watched.bytes, &self.snapshot(minipage));
        if bytes.is_empty() {
            return;
        }
        let epoch = open.epoch(self.platform.me());
        let writes = Writes { writer: self.platform.me(), epoch, since: watched.since, bytes };
        // Under `open`: once it is free, a release finds that the judge has been sent these.
        self.hand_in(races, &mut open, minipage, writes);
    }

    /// The caller holds the minipage's lock. Whatever was written is dated now, and whoever writes
    /// next traps: its engine goes on believing that it is open, and sees a spurious fault.
    pub(crate) fn close_watched(&self, minipage: MinipageId) {
        let Some(races) = self.checker_of(minipage) else { return };
        if !lock(&races.open).watched.contains_key(&minipage) {
            return;
        }
        let closed = self.platform.memory().protect(minipage, Access::ReadWrite, Access::ReadOnly);
        if let Err(error) = closed {
            self.platform.fatal(&error.to_string());
        }
        self.unwatch(minipage);
    }

    /// Before a thread of this node releases: what was written here so far comes before. The release
    /// waits until each of these judges has said that it has it ([`DriverFrame::RaceJudged`]).
    pub(crate) fn end_epoch(&self) -> BTreeSet<NodeId> {
        let Some(races) = self.checker else { return BTreeSet::new() };
        if !self.platform.tables().is_relaxed() {
            return BTreeSet::new();
        }
        self.renew_watch(races);
        let mut open = lock(&races.open);
        open.end_epoch(self.platform.me());
        core::mem::take(&mut open.told)
    }

    /// A peer's writes; false for what none sends.
    pub(crate) fn receive_writes(
        &self,
        writer: NodeId,
        minipage: u64,
        epoch: u64,
        body: &[u8],
    ) -> bool {
        let minipage = MinipageId(minipage);
        if !self.platform.tables().knows(minipage) || self.judge_of(minipage) != self.platform.me()
        {
            return false;
        }
        let Some(races) = self.checker_of(minipage) else { return false };
        let (_, len) = self.platform.memory().privileged(minipage);
        let Some((since, rest)) = Clock::from_bytes(body, self.platform.nodes()) else {
            return false;
        };
        let Some(bytes) = WrittenBytes::from_bytes(rest, len) else { return false };
        self.judge(races, minipage, Writes { writer, epoch, since, bytes });
        true
    }

    /// Says so if --check-races is on and no memory is release consistent: there is nothing to check.
    pub(crate) fn note_unchecked(&self) {
        let first = self.platform.me() == NodeId(0);
        if self.are_checked() && !self.platform.tables().is_relaxed() && first {
            self.platform.launcher().note(&format!(
                "{NO_RACES_CHECKED}: no memory of this job is release consistent; run it with --consistency lazy-release"
            ));
        }
    }

    /// Dates what was written so far in every open minipage.
    fn renew_watch(&self, races: &Checker) {
        let open: Vec<MinipageId> = lock(&races.open).watched.keys().copied().collect();
        for minipage in open {
            let cell = self.platform.tables().lock(minipage);
            self.close_watched(minipage);
            drop(cell);
        }
    }

    fn hand_in(
        &self,
        races: &Checker,
        open: &mut OpenWrites,
        minipage: MinipageId,
        writes: Writes,
    ) {
        let judge = self.judge_of(minipage);
        if judge == self.platform.me() {
            self.judge(races, minipage, writes);
            return;
        }
        let header = Header {
            kind: DriverFrame::RaceWrites.number(),
            from: self.platform.me().0,
            subject: minipage.0,
            value: writes.epoch,
            ..Header::default()
        };
        let mut body = writes.since.to_bytes();
        writes.bytes.append_to(&mut body);
        self.platform.send_frame(judge, header, Payload::Owned(body));
        open.told.insert(judge);
    }

    fn judge(&self, races: &Checker, minipage: MinipageId, writes: Writes) {
        let found = lock(&races.judge).receive(minipage, writes);
        for race in found {
            let launcher = self.platform.launcher();
            let (object, line) = self.describe(&race);
            launcher.race(&object, &line);
            if race.last {
                let me = self.platform.me();
                launcher.note(&format!(
                    "{me} reports no more races of what it allocated: there were {MOST_RACES}"
                ));
            }
        }
    }

    /// The node that allocated it, which knows what it is part of.
    fn judge_of(&self, minipage: MinipageId) -> NodeId {
        self.platform
            .tables()
            .area(minipage.area())
            .map_or(self.platform.me(), |area| area.record.owner)
    }

    fn snapshot(&self, minipage: MinipageId) -> Vec<u8> {
        let (page, len) = self.platform.memory().privileged(minipage);
        let mut bytes = vec![0; len];
        // SAFETY: the privileged view is readable for the length of the minipage, and others may
        // write it meanwhile: bytes are copied, never referred to.
        unsafe { page.cast_const().copy_to_nonoverlapping(bytes.as_mut_ptr(), len) };
        bytes
    }
}

/// Where two states of a minipage differ.
fn written(before: &[u8], now: &[u8]) -> WrittenBytes {
    let mut bytes = Vec::new();
    // SAFETY: both have the length of the minipage.
    unsafe { diff::encode(before, now.as_ptr(), &mut bytes) };
    let diff = Diff::check(&bytes, now.len()).expect("what was just encoded is sound");
    diff.runs().map(|(offset, run)| offset..offset + run.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_ends_with_a_release_and_is_known_to_who_hears_of_it() {
        let (mut one, mut two) = (OpenWrites::default(), OpenWrites::default());
        assert_eq!(one.epoch(NodeId(1)), 1);
        one.end_epoch(NodeId(1));
        assert_eq!((one.epoch(NodeId(1)), &one.clock), (2, &Clock::from([0, 1])));
        assert!(two.receive(NodeId(0), &one.clock));
        assert!(!two.receive(NodeId(0), &one.clock), "nothing new twice");
        assert!(!two.receive(NodeId(0), &Clock::default()), "nothing is not new");
        assert_eq!(two.clock, Clock::from([0, 1]));
        assert!(!one.receive(NodeId(1), &[0, 9].into()), "nobody knows better than a node itself");
    }

    #[test]
    fn epochs_go_on_past_32_bits() {
        const LAST: u64 = u32::MAX as u64;
        let mut open = OpenWrites { clock: Clock::from([LAST - 1]), ..OpenWrites::default() };
        for epoch in [LAST, LAST + 1, LAST + 2] {
            assert_eq!(open.epoch(NodeId(0)), epoch);
            open.end_epoch(NodeId(0));
            assert_eq!(open.clock.of(NodeId(0)), epoch);
        }
        let mut other = OpenWrites { clock: Clock::from([LAST, 7]), ..OpenWrites::default() };
        assert!(other.receive(NodeId(1), &open.clock), "an epoch past them is new");
        assert_eq!(other.clock, Clock::from([LAST + 2, 7]));
    }

    #[test]
    fn what_was_written_is_where_bytes_differ() {
        let (before, mut now) = ([0; 200], [0; 200]);
        now[3] = 1;
        now[63..66].fill(2);
        assert_eq!(written(&before, &now), [3..4, 63..66].into_iter().collect());
    }
}
