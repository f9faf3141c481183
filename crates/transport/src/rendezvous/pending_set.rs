//! The pending connections of a node, which are no links yet, and the epoll set in which they wait with what else ends a wait.

use super::pending::Pending;
use crate::descriptor;
use crate::error::TransportError;
use crate::link;
use core::mem::MaybeUninit;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Events taken from the kernel at once.
const EVENTS: usize = 64;

pub(super) struct PendingSet {
    /// Connections to peers, by number.
    connecting: BTreeMap<u64, Pending>,
    /// Connections that were accepted, by number: the oldest first, and so by their time.
    accepted: BTreeMap<u64, Pending>,
    set: OwnedFd,
    /// Connections that were numbered.
    numbered: u64,
}

impl PendingSet {
    /// None, in a set with these other sources of input, by keys that are no numbers of connections.
    pub(super) fn new<'a>(
        others: impl Iterator<Item = (BorrowedFd<'a>, u64)>,
    ) -> Result<Self, TransportError> {
        let set = descriptor::set()?;
        for (source, key) in others {
            epoll::add(&set, source, EventData::new_u64(key), EventFlags::IN)
                .map_err(TransportError::system("epoll_ctl"))?;
        }
        Ok(Self { connecting: BTreeMap::new(), accepted: BTreeMap::new(), set, numbered: 0 })
    }

    /// The descriptors of the set and of the connections.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let pending = self.connecting.values().chain(self.accepted.values());
        pending.flat_map(|one| link::descriptors(&*one.link)).chain([self.set.as_raw_fd()])
    }

    /// Whether some connections to peers are under way.
    pub(super) fn is_connecting(&self) -> bool {
        !self.connecting.is_empty()
    }

    /// When something is due without an event.
    fn dues(&self) -> impl Iterator<Item = Instant> {
        let silent = self.accepted.values().next().and_then(Pending::until);
        silent.into_iter().chain(self.connecting.values().filter_map(Pending::connects_until))
    }

    /// The keys of what is ready; returns when something is due, or at one of the `wakes`, at the latest.
    pub(super) fn wait(
        &self,
        wakes: impl Iterator<Item = Instant>,
    ) -> Result<BTreeSet<u64>, TransportError> {
        let mut room = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let left = wakes
            .chain(self.dues())
            .min()
            .map(|wake| wake.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match epoll::wait(&self.set, &mut room, timeout.as_ref()) {
            Ok((events, _)) => Ok(events.iter().map(|event| event.data.u64()).collect()),
            Err(Errno::INTR) => Ok(BTreeSet::new()),
            Err(errno) => Err(TransportError::System { call: "epoll_wait", errno }),
        }
    }

    /// Keeps a connection that has to wait, and watches it for what it waits for.
    pub(super) fn keep(&mut self, mut one: Pending) -> Result<(), TransportError> {
        let interest = one.interest();
        let (key, done) = match one.watched {
            Some((key, watched)) if watched == interest => (key, Ok(())),
            Some((key, _)) => {
                let data = EventData::new_u64(key);
                (key, epoll::modify(&self.set, one.link.readiness(), data, interest))
            }
            None => {
                self.numbered += 1;
                let data = EventData::new_u64(self.numbered);
                (self.numbered, epoll::add(&self.set, one.link.readiness(), data, interest))
            }
        };
        one.watched = Some((key, interest));
        let all = if one.until().is_some() { &mut self.accepted } else { &mut self.connecting };
        all.insert(key, one);
        done.map_err(TransportError::system("epoll_ctl"))
    }

    /// Takes the connection of this number out, to be kept again or not; it stays in the set. (A closed one leaves that
    /// by itself.)
    pub(super) fn take(&mut self, key: u64) -> Option<Pending> {
        self.connecting.remove(&key).or_else(|| self.accepted.remove(&key))
    }

    /// A connection that was taken out is a link now.
    pub(super) fn forget(&self, one: &Pending) -> Result<(), TransportError> {
        if one.watched.is_none() {
            return Ok(());
        }
        epoll::delete(&self.set, one.link.readiness()).map_err(TransportError::system("epoll_ctl"))
    }

    /// Takes out the oldest that was accepted, if there are so many, of outsiders or of the hosts of the job.
    pub(super) fn take_oldest_of(&mut self, most: usize, outsiders: bool) -> Option<Pending> {
        let mut of_kind = self.accepted.iter().filter(|(_, one)| one.is_outsider == outsiders);
        let oldest = of_kind.next().map(|(&key, _)| key)?;
        let many = of_kind.count() + 1 >= most;
        if many { self.accepted.remove(&oldest) } else { None }
    }

    /// Takes out one that was accepted and has not said enough in its time.
    pub(super) fn take_silent(&mut self) -> Option<Pending> {
        let oldest = self.accepted.first_entry()?;
        let late = oldest.get().until().is_some_and(|until| until <= Instant::now());
        late.then(|| oldest.remove())
    }

    /// The peer of one that is being connected, and whose host has not answered.
    pub(super) fn unanswered(&self) -> Option<NodeId> {
        let mut open = self.connecting.values().filter(|one| one.connects_until().is_some());
        open.next().and_then(Pending::peer)
    }

    /// Takes out one that has not been connected to its peer in its time, after a look at whether the hosts of the
    /// others still answer.
    pub(super) fn take_unanswered(&mut self) -> Option<Pending> {
        let now = Instant::now();
        self.connecting.values().for_each(|one| one.link.look_after());
        let late = |one: &Pending| one.connects_until().is_some_and(|until| until <= now);
        let key = self.connecting.iter().find_map(|(&key, one)| late(one).then_some(key))?;
        self.connecting.remove(&key)
    }

    /// Takes all out.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Pending> + use<> {
        let connecting = core::mem::take(&mut self.connecting);
        connecting.into_values().chain(core::mem::take(&mut self.accepted).into_values())
    }
}
