//! What a node knows of lazily consistent writes, its own and others'.

#[cfg(feature = "mutants")]
mod mutants;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use multigrain_types::{MinipageId, NodeId};

use super::write_notices::{MigrationPlan, WriteNotice, WriteNotices};
use crate::coherence::Illegal;
use crate::message::{BarrierMessage, SyncMessage};

/// Vector time, write notices and moves of homes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct IntervalLog {
    me: NodeId,
    /// Of every node, the last of its intervals this node has heard of; empty before the first.
    clock: Vec<u64>,
    /// Of every node, what it wrote.
    logs: BTreeMap<NodeId, Log>,
    /// Minipages that others wrote and this node has not forgotten yet.
    pending: BTreeSet<MinipageId>,
    /// Of other nodes, the clock they have at least: what this node has told them or heard.
    told: BTreeMap<NodeId, Vec<u64>>,
    /// Of other nodes, the clock they said they have.
    heard: BTreeMap<NodeId, Vec<u64>>,
    /// What every node has said it knows.
    common: Vec<u64>,
    /// Something was forgotten that the next quiescent barrier would have to know.
    blurred: bool,
    /// How often homes have moved: barriers that found the whole job quiescent.
    epoch: u64,
    /// The clock at the last of them.
    episode: Vec<u64>,
    /// What the last quiescent barrier's manager found; its release follows, or has.
    latest: MigrationPlan,
}

/// What one node wrote: of every minipage the last interval.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Log {
    last: BTreeMap<MinipageId, u64>,
    /// By interval, what was not written again in a later one.
    order: BTreeMap<u64, BTreeSet<MinipageId>>,
}

impl Log {
    /// What was written in an interval that is later than those before. An interval that writes what
    /// one before it wrote, as loops do, takes no longer than walking over both.
    fn add(&mut self, interval: u64, mut written: Vec<MinipageId>) {
        written.sort_unstable();
        written.dedup();
        let mut old = self.replace(interval, &written);
        old.sort_unstable();
        for again in old.chunk_by(|one, other| one.0 == other.0) {
            let Entry::Occupied(mut before) = self.order.entry(again[0].0) else { continue };
            if before.get().len() == again.len() {
                before.remove();
            } else {
                again.iter().for_each(|(_, minipage)| {
                    before.get_mut().remove(minipage);
                });
            }
        }
        self.order.entry(interval).or_default().append(&mut written.into_iter().collect());
    }

    /// Makes this interval the last of minipages in ascending order; which had another one.
    fn replace(&mut self, interval: u64, written: &[MinipageId]) -> Vec<(u64, MinipageId)> {
        let (Some(&first), Some(&last)) = (written.first(), written.last()) else {
            return Vec::new();
        };
        let mut old = Vec::new();
        let mut swap = |before: &mut u64, minipage| {
            old.push((core::mem::replace(before, interval), minipage));
        };
        let mut new = Vec::new();
        // Close together: they are found in one walk.
        let mut known = (last.0 - first.0 < 8 * written.len() as u64)
            .then(|| self.last.range_mut(first..=last).peekable());
        for &minipage in written {
            match &mut known {
                Some(known) => {
                    while known.next_if(|(other, _)| **other < minipage).is_some() {}
                    match known.next_if(|(other, _)| **other == minipage) {
                        Some((_, before)) => swap(before, minipage),
                        None => new.push(minipage),
                    }
                }
                None => new.push(minipage),
            }
        }
        for minipage in new {
            match self.last.entry(minipage) {
                Entry::Occupied(mut before) => swap(before.get_mut(), minipage),
                Entry::Vacant(place) => {
                    place.insert(interval);
                }
            }
        }
        old
    }

    /// What was written after an interval, by interval and then minipage.
    fn after(&self, interval: u64) -> impl Iterator<Item = (u64, MinipageId)> {
        let later = self.order.range(interval.saturating_add(1)..);
        later.flat_map(|(&interval, minipages)| {
            minipages.iter().map(move |&minipage| (interval, minipage))
        })
    }

    /// The last interval forgotten; 0 if there was none.
    fn forget(&mut self, up_to: u64) -> u64 {
        let kept = self.order.split_off(&up_to.saturating_add(1));
        let forgotten = core::mem::replace(&mut self.order, kept);
        let last = forgotten.last_key_value().map_or(0, |(&interval, _)| interval);
        if self.order.is_empty() {
            self.last.clear();
        } else {
            for minipage in forgotten.into_values().flatten() {
                self.last.remove(&minipage);
            }
        }
        last
    }
}

/// An entry of a vector time; those that are missing are zero.
fn at(clock: &[u64], node: NodeId) -> u64 {
    clock.get(node.index()).copied().unwrap_or(0)
}

/// The later of two vector times.
fn merge(clock: &mut Vec<u64>, other: &[u64]) {
    if clock.len() < other.len() {
        clock.resize(other.len(), 0);
    }
    for (own, other) in clock.iter_mut().zip(other) {
        *own = (*own).max(*other);
    }
}

impl IntervalLog {
    /// The log of node `me`, which has heard of nothing.
    #[must_use]
    pub fn new(me: NodeId) -> Self {
        Self { me, ..Self::default() }
    }

    /// The log of node `me` in a job of `nodes` nodes in which every one of them has closed so
    /// many intervals, which all know of and have forgotten, and homes have moved as often.
    #[must_use]
    pub fn starting_at(me: NodeId, nodes: u16, number: u64) -> Self {
        if number == 0 {
            return Self::new(me);
        }
        let clock = vec![number; nodes.into()];
        let latest = MigrationPlan { epoch: number, clock: clock.clone(), moves: Vec::new() };
        let (common, episode) = (clock.clone(), clock.clone());
        Self { clock, common, episode, epoch: number, latest, ..Self::new(me) }
    }

    /// Moves of homes this node knows of.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Write notices kept.
    #[must_use]
    pub fn notices(&self) -> usize {
        self.logs.values().map(|log| log.last.len()).sum()
    }

    /// A flush of this node has ended: its writes may be told of.
    pub(super) fn close_interval(&mut self, written: Vec<MinipageId>) {
        if written.is_empty() {
            return;
        }
        let (me, interval) = (self.me, at(&self.clock, self.me) + 1);
        #[cfg(feature = "mutants")]
        let interval =
            crate::mutants::next_number(crate::mutants::Mutant::IntervalsWrap, interval - 1);
        if self.clock.len() <= me.index() {
            self.clock.resize(me.index() + 1, 0);
        }
        self.clock[me.index()] = interval;
        self.logs.entry(me).or_default().add(interval, written);
    }

    /// What a node of the job of `nodes` has not been told and must know before it acts on `body`;
    /// `None` if there is nothing to tell.
    pub fn notices_for(
        &mut self,
        to: NodeId,
        nodes: u16,
        body: Option<SyncMessage>,
    ) -> Option<WriteNotices> {
        if self.clock.is_empty() {
            return None;
        }
        let told = self.told.entry(to).or_default();
        merge(told, &self.common);
        let known =
            self.clock.iter().zip((0..).map(NodeId)).all(|(&own, node)| own <= at(told, node));
        // At a barrier everybody says how far it is, so that all may forget.
        let barrier = matches!(body, Some(SyncMessage::Barrier(_)));
        if known && !barrier {
            return None;
        }
        let others = self.logs.iter().filter(|(writer, _)| **writer != to);
        let notices = others.flat_map(|(&writer, log)| {
            let fresh = log.after(at(told, writer));
            fresh.map(move |(interval, minipage)| WriteNotice { writer, interval, minipage })
        });
        let notices = notices.collect();
        merge(told, &self.clock);
        let (floor, plan) = match body {
            Some(SyncMessage::Barrier(BarrierMessage::Release { quiescent, .. })) => {
                (self.floor(nodes), quiescent.then(|| self.latest.clone()))
            }
            Some(_) | None => (Vec::new(), None),
        };
        Some(WriteNotices { clock: self.clock.clone(), notices, floor, plan })
    }

    /// What another node says it knows.
    ///
    /// # Errors
    /// [`Illegal`] if it says more of this node than this node has done, that all know what not even
    /// it knows, or tells of another epoch than the next.
    pub fn receive(&mut self, from: NodeId, notices: &WriteNotices) -> Result<(), Illegal> {
        self.check(notices)?;
        let together = |one: &WriteNotice, other: &WriteNotice| {
            (one.writer, one.interval) == (other.writer, other.interval)
        };
        for notices in notices.notices.chunk_by(together) {
            let WriteNotice { writer, interval, .. } = notices[0];
            if writer != self.me && interval > at(&self.clock, writer) {
                let written: Vec<_> = notices.iter().map(|notice| notice.minipage).collect();
                self.pending.extend(&written);
                self.logs.entry(writer).or_default().add(interval, written);
            }
        }
        merge(&mut self.clock, &notices.clock);
        merge(self.told.entry(from).or_default(), &notices.clock);
        merge(self.heard.entry(from).or_default(), &notices.clock);
        match &notices.plan {
            // Write notices too long for one frame come in parts.
            Some(plan) if self.is_part(plan) => {
                self.latest.moves.extend(&plan.moves);
            }
            Some(plan) => self.latest = plan.clone(),
            None => {}
        }
        self.forget(&notices.floor);
        Ok(())
    }

    fn check(&self, notices: &WriteNotices) -> Result<(), Illegal> {
        let own = at(&self.clock, self.me);
        let plan = notices.plan.as_ref();
        let own_notices = notices.notices.iter().filter(|notice| notice.writer == self.me);
        let of_this = own_notices
            .map(|notice| notice.interval)
            .chain([at(&notices.clock, self.me)])
            .chain(plan.map(|plan| at(&plan.clock, self.me)));
        let known = |node| at(&self.clock, node).max(at(&notices.clock, node));
        let mut floor = notices.floor.iter().zip((0..).map(NodeId));
        let (most, epoch) = (of_this.max().unwrap_or(0), self.epoch + 1);
        let state = if most > own {
            format!("{} has closed {own} intervals, not {most}", self.me)
        } else if floor.any(|(&all, node)| all > known(node)) {
            format!("all know {:?}, and it knows {:?}", notices.floor, notices.clock)
        } else if plan.is_some_and(|plan| plan.epoch != epoch) {
            format!("epoch {epoch} is the next")
        } else {
            return Ok(());
        };
        Err(Illegal { role: "interval log", state })
    }

    /// Whether this is one more part of what this node has heard of the last quiescent barrier.
    fn is_part(&self, plan: &MigrationPlan) -> bool {
        #[cfg(feature = "mutants")]
        if self.mistakes(plan) {
            return true;
        }
        plan.epoch == self.latest.epoch
    }

    /// An acquire: the minipages to forget.
    pub fn take_pending(&mut self) -> BTreeSet<MinipageId> {
        core::mem::take(&mut self.pending)
    }

    /// Manager of a barrier at which all is quiescent: the minipages that one node alone has written
    /// since the last such barrier, and that node. None if not all is known any more.
    pub fn sole_writers(&mut self) -> Vec<(MinipageId, NodeId)> {
        if core::mem::take(&mut self.blurred) {
            return Vec::new();
        }
        let mut writers: BTreeMap<MinipageId, Option<NodeId>> = BTreeMap::new();
        for (&writer, log) in &self.logs {
            for (_, minipage) in log.after(at(&self.episode, writer)) {
                writers.entry(minipage).and_modify(|sole| *sole = None).or_insert(Some(writer));
            }
        }
        writers.into_iter().filter_map(|(minipage, sole)| Some((minipage, sole?))).collect()
    }

    /// Manager of a quiescent barrier: what its releases shall say. It forgets what all know.
    pub fn announce(&mut self, nodes: u16, moves: Vec<(MinipageId, NodeId)>) {
        let epoch = self.epoch + 1;
        self.latest = MigrationPlan { epoch, clock: self.clock.clone(), moves };
        let floor = self.floor(nodes);
        self.forget(&floor);
    }

    /// The release of a quiescent barrier: a new epoch, with these moves.
    pub fn switch(&mut self) -> Vec<(MinipageId, NodeId)> {
        self.epoch += 1;
        self.episode.clone_from(&self.latest.clock);
        self.blurred = false;
        self.latest.moves.clone()
    }

    /// What every other node has said it knows; nothing while one has not spoken.
    fn floor(&self, nodes: u16) -> Vec<u64> {
        let mut floor = self.clock.clone();
        for node in (0..nodes).map(NodeId).filter(|&node| node != self.me) {
            let heard = self.heard.get(&node).map_or(&[][..], Vec::as_slice);
            for (entry, writer) in floor.iter_mut().zip((0..).map(NodeId)) {
                *entry = (*entry).min(at(heard, writer));
            }
        }
        floor
    }

    /// Forgets what all know.
    fn forget(&mut self, floor: &[u64]) {
        merge(&mut self.common, floor);
        for (&writer, log) in &mut self.logs {
            self.blurred |= log.forget(at(floor, writer)) > at(&self.episode, writer);
        }
        self.logs.retain(|_, log| !log.last.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::LockMessage;

    const M: MinipageId = MinipageId(7);
    const N: MinipageId = MinipageId(9);
    const GRANT: Option<SyncMessage> = Some(SyncMessage::Lock(LockMessage::Grant));
    const NODES: u16 = 3;

    fn job() -> [IntervalLog; 3] {
        [0, 1, 2].map(|node| IntervalLog::new(NodeId(node)))
    }

    fn write(job: &mut [IntervalLog], node: u16, minipage: MinipageId) {
        job[usize::from(node)].close_interval(vec![minipage]);
    }

    fn say(
        job: &mut [IntervalLog],
        from: u16,
        to: u16,
        body: Option<SyncMessage>,
    ) -> Option<WriteNotices> {
        let notices = job[usize::from(from)].notices_for(NodeId(to), NODES, body)?;
        job[usize::from(to)].receive(NodeId(from), &notices).unwrap();
        Some(notices)
    }

    /// Everybody comes to a barrier that node 0 manages; who turned, and where homes move to.
    fn quiescent_barrier(job: &mut [IntervalLog], homes: &[(MinipageId, NodeId)]) {
        let arrive = BarrierMessage::Arrive { arrivals: 1, total: 3, quiescent: true };
        for node in [1, 2] {
            say(job, node, 0, Some(SyncMessage::Barrier(arrive)));
        }
        job[0].announce(NODES, homes.to_vec());
        let release = BarrierMessage::Release { arrivals: 1, quiescent: true };
        for node in [1, 2] {
            say(job, 0, node, Some(SyncMessage::Barrier(release)));
        }
        for log in job {
            log.take_pending();
            assert_eq!(log.switch(), homes);
        }
    }

    fn pending(job: &mut [IntervalLog], node: u16) -> Vec<MinipageId> {
        job[usize::from(node)].take_pending().into_iter().collect()
    }

    /// Whatever is written again: as if each minipage had been entered by itself.
    #[test]
    fn a_log_has_the_last_interval_of_every_minipage() {
        let (mut log, mut plain) = (Log::default(), BTreeMap::new());
        for interval in 1..200_u64 {
            // Runs, now and then with gaps, at places that often meet what was written before.
            let (start, stride) = (interval * interval % 13, interval % 3);
            let count = interval % 7 * 3 + 1;
            let far = if interval % 5 == 0 { 1 << 40 } else { 0 };
            let index = |number| MinipageId(start + number * (1 + stride) + number % 2 * far);
            let written: Vec<_> = (0..count).rev().map(index).collect();
            plain.extend(written.iter().map(|&minipage| (minipage, interval)));
            log.add(interval, written);
            let forgotten = if interval % 50 == 0 { interval - 10 } else { 0 };
            assert!(log.forget(forgotten) <= forgotten);
            plain.retain(|_, last| *last > forgotten);
            assert_eq!(log.last, plain);
            let mut order: Vec<_> = plain.iter().map(|(&of, &last)| (last, of)).collect();
            order.sort_unstable();
            assert!(log.after(0).eq(order.iter().copied()));
            order.retain(|(last, _)| *last > interval - 1);
            assert!(log.after(interval - 1).eq(order));
            assert!(log.order.values().all(|minipages| !minipages.is_empty()));
        }
    }

    #[test]
    fn a_job_that_writes_nothing_has_no_notices() {
        let mut job = job();
        assert_eq!(say(&mut job, 0, 1, GRANT), None);
        write(&mut job, 0, M);
        job[1].close_interval(Vec::new());
        assert_eq!(say(&mut job, 1, 0, GRANT), None, "a flush without notices is no interval");
    }

    #[test]
    fn nothing_is_told_twice() {
        let mut job = job();
        write(&mut job, 1, M);
        let notice = WriteNotice { writer: NodeId(1), interval: 1, minipage: M };
        assert_eq!(say(&mut job, 1, 2, GRANT).map(|notices| notices.notices), Some(vec![notice]));
        assert_eq!(say(&mut job, 1, 2, GRANT), None);
        assert_eq!(say(&mut job, 2, 1, GRANT), None, "nor told back");
        write(&mut job, 1, N);
        let notice = WriteNotice { writer: NodeId(1), interval: 2, minipage: N };
        assert_eq!(say(&mut job, 1, 2, GRANT).map(|notices| notices.notices), Some(vec![notice]));
        assert_eq!(pending(&mut job, 2), [M, N]);
        assert!(pending(&mut job, 2).is_empty(), "an acquire forgets once");
    }

    #[test]
    fn what_a_node_was_told_it_tells_on() {
        let mut job = job();
        write(&mut job, 0, M);
        say(&mut job, 0, 1, GRANT);
        write(&mut job, 1, N);
        say(&mut job, 1, 2, GRANT);
        assert_eq!(pending(&mut job, 2), [M, N]);
        say(&mut job, 2, 0, GRANT);
        assert_eq!(pending(&mut job, 0), [N], "its own writes it need not forget");
    }

    #[test]
    fn notices_that_come_a_second_time_by_another_way_invalidate_nothing() {
        let mut job = job();
        write(&mut job, 0, M);
        say(&mut job, 0, 1, GRANT);
        say(&mut job, 0, 2, GRANT);
        assert_eq!((pending(&mut job, 1), pending(&mut job, 2)), (vec![M], vec![M]));
        write(&mut job, 1, N);
        let notices = say(&mut job, 1, 2, GRANT).expect("node 1 wrote");
        assert_eq!(notices.notices.len(), 2, "node 1 does not know that node 2 has heard of it");
        assert_eq!(pending(&mut job, 2), [N]);
    }

    #[test]
    fn the_log_of_a_program_with_locks_alone_stays_bounded() {
        let mut job = job();
        for round in 0..1000u64 {
            let writer = u16::try_from(round % 3).unwrap_or(0);
            write(&mut job, writer, if round % 2 == 0 { M } else { N });
            let notices = say(&mut job, writer, (writer + 1) % 3, GRANT).expect("it wrote");
            assert!(
                notices.notices.len() <= 4,
                "{} notices in round {round}",
                notices.notices.len()
            );
        }
        for log in &job {
            assert!(log.notices() <= 6, "a notice a writer and minipage");
        }
    }

    #[test]
    fn who_alone_wrote_since_the_last_quiet_barrier_is_found() {
        let mut job = job();
        write(&mut job, 1, M);
        write(&mut job, 1, N);
        write(&mut job, 2, N);
        for node in [1, 2] {
            say(&mut job, node, 0, GRANT);
        }
        assert_eq!(job[0].sole_writers(), [(M, NodeId(1))]);
        quiescent_barrier(&mut job, &[(M, NodeId(1))]);
        assert!(job[0].sole_writers().is_empty(), "nobody wrote since");
        write(&mut job, 2, N);
        say(&mut job, 2, 0, GRANT);
        assert_eq!(job[0].sole_writers(), [(N, NodeId(2))]);
        assert!(job.iter().all(|log| log.epoch() == 1));
    }

    #[test]
    fn what_all_have_heard_of_is_forgotten_a_quiet_barrier_later() {
        let mut job = job();
        for round in 0..10 {
            write(&mut job, round % 3, M);
            quiescent_barrier(&mut job, &[]);
        }
        let notices = |job: &[IntervalLog]| job.iter().map(IntervalLog::notices).max();
        assert!(notices(&job) <= Some(2), "{:?}", notices(&job));
        quiescent_barrier(&mut job, &[]);
        quiescent_barrier(&mut job, &[]);
        assert_eq!(notices(&job), Some(0));
        // And what is written then is told as ever.
        write(&mut job, 0, M);
        say(&mut job, 0, 2, GRANT);
        assert_eq!(pending(&mut job, 2), [M]);
    }

    #[test]
    fn nothing_is_forgotten_while_a_node_has_not_spoken() {
        let mut job = job();
        write(&mut job, 1, M);
        say(&mut job, 1, 0, GRANT);
        job[0].announce(NODES, Vec::new());
        job[0].switch();
        job[0].announce(NODES, Vec::new());
        assert_eq!(job[0].notices(), 1, "node 2 has not heard of it");
    }

    #[test]
    fn parts_of_a_turn_add_up_and_the_next_turn_replaces_it() {
        let mut log = IntervalLog::new(NodeId(1));
        let clock = vec![1, 0];
        let part = |epoch, minipage, home| WriteNotices {
            clock: clock.clone(),
            notices: Vec::new(),
            floor: Vec::new(),
            plan: Some(MigrationPlan {
                epoch,
                clock: clock.clone(),
                moves: vec![(minipage, NodeId(home))],
            }),
        };
        log.receive(NodeId(0), &part(1, M, 1)).unwrap();
        log.receive(NodeId(0), &part(1, N, 2)).unwrap();
        assert_eq!(log.switch(), [(M, NodeId(1)), (N, NodeId(2))]);
        // Nobody wrote in between.
        log.receive(NodeId(0), &part(2, N, 1)).unwrap();
        assert_eq!(log.switch(), [(N, NodeId(1))]);
    }

    /// A peer's word about this node, or about what all know, is no better than what they have done.
    #[test]
    fn notices_that_say_too_much_are_refused_and_change_nothing() {
        let mut log = IntervalLog::new(NodeId(1));
        log.close_interval(vec![M]);
        let before = log.clone();
        let notice =
            |writer, interval| WriteNotice { writer: NodeId(writer), interval, minipage: N };
        let plan = |epoch, clock: &[u64]| MigrationPlan {
            epoch,
            clock: clock.to_vec(),
            moves: Vec::new(),
        };
        let plain = || WriteNotices { clock: vec![3, 1], ..WriteNotices::default() };
        for wrong in [
            WriteNotices { clock: vec![3, 2], ..plain() },
            WriteNotices { clock: vec![3, u64::MAX], ..plain() },
            WriteNotices { notices: vec![notice(1, 2)], ..plain() },
            WriteNotices { floor: vec![4, 1], ..plain() },
            WriteNotices { floor: vec![0, 2], ..plain() },
            WriteNotices { plan: Some(plan(1, &[3, 2])), ..plain() },
            WriteNotices { plan: Some(plan(2, &[3, 1])), ..plain() },
            WriteNotices { plan: Some(plan(0, &[3, 1])), ..plain() },
        ] {
            let refused = log.receive(NodeId(0), &wrong);
            assert!(refused.is_err_and(|illegal| illegal.role == "interval log"), "{wrong:?}");
            assert_eq!(log, before);
        }
        let right = WriteNotices { floor: vec![3, 0], plan: Some(plan(1, &[3, 1])), ..plain() };
        assert_eq!(log.receive(NodeId(0), &right), Ok(()));
        log.close_interval(vec![M]);
        assert_eq!(at(&log.clock, NodeId(1)), 2);
    }

    /// Numbers have 64 bits: nothing happens where 32 end.
    #[test]
    fn intervals_and_epochs_go_on_where_32_bits_end() {
        let start = u64::from(u32::MAX) - 1;
        let mut job = [0, 1, 2].map(|node| IntervalLog::starting_at(NodeId(node), NODES, start));
        for round in 1..=4 {
            write(&mut job, 1, M);
            let notice = WriteNotice { writer: NodeId(1), interval: start + round, minipage: M };
            assert_eq!(
                say(&mut job, 1, 2, GRANT).map(|notices| notices.notices),
                Some(vec![notice])
            );
            assert_eq!(pending(&mut job, 2), [M], "round {round}");
            say(&mut job, 1, 0, GRANT);
            assert_eq!(job[0].sole_writers(), [(M, NodeId(1))]);
            quiescent_barrier(&mut job, &[(M, NodeId(1))]);
            assert!(job.iter().all(|log| log.epoch() == start + round));
            assert!(job[0].sole_writers().is_empty());
        }
    }
}
