//! What a node knows of lazily consistent writes, its own and others'.

use std::collections::{BTreeMap, BTreeSet};

use multigrain_types::{MinipageId, NodeId};

use super::news::{News, Notice, Turn};
use crate::message::{BarrierMessage, SyncMessage};

/// Vector time, write notices and moves of homes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Chronicle {
    me: NodeId,
    /// Of every node, the last of its intervals this node has heard of; empty before the first.
    clock: Vec<u32>,
    /// Of every node, what it wrote.
    logs: BTreeMap<NodeId, Log>,
    /// Minipages that others wrote and this node has not forgotten yet.
    pending: BTreeSet<MinipageId>,
    /// Of other nodes, the clock they have at least: what this node has told them or heard.
    told: BTreeMap<NodeId, Vec<u32>>,
    /// Of other nodes, the clock they said they have.
    heard: BTreeMap<NodeId, Vec<u32>>,
    /// What every node has said it knows.
    common: Vec<u32>,
    /// Something was forgotten that the next quiet barrier would have to know.
    blurred: bool,
    /// How often homes have moved: barriers that found the whole job quiet.
    epoch: u32,
    /// The clock at the last of them.
    episode: Vec<u32>,
    /// What the last quiet barrier's manager found; its release follows, or has.
    latest: Turn,
}

/// What one node wrote: of every minipage the last interval.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
struct Log {
    last: BTreeMap<MinipageId, u32>,
    order: BTreeSet<(u32, MinipageId)>,
}

impl Log {
    fn add(&mut self, interval: u32, minipage: MinipageId) {
        if let Some(old) = self.last.insert(minipage, interval) {
            self.order.remove(&(old, minipage));
        }
        self.order.insert((interval, minipage));
    }

    /// What was written after an interval.
    fn after(&self, interval: u32) -> impl Iterator<Item = &(u32, MinipageId)> {
        self.order.range((interval.saturating_add(1), MinipageId(0))..)
    }

    /// The last interval forgotten; 0 if there was none.
    fn forget(&mut self, up_to: u32) -> u32 {
        let kept = self.order.split_off(&(up_to.saturating_add(1), MinipageId(0)));
        let mut last = 0;
        for (interval, minipage) in core::mem::replace(&mut self.order, kept) {
            self.last.remove(&minipage);
            last = interval;
        }
        last
    }
}

/// An entry of a vector time; those that are missing are zero.
fn at(clock: &[u32], node: NodeId) -> u32 {
    clock.get(node.index()).copied().unwrap_or(0)
}

/// The later of two vector times.
fn merge(clock: &mut Vec<u32>, other: &[u32]) {
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

    /// Moves of homes this node knows of.
    #[must_use]
    pub fn epoch(&self) -> u32 {
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
        if self.clock.len() <= me.index() {
            self.clock.resize(me.index() + 1, 0);
        }
        self.clock[me.index()] = interval;
        let log = self.logs.entry(me).or_default();
        for minipage in written {
            log.add(interval, minipage);
        }
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
            fresh.map(move |&(interval, minipage)| Notice { writer, interval, minipage })
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
    pub fn hear(&mut self, from: NodeId, news: &News) {
        for notice in &news.notices {
            if notice.writer != self.me && notice.interval > at(&self.clock, notice.writer) {
                self.pending.insert(notice.minipage);
                self.logs.entry(notice.writer).or_default().add(notice.interval, notice.minipage);
            }
        }
        merge(&mut self.clock, &news.clock);
        merge(self.told.entry(from).or_default(), &news.clock);
        merge(self.heard.entry(from).or_default(), &news.clock);
        match &news.turn {
            // News too long for one frame come in parts.
            Some(turn) if turn.clock == self.latest.clock => {
                self.latest.moves.extend(&turn.moves);
            }
            Some(turn) => self.latest = turn.clone(),
            None => {}
        }
        self.forget(&news.floor);
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
            for &(_, minipage) in log.after(at(&self.episode, writer)) {
                writers.entry(minipage).and_modify(|sole| *sole = None).or_insert(Some(writer));
            }
        }
        writers.into_iter().filter_map(|(minipage, sole)| Some((minipage, sole?))).collect()
    }

    /// Manager of a quiet barrier: what its releases shall say. It forgets what all know.
    pub fn announce(&mut self, nodes: u16, moves: Vec<(MinipageId, NodeId)>) {
        self.latest = Turn { clock: self.clock.clone(), moves };
        let floor = self.floor(nodes);
        self.forget(&floor);
    }

    /// The release of a quiet barrier: a new epoch, with these moves.
    pub fn turn(&mut self) -> Vec<(MinipageId, NodeId)> {
        self.epoch = self.epoch.wrapping_add(1);
        self.episode.clone_from(&self.latest.clock);
        self.blurred = false;
        self.latest.moves.clone()
    }

    /// What every other node has said it knows; nothing while one has not spoken.
    fn floor(&self, nodes: u16) -> Vec<u32> {
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
    fn forget(&mut self, floor: &[u32]) {
        merge(&mut self.common, floor);
        for (&writer, log) in &mut self.logs {
            self.blurred |= log.forget(at(floor, writer)) > at(&self.episode, writer);
        }
        self.logs.retain(|_, log| !log.last.is_empty());
    }
}
