//! What a node knows of lazily consistent writes, its own and others'.

#[cfg(feature = "mutants")]
mod mutants;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use multigrain_types::{MinipageId, NodeId};

use super::news::{News, Notice, Turn};
use crate::coherence::Illegal;
use crate::message::{BarrierMessage, SyncMessage};

/// Vector time, write notices and moves of homes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Chronicle {
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
    /// Something was forgotten that the next quiet barrier would have to know.
    blurred: bool,
    /// How often homes have moved: barriers that found the whole job quiet.
    epoch: u64,
    /// The clock at the last of them.
    episode: Vec<u64>,
    /// What the last quiet barrier's manager found, if this node is that or has its release.
    latest: Turn,
    /// Of other nodes, what they said the next quiet barrier found: the release that follows says whose
    /// word counts.
    turns: BTreeMap<NodeId, Turn>,
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

impl Chronicle {
    /// The chronicle of node `me`, which has heard of nothing.
    #[must_use]
    pub fn new(me: NodeId) -> Self {
        Self { me, ..Self::default() }
    }

    /// The chronicle of node `me` in a job of `nodes` nodes in which every one of them has closed so
    /// many intervals, which all know of and have forgotten, and homes have moved as often.
    #[must_use]
    pub fn starting_at(me: NodeId, nodes: u16, number: u64) -> Self {
        if number == 0 {
            return Self::new(me);
        }
        let clock = vec![number; nodes.into()];
        let latest = Turn { epoch: number, clock: clock.clone(), moves: Vec::new() };
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
    pub fn news_for(&mut self, to: NodeId, nodes: u16, body: Option<SyncMessage>) -> Option<News> {
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
            fresh.map(move |(interval, minipage)| Notice { writer, interval, minipage })
        });
        let notices = notices.collect();
        merge(told, &self.clock);
        let (floor, turn) = match body {
            Some(SyncMessage::Barrier(BarrierMessage::Release { quiet, .. })) => {
                (self.floor(nodes), quiet.then(|| self.latest.clone()))
            }
            Some(_) | None => (Vec::new(), None),
        };
        Some(News { clock: self.clock.clone(), notices, floor, turn })
    }

    /// What another node says it knows.
    ///
    /// # Errors
    /// [`Illegal`] if it says more of this node than this node has done, that all know what not even
    /// it knows, tells of another epoch than the next, or moves a home twice.
    pub fn hear(&mut self, from: NodeId, news: &News) -> Result<(), Illegal> {
        self.check(from, news)?;
        let together = |one: &Notice, other: &Notice| {
            (one.writer, one.interval) == (other.writer, other.interval)
        };
        for notices in news.notices.chunk_by(together) {
            let Notice { writer, interval, .. } = notices[0];
            if writer != self.me && interval > at(&self.clock, writer) {
                let written: Vec<_> = notices.iter().map(|notice| notice.minipage).collect();
                self.pending.extend(&written);
                self.logs.entry(writer).or_default().add(interval, written);
            }
        }
        merge(&mut self.clock, &news.clock);
        merge(self.told.entry(from).or_default(), &news.clock);
        merge(self.heard.entry(from).or_default(), &news.clock);
        if let Some(turn) = &news.turn {
            #[cfg(feature = "mutants")]
            let turn = &self.mistake(turn);
            match self.turns.entry(from) {
                // News too long for one frame come in parts.
                Entry::Occupied(parts) => parts.into_mut().moves.extend(&turn.moves),
                Entry::Vacant(first) => {
                    first.insert(turn.clone());
                }
            }
        }
        self.forget(&news.floor);
        Ok(())
    }

    fn check(&self, from: NodeId, news: &News) -> Result<(), Illegal> {
        let own = at(&self.clock, self.me);
        let turn = news.turn.as_ref();
        let own_notices = news.notices.iter().filter(|notice| notice.writer == self.me);
        let of_this = own_notices
            .map(|notice| notice.interval)
            .chain([at(&news.clock, self.me)])
            .chain(turn.map(|turn| at(&turn.clock, self.me)));
        let known = |node| at(&self.clock, node).max(at(&news.clock, node));
        let mut floor = news.floor.iter().zip((0..).map(NodeId));
        let (most, epoch) = (of_this.max().unwrap_or(0), self.epoch + 1);
        let state = if most > own {
            format!("{} has closed {own} intervals, not {most}", self.me)
        } else if floor.any(|(&all, node)| all > known(node)) {
            format!("all know {:?}, and it knows {:?}", news.floor, news.clock)
        } else if turn.is_some_and(|turn| turn.epoch != epoch) {
            format!("epoch {epoch} is the next")
        } else if turn.is_some_and(|turn| !self.goes_on(from, turn)) {
            format!("{from} has moved the home of another minipage last")
        } else {
            return Ok(());
        };
        Err(Illegal { role: "interval log", state })
    }

    /// Whether these moves go on where those end that the same node told of before: they come in the
    /// order of minipages, so none has two homes, and no more are kept than there are minipages.
    fn goes_on(&self, from: NodeId, turn: &Turn) -> bool {
        #[cfg(feature = "mutants")]
        if crate::mutants::on(crate::mutants::Mutant::MovesWithoutEnd) {
            return true;
        }
        let before = self.turns.get(&from).and_then(|turn| turn.moves.last());
        before.into_iter().chain(&turn.moves).is_sorted_by(|one, other| one.0 < other.0)
    }

    /// An acquire: the minipages to forget.
    pub fn take_pending(&mut self) -> BTreeSet<MinipageId> {
        core::mem::take(&mut self.pending)
    }

    /// Manager of a barrier at which all is quiet: the minipages that one node alone has written
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

    /// Manager of a quiet barrier: what its releases shall say. It forgets what all know.
    pub fn announce(&mut self, nodes: u16, moves: Vec<(MinipageId, NodeId)>) {
        let epoch = self.epoch + 1;
        self.latest = Turn { epoch, clock: self.clock.clone(), moves };
        let floor = self.floor(nodes);
        self.forget(&floor);
    }

    /// The release of this manager's quiet barrier: a new epoch, with these moves. What others
    /// have said of that epoch is void, but for the barrier's manager.
    pub fn turn(&mut self, manager: NodeId) -> Vec<(MinipageId, NodeId)> {
        let told = core::mem::take(&mut self.turns).remove(&manager);
        if manager != self.me {
            // Who has nothing to tell moves nothing.
            self.latest.moves.clear();
            self.latest = told.unwrap_or_else(|| core::mem::take(&mut self.latest));
        }
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

    fn job() -> [Chronicle; 3] {
        [0, 1, 2].map(|node| Chronicle::new(NodeId(node)))
    }

    fn write(job: &mut [Chronicle], node: u16, minipage: MinipageId) {
        job[usize::from(node)].close_interval(vec![minipage]);
    }

    fn say(job: &mut [Chronicle], from: u16, to: u16, body: Option<SyncMessage>) -> Option<News> {
        let news = job[usize::from(from)].news_for(NodeId(to), NODES, body)?;
        job[usize::from(to)].hear(NodeId(from), &news).unwrap();
        Some(news)
    }

    /// Everybody comes to a barrier that node 0 manages; who turned, and where homes move to.
    fn quiet_barrier(job: &mut [Chronicle], homes: &[(MinipageId, NodeId)]) {
        let arrive = BarrierMessage::Arrive { arrivals: 1, total: 3, quiet: true };
        for node in [1, 2] {
            say(job, node, 0, Some(SyncMessage::Barrier(arrive)));
        }
        job[0].announce(NODES, homes.to_vec());
        let release = BarrierMessage::Release { arrivals: 1, quiet: true };
        for node in [1, 2] {
            say(job, 0, node, Some(SyncMessage::Barrier(release)));
        }
        for chronicle in job {
            chronicle.take_pending();
            assert_eq!(chronicle.turn(NodeId(0)), homes);
        }
    }

    fn pending(job: &mut [Chronicle], node: u16) -> Vec<MinipageId> {
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
    fn a_job_that_writes_nothing_has_no_news() {
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
        let notice = Notice { writer: NodeId(1), interval: 1, minipage: M };
        assert_eq!(say(&mut job, 1, 2, GRANT).map(|news| news.notices), Some(vec![notice]));
        assert_eq!(say(&mut job, 1, 2, GRANT), None);
        assert_eq!(say(&mut job, 2, 1, GRANT), None, "nor told back");
        write(&mut job, 1, N);
        let notice = Notice { writer: NodeId(1), interval: 2, minipage: N };
        assert_eq!(say(&mut job, 1, 2, GRANT).map(|news| news.notices), Some(vec![notice]));
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
    fn news_that_come_a_second_time_by_another_way_invalidate_nothing() {
        let mut job = job();
        write(&mut job, 0, M);
        say(&mut job, 0, 1, GRANT);
        say(&mut job, 0, 2, GRANT);
        assert_eq!((pending(&mut job, 1), pending(&mut job, 2)), (vec![M], vec![M]));
        write(&mut job, 1, N);
        let news = say(&mut job, 1, 2, GRANT).expect("node 1 wrote");
        assert_eq!(news.notices.len(), 2, "node 1 does not know that node 2 has heard of it");
        assert_eq!(pending(&mut job, 2), [N]);
    }

    #[test]
    fn the_log_of_a_program_with_locks_alone_stays_bounded() {
        let mut job = job();
        for round in 0..1000u64 {
            let writer = u16::try_from(round % 3).unwrap_or(0);
            write(&mut job, writer, if round % 2 == 0 { M } else { N });
            let news = say(&mut job, writer, (writer + 1) % 3, GRANT).expect("it wrote");
            assert!(news.notices.len() <= 4, "{} notices in round {round}", news.notices.len());
        }
        for chronicle in &job {
            assert!(chronicle.notices() <= 6, "a notice a writer and minipage");
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
        quiet_barrier(&mut job, &[(M, NodeId(1))]);
        assert!(job[0].sole_writers().is_empty(), "nobody wrote since");
        write(&mut job, 2, N);
        say(&mut job, 2, 0, GRANT);
        assert_eq!(job[0].sole_writers(), [(N, NodeId(2))]);
        assert!(job.iter().all(|chronicle| chronicle.epoch() == 1));
    }

    #[test]
    fn what_all_have_heard_of_is_forgotten_a_quiet_barrier_later() {
        let mut job = job();
        for round in 0..10 {
            write(&mut job, round % 3, M);
            quiet_barrier(&mut job, &[]);
        }
        let notices = |job: &[Chronicle]| job.iter().map(Chronicle::notices).max();
        assert!(notices(&job) <= Some(2), "{:?}", notices(&job));
        quiet_barrier(&mut job, &[]);
        quiet_barrier(&mut job, &[]);
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
        job[0].turn(NodeId(0));
        job[0].announce(NODES, Vec::new());
        assert_eq!(job[0].notices(), 1, "node 2 has not heard of it");
    }

    #[test]
    fn parts_of_a_turn_add_up_and_the_next_turn_replaces_it() {
        let mut chronicle = Chronicle::new(NodeId(1));
        let clock = vec![1, 0];
        let part = |epoch, minipage, home| News {
            clock: clock.clone(),
            notices: Vec::new(),
            floor: Vec::new(),
            turn: Some(Turn { epoch, clock: clock.clone(), moves: vec![(minipage, NodeId(home))] }),
        };
        chronicle.hear(NodeId(0), &part(1, M, 1)).unwrap();
        chronicle.hear(NodeId(0), &part(1, N, 2)).unwrap();
        assert_eq!(chronicle.turn(NodeId(0)), [(M, NodeId(1)), (N, NodeId(2))]);
        // Nobody wrote in between.
        chronicle.hear(NodeId(0), &part(2, N, 1)).unwrap();
        assert_eq!(chronicle.turn(NodeId(0)), [(N, NodeId(1))]);
    }

    fn moves(epoch: u64, moves: &[(MinipageId, u16)]) -> News {
        let moves = moves.iter().map(|&(minipage, home)| (minipage, NodeId(home))).collect();
        News { turn: Some(Turn { epoch, clock: Vec::new(), moves }), ..News::default() }
    }

    /// Who is not the barrier's manager moves no home, before its release or after.
    #[test]
    fn the_moves_that_count_are_those_of_who_sends_the_release() {
        let mut chronicle = Chronicle::new(NodeId(1));
        chronicle.hear(NodeId(2), &moves(1, &[(M, 2)])).unwrap();
        chronicle.hear(NodeId(0), &moves(1, &[(M, 1)])).unwrap();
        chronicle.hear(NodeId(2), &moves(1, &[(N, 2)])).unwrap();
        chronicle.hear(NodeId(0), &moves(1, &[(N, 1)])).unwrap();
        assert_eq!(chronicle.turn(NodeId(0)), [(M, NodeId(1)), (N, NodeId(1))]);
        chronicle.hear(NodeId(2), &moves(2, &[(N, 2)])).unwrap();
        assert!(chronicle.turn(NodeId(0)).is_empty(), "who says nothing moves nothing");
        // The manager itself hears others say what it decides.
        let mut job = job();
        job[0].announce(NODES, vec![(M, NodeId(0))]);
        job[0].hear(NodeId(2), &moves(1, &[(M, 2)])).unwrap();
        assert_eq!(job[0].turn(NodeId(0)), [(M, NodeId(0))]);
    }

    #[test]
    fn a_turn_moves_every_home_once() {
        let mut chronicle = Chronicle::new(NodeId(1));
        chronicle.hear(NodeId(0), &moves(1, &[(M, 1)])).unwrap();
        let before = chronicle.clone();
        for again in [&[(M, 2)][..], &[(N, 1), (N, 2)], &[(N, 1), (M, 1)]] {
            assert!(chronicle.hear(NodeId(0), &moves(1, again)).is_err(), "{again:?}");
            assert_eq!(chronicle, before);
        }
        chronicle.hear(NodeId(0), &moves(1, &[(N, 2)])).unwrap();
        assert_eq!(chronicle.turn(NodeId(0)), [(M, NodeId(1)), (N, NodeId(2))]);
    }

    /// A peer's word about this node, or about what all know, is no better than what they have done.
    #[test]
    fn news_that_say_too_much_are_refused_and_change_nothing() {
        let mut chronicle = Chronicle::new(NodeId(1));
        chronicle.close_interval(vec![M]);
        let before = chronicle.clone();
        let notice = |writer, interval| Notice { writer: NodeId(writer), interval, minipage: N };
        let turn = |epoch, clock: &[u64]| Turn { epoch, clock: clock.to_vec(), moves: Vec::new() };
        let plain = || News { clock: vec![3, 1], ..News::default() };
        for wrong in [
            News { clock: vec![3, 2], ..plain() },
            News { clock: vec![3, u64::MAX], ..plain() },
            News { notices: vec![notice(1, 2)], ..plain() },
            News { floor: vec![4, 1], ..plain() },
            News { floor: vec![0, 2], ..plain() },
            News { turn: Some(turn(1, &[3, 2])), ..plain() },
            News { turn: Some(turn(2, &[3, 1])), ..plain() },
            News { turn: Some(turn(0, &[3, 1])), ..plain() },
        ] {
            let refused = chronicle.hear(NodeId(0), &wrong);
            assert!(refused.is_err_and(|illegal| illegal.role == "interval log"), "{wrong:?}");
            assert_eq!(chronicle, before);
        }
        let right = News { floor: vec![3, 0], turn: Some(turn(1, &[3, 1])), ..plain() };
        assert_eq!(chronicle.hear(NodeId(0), &right), Ok(()));
        chronicle.close_interval(vec![M]);
        assert_eq!(at(&chronicle.clock, NodeId(1)), 2);
    }

    /// Numbers have 64 bits: nothing happens where 32 end.
    #[test]
    fn intervals_and_epochs_go_on_where_32_bits_end() {
        let start = u64::from(u32::MAX) - 1;
        let mut job = [0, 1, 2].map(|node| Chronicle::starting_at(NodeId(node), NODES, start));
        for round in 1..=4 {
            write(&mut job, 1, M);
            let notice = Notice { writer: NodeId(1), interval: start + round, minipage: M };
            assert_eq!(say(&mut job, 1, 2, GRANT).map(|news| news.notices), Some(vec![notice]));
            assert_eq!(pending(&mut job, 2), [M], "round {round}");
            say(&mut job, 1, 0, GRANT);
            assert_eq!(job[0].sole_writers(), [(M, NodeId(1))]);
            quiet_barrier(&mut job, &[(M, NodeId(1))]);
            assert!(job.iter().all(|chronicle| chronicle.epoch() == start + round));
            assert!(job[0].sole_writers().is_empty());
        }
    }
}
