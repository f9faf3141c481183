//! A link with the latency and the bandwidth of another network, over any other link.
//!
//! Role: what arrives is taken from the link below at once, and held back until it would have come: after the bytes
//! before it have gone over the wire, and the latency. So both ends need no clock in common, and the sender runs as on
//! the network that is emulated: what fits between the two is on its way, then it sees a full link.
//!
//! Whoever receives finds what is due; who sleeps is woken by a timer ([`Link::timer`]). Time passes
//! on while nobody receives, but what has not been taken from the link below has not begun to come: a receiver that is
//! late makes the network slower, never faster.
#![expect(unsafe_code, reason = "copies to raw memory")]

mod setting;

pub use setting::{Emulation, EmulationError};

use super::{Close, Link};
use crate::descriptor::placed;
use crate::shim::{AtomicBool, Mutex, lock};
use crate::span::{self, Span};
use core::fmt;
use core::time::Duration;
use rustix::event::Timespec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes on their way at most; a link whose latency times bandwidth is more is slower than it should be.
const WINDOW: usize = 16 << 20;
/// What comes at once on the wire: a message is there when its last packet is.
const PACKET: usize = 4 << 10;
/// Packets on their way at most.
const MOST_PACKETS: usize = 1 << 14;
/// Read from the link below at once.
const READ: usize = 64 << 10;
/// Reads before what is due is given on, so that a peer that sends all the time keeps nobody here.
const READS: usize = 4;

/// A link that holds back what it receives.
pub(crate) struct Emulated {
    link: Box<dyn Link>,
    timer: OwnedFd,
    wire: Mutex<Wire>,
    /// Not while the wire is full, nor after the end of the stream.
    takes_input: AtomicBool,
}

/// What is on its way.
struct Wire {
    emulation: Emulation,
    /// Of [`WINDOW`] bytes, a ring: `held` of them from `start` on. Untouched memory costs nothing.
    bytes: Box<[u8]>,
    start: usize,
    held: usize,
    /// When bytes are due, in order. It never grows, for traps receive.
    packets: VecDeque<Packet>,
    /// When what was read last has left the other end.
    free: Instant,
    end: Option<End>,
    /// By this node: what the peer does not say has not to travel.
    closed: bool,
    /// What the timer is set to.
    armed: Option<Instant>,
}

struct Packet {
    due: Instant,
    bytes: usize,
}

/// The end of the stream, or an error, which is told once.
struct End {
    due: Instant,
    error: Option<Errno>,
}

impl Emulated {
    /// # Errors
    /// No descriptor is left for the timer.
    pub(crate) fn new(link: Box<dyn Link>, emulation: Emulation) -> Result<Self, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let wire = Wire {
            emulation,
            bytes: vec![0; WINDOW].into_boxed_slice(),
            start: 0,
            held: 0,
            packets: VecDeque::with_capacity(MOST_PACKETS),
            free: Instant::now(),
            end: None,
            closed: false,
            armed: None,
        };
        Ok(Self {
            link,
            timer: placed(|| timerfd_create(TimerfdClockId::Monotonic, flags))?,
            wire: Mutex::new(wire),
            takes_input: AtomicBool::new(true),
        })
    }

    /// The timer is readable from when something is due, and not before.
    fn set_timer(&self, wire: &mut Wire, now: Instant) {
        let due = wire.next_due();
        if due == wire.armed {
            return;
        }
        wire.armed = due;
        // A value of zero would stop the timer.
        let left = due.map(|due| due.saturating_duration_since(now).max(Duration::from_nanos(1)));
        let value = left.and_then(|left| Timespec::try_from(left).ok()).unwrap_or_default();
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        // It only fails for a descriptor that is no timer.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
    }
}

impl Wire {
    /// Takes from the link what has arrived, as far as there is room.
    fn read(&mut self, link: &dyn Link) {
        for _ in 0..READS {
            if self.end.is_some() {
                return;
            }
            let room = self.room();
            let asked = room.len();
            if asked == 0 {
                return;
            }
            // SAFETY: the span is a reference that nobody else has.
            let got = unsafe { link.receive(&mut [Span::of_mut(room)]) };
            match got {
                Ok(0) => self.end(None),
                Ok(got) => {
                    self.depart(got);
                    if got < asked && !link.holds_input() {
                        return;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(error) => self.end(Some(error)),
            }
        }
    }

    /// Where bytes that come next are put: none if too much is on its way.
    fn room(&mut self) -> &mut [u8] {
        if self.packets.len() + READ / PACKET > MOST_PACKETS {
            return &mut [];
        }
        let from = (self.start + self.held) % WINDOW;
        let most = (WINDOW - self.held).min(WINDOW - from).min(READ);
        &mut self.bytes[from..from + most]
    }

    fn is_full(&mut self) -> bool {
        self.room().is_empty()
    }

    /// So many bytes have been read: one packet behind the other.
    fn depart(&mut self, mut bytes: usize) {
        self.free = self.free.max(Instant::now());
        self.held += bytes;
        while bytes > 0 {
            let some = bytes.min(PACKET);
            bytes -= some;
            self.free += self.emulation.transmission(some);
            let due = self.free + self.emulation.latency();
            self.packets.push_back(Packet { due, bytes: some });
        }
    }

    fn end(&mut self, error: Option<Errno>) {
        let (now, latency) = (Instant::now(), self.emulation.latency());
        let due = if self.closed { now } else { self.free.max(now) + latency };
        self.end = Some(End { due, error });
    }

    fn next_due(&self) -> Option<Instant> {
        let packet = self.packets.front().map(|packet| packet.due);
        packet.or_else(|| self.end.as_ref().map(|end| end.due))
    }

    fn has_due(&self, now: Instant) -> bool {
        self.packets.front().is_some_and(|packet| packet.due <= now)
    }

    /// Fills the spans with what is due.
    ///
    /// # Safety
    /// They are writable for their lengths, and nobody has a reference into them.
    unsafe fn give(&mut self, spans: &[Span], now: Instant) -> usize {
        let mut given = 0;
        for span in spans {
            let mut done = 0;
            while let Some(packet) = self.packets.front_mut().filter(|packet| packet.due <= now)
                && done < span.len()
            {
                let some = packet.bytes.min(span.len() - done).min(WINDOW - self.start);
                let bytes = &self.bytes[self.start..self.start + some];
                // SAFETY: within the span, which the caller vouches for, and no part of the ring.
                unsafe { span::copy_to(span.start().wrapping_add(done), bytes) };
                packet.bytes -= some;
                if packet.bytes == 0 {
                    self.packets.pop_front();
                }
                done += some;
                self.held -= some;
                // What is empty begins anew, in memory that was touched before.
                self.start = if self.held == 0 { 0 } else { (self.start + some) % WINDOW };
            }
            given += done;
        }
        given
    }

    /// What is told when nothing was given.
    fn outcome(&mut self, now: Instant) -> Result<usize, Errno> {
        match &mut self.end {
            Some(end) if self.packets.is_empty() && end.due <= now => {
                end.error.take().map_or(Ok(0), Err)
            }
            Some(_) | None => Err(Errno::AGAIN),
        }
    }
}

impl fmt::Debug for Emulated {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Emulated({:?})", self.link)
    }
}

impl Link for Emulated {
    pass_on! { link: send readiness connected tune look_after authenticate may_be proves_rank tap describe }

    unsafe fn receive(&self, spans: &mut [Span]) -> Result<usize, Errno> {
        let mut wire = lock(&self.wire);
        wire.read(&*self.link);
        let now = Instant::now();
        // SAFETY: the caller's promise is the one asked for.
        let given = unsafe { wire.give(spans, now) };
        let takes = wire.end.is_none() && !wire.is_full();
        self.takes_input.store(takes, Ordering::Relaxed);
        self.set_timer(&mut wire, now);
        if given > 0 { Ok(given) } else { wire.outcome(now) }
    }

    fn timer(&self) -> Option<BorrowedFd<'_>> {
        Some(self.timer.as_fd())
    }

    fn takes_input(&self) -> bool {
        self.takes_input.load(Ordering::Relaxed)
    }

    /// Never, though a Unix socket below may: what was taken has still its latency before it, so that the reply is far
    /// (ADR 43).
    fn tells_taken(&self) -> bool {
        false
    }

    /// What is on its way wakes this node by the timer all the same.
    fn suppress_wakeups(&self, _: bool) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    /// What is due, or what the link below holds and there is room for.
    fn holds_input(&self) -> bool {
        let due = lock(&self.wire).has_due(Instant::now());
        due || (self.takes_input() && self.link.holds_input())
    }

    /// What is on its way comes all the same.
    fn close(&self, what: Close) {
        self.link.close(what);
        if what == Close::Both {
            lock(&self.wire).closed = true;
        }
    }
}
