//! Sleeping until something arrives, and who is woken by it.
//!
//! Role: epoll sets. The inner one holds every link, the listener and an eventfd; a receiving
//! thread sleeps on it. The outer one holds the inner one and another eventfd; the service thread
//! sleeps on it. While an application thread receives, a reply wakes nobody but the thread that waits
//! for it (`suppression` says how).
//!
//! The front set, if there is one, is what a receiving thread sleeps on instead: the inner one, and
//! the event that a peer has taken what was sent to it. A request taken means that the reply is
//! near: the processor is awake again when it comes (ADR 8).
//!
//! Invariant: all but that event is level-triggered; an arrival while muted wakes the service
//! thread on release.

use crate::descriptor;
use crate::error::TransportError;
use crate::link::Link;
use crate::shim::{self, AtomicBool, Mutex, lock};
use crate::suppression::{Inner, Receiver, Suppression};
use crate::timeout::Timeout;
use core::mem::MaybeUninit;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Events taken from the kernel at once.
pub(crate) const EVENTS: usize = 32;
/// Keys of the inner set that are no rank.
pub(crate) const LISTENER: u64 = u64::MAX;
pub(crate) const WAKE: u64 = u64::MAX - 1;
/// Key of the inner set in the others.
const INNER: u64 = 0;
/// Key of every link in the front set.
const TAKEN: u64 = 1;

#[derive(Debug)]
pub(crate) struct Waiting {
    inner: OwnedFd,
    outer: OwnedFd,
    front: OnceLock<OwnedFd>,
    inner_wake: OwnedFd,
    outer_wake: OwnedFd,
    suppression: Mutex<Suppression>,
    rescan: AtomicBool,
}

impl Waiting {
    pub(crate) fn new() -> Result<Self, TransportError> {
        let waiting = Self {
            inner: descriptor::set()?,
            outer: descriptor::set()?,
            front: OnceLock::new(),
            inner_wake: descriptor::event()?,
            outer_wake: descriptor::event()?,
            suppression: Mutex::new(Suppression::default()),
            rescan: AtomicBool::new(true),
        };
        waiting.watch(&waiting.inner_wake, WAKE)?;
        for (source, key) in [(&waiting.inner, INNER), (&waiting.outer_wake, WAKE)] {
            epoll::add(&waiting.outer, source, EventData::new_u64(key), EventFlags::IN)
                .map_err(TransportError::system("epoll_ctl"))?;
        }
        Ok(waiting)
    }

    /// The descriptors of the sets and events.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let events = [&self.inner, &self.outer, &self.inner_wake, &self.outer_wake];
        events.into_iter().chain(self.front.get()).map(AsRawFd::as_raw_fd)
    }

    /// Adds a source of input to the inner set.
    pub(crate) fn watch(&self, source: impl AsFd, key: u64) -> Result<(), TransportError> {
        epoll::add(&self.inner, source, EventData::new_u64(key), EventFlags::IN)
            .map_err(TransportError::system("epoll_ctl"))
    }

    /// Makes the front set, of these links.
    pub(crate) fn wake_when_taken<'a>(
        &self,
        links: impl Iterator<Item = BorrowedFd<'a>>,
    ) -> Result<(), TransportError> {
        let front = descriptor::set()?;
        epoll::add(&front, &self.inner, EventData::new_u64(INNER), EventFlags::IN)
            .map_err(TransportError::system("epoll_ctl"))?;
        for link in links {
            add_to_front(&front, link)?;
        }
        // A second call finds the first one's set, which is as good.
        let _ = self.front.set(front);
        Ok(())
    }

    /// Adds a link to the front set, if there is one.
    pub(crate) fn watch_taken(&self, link: BorrowedFd<'_>) -> Result<(), TransportError> {
        self.front.get().map_or(Ok(()), |front| add_to_front(front, link))
    }

    /// Changes what a source of the inner set is watched for; nothing = not in the set.
    pub(crate) fn rewatch(&self, source: impl AsFd, key: u64, old: EventFlags, new: EventFlags) {
        let data = EventData::new_u64(key);
        let done = match (old.is_empty(), new.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => epoll::add(&self.inner, source, data, new),
            (false, true) => epoll::delete(&self.inner, source),
            (false, false) => epoll::modify(&self.inner, source, data, new),
        };
        expect_own(done);
        shim::changed();
    }

    /// Waits on the inner set, behind the front set if there is one. A signal, or a peer that took
    /// something, ends the wait with no event.
    pub(crate) fn wait<'a>(
        &self,
        events: &'a mut [MaybeUninit<Event>],
        mut timeout: Timeout,
    ) -> &'a [Event] {
        if let (Some(front), false) = (self.front.get(), timeout == Timeout::Now) {
            let mut room = [const { MaybeUninit::uninit() }; 1 + EVENTS];
            let ready = shim::sleep(front, &mut room, timeout);
            if !ready.iter().any(|event| event.data.u64() == INNER) {
                return &[];
            }
            timeout = Timeout::Now;
        }
        shim::sleep(&self.inner, events, timeout)
    }

    /// Waits on the outer set: true when the inner one has input and is not muted, or more
    /// has come than suppressing links hold back.
    pub(crate) fn service_wait<'a>(
        &self,
        timeout: Timeout,
        links: impl Iterator<Item = &'a dyn Link>,
    ) -> bool {
        let mut events = [const { MaybeUninit::uninit() }; 2];
        let mut input = false;
        for event in shim::sleep(&self.outer, &mut events, timeout) {
            match event.data.u64() {
                INNER => input = true,
                _ => reset(&self.outer_wake),
            }
        }
        if input {
            // The service thread cannot know what is ready; it may be more than the links.
            self.rescan.store(true, Ordering::Release);
            lock(&self.suppression).woken(links, || self.set_inner(Inner::Mute));
        }
        input
    }

    /// Whether the next receive must ask epoll instead of trying each link.
    pub(crate) fn must_rescan(&self) -> bool {
        if !self.rescan.load(Ordering::Relaxed) {
            return false;
        }
        // Reads what it overwrites: what the last who set it has done before is seen then.
        self.rescan.swap(false, Ordering::AcqRel)
    }

    /// An application thread begins to receive. `links` are those that may suppress; so below.
    pub(crate) fn suppress<'a>(
        &self,
        receiver: Receiver,
        links: impl Iterator<Item = &'a dyn Link> + Clone,
    ) {
        let mut suppression = lock(&self.suppression);
        self.set_inner(suppression.begin(receiver, links));
    }

    /// It receives no more.
    ///
    /// # Panics
    /// Without [`Waiting::suppress`] before it.
    pub(crate) fn resume<'a>(&self, links: impl Iterator<Item = &'a dyn Link>) {
        let mut suppression = lock(&self.suppression);
        self.set_inner(suppression.end(links));
    }

    /// A thread that receives is about to sleep after all.
    pub(crate) fn will_sleep<'a>(&self, links: impl Iterator<Item = &'a dyn Link>) {
        lock(&self.suppression).mute_instead(links, || self.set_inner(Inner::Mute));
    }

    fn set_inner(&self, what: Inner) {
        match what {
            Inner::Leave => {}
            Inner::Mute => self.watch_inner(EventFlags::empty()),
            Inner::Unmute => self.watch_inner(EventFlags::IN),
        }
    }

    fn watch_inner(&self, interest: EventFlags) {
        let key = EventData::new_u64(INNER);
        let done = epoll::modify(&self.outer, &self.inner, key, interest);
        expect_own(done);
        shim::changed();
    }

    pub(crate) fn wake(&self) {
        for event in [&self.inner_wake, &self.outer_wake] {
            // It only fails when it is signalled already.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
            shim::changed();
        }
        self.rescan.store(true, Ordering::Release);
    }

    /// The wake-up of the receiving thread has reached it.
    pub(crate) fn woken(&self) {
        reset(&self.inner_wake);
    }
}

fn add_to_front(front: &OwnedFd, link: BorrowedFd<'_>) -> Result<(), TransportError> {
    let interest = EventFlags::OUT | EventFlags::ET;
    epoll::add(front, link, EventData::new_u64(TAKEN), interest)
        .map_err(TransportError::system("epoll_ctl"))
}

/// What was done with a descriptor of this node works, unless the program has closed it or put another one
/// in its place behind the library's back: that ends the node, with a line.
fn expect_own(done: rustix::io::Result<()>) {
    if let Err(errno) = done {
        let why = format!("epoll_ctl: {errno}");
        match CLOSED.get() {
            Some(end) => end(&why),
            None => panic!("a descriptor was closed: {why}"),
        }
    }
}

/// Ends this node.
static CLOSED: OnceLock<fn(&str) -> !> = OnceLock::new();

/// Has this called, with the call that has noticed, where the program has closed a descriptor of this node behind its back.
pub fn when_descriptors_are_closed(end: fn(&str) -> !) {
    // A node is made once.
    let _ = CLOSED.set(end);
}

fn reset(event: &OwnedFd) {
    let mut count = [0; 8];
    // It only fails when somebody else has reset it.
    let _ = rustix::io::read(event, &mut count);
}
