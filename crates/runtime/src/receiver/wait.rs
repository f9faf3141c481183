//! Waiting: the ways to wait (poll, sleep, adaptive) and the default, serving, and the last look at what arrives.

use core::cell::Cell;
use std::time::Duration;

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants;
use multigrain_transport::{Mesh, Sink, Timeout};

use super::parking::StoodBy;
use super::service_level::ServiceLevel;
use super::slots::{self, Slot};
use super::{Receiver, between_waits};
use crate::membership::Membership;
use crate::shim::{lock, spin_loop, yield_now};
use crate::time_windows::now_ns;

/// How long an adaptive wait polls before it sleeps: a few round trips, and well below the cost of
/// keeping a core from somebody else.
const POLL_NS: u64 = 60_000;

/// How a thread waits for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WaitMode {
    /// Poll, and yield the core only where nothing comes for a while; needs a core per thread.
    Spin,
    /// Poll and yield the core between polls.
    Yield,
    /// Sleep until something arrives.
    Block,
    /// Poll and yield for a short while, then sleep.
    #[default]
    Adaptive,
}

impl Receiver {
    fn suppress(&self, mesh: &Mesh) {
        mesh.suppress_wakeups(match self.mode {
            WaitMode::Block => multigrain_transport::Receiver::Sleeps,
            WaitMode::Spin | WaitMode::Yield | WaitMode::Adaptive => {
                multigrain_transport::Receiver::Polls
            }
        });
    }

    /// Waits until `slot` is woken; what arrives meanwhile goes to the sink if this thread receives. The wait has
    /// begun at `since_ns`; returns when it ended, if the clock was read then.
    pub(crate) fn wait(
        &self,
        slot: &Slot,
        since_ns: u64,
        mesh: &Mesh,
        sink: &mut dyn Sink,
    ) -> Option<u64> {
        if slot.is_woken() {
            return None;
        }
        if self.level != ServiceLevel::Helping {
            // Who receives may be asleep: acks of earlier faults that did not go with the request.
            mesh.flush_deferred();
        }
        let ended_ns = Cell::new(None);
        self.role.wait(
            &slot.word,
            || ended_ns.set(Some(self.receive_until(slot, since_ns, mesh, sink))),
            || self.stand_by(slot),
            slots::nudge_one,
        );
        ended_ns.get()
    }

    /// Has the role; gives it back when the wake-up is there. Returns when that was.
    fn receive_until(&self, slot: &Slot, since_ns: u64, mesh: &Mesh, sink: &mut dyn Sink) -> u64 {
        // The request is under way: suppressing wake-ups costs its time, not the reply's.
        let kept = lock(&self.claim).wait_begins(since_ns, now_ns);
        if !kept {
            self.suppress(mesh);
        }
        // Acks of earlier faults that did not go with the request go now, while it travels.
        mesh.flush_deferred();
        if kept {
            let arrived = mesh.receive(sink, Timeout::Now) > 0;
            lock(&self.claim).looked(arrived);
        }
        let mut polling_since = None;
        while !slot.is_woken() {
            if self.mode != WaitMode::Block && mesh.receive(sink, Timeout::Now) > 0 {
                polling_since = None;
                continue;
            }
            let mut polls_long = || {
                let now_ns = now_ns();
                now_ns.saturating_sub(*polling_since.get_or_insert(now_ns)) >= POLL_NS
            };
            match self.mode {
                // More nodes may spin than there are cores: the sender needs one as well.
                WaitMode::Spin if polls_long() => yield_now(),
                WaitMode::Spin => spin_loop(),
                WaitMode::Yield => yield_now(),
                WaitMode::Adaptive if !polls_long() => yield_now(),
                WaitMode::Block => sleep(slot, mesh, sink),
                WaitMode::Adaptive => {
                    sleep(slot, mesh, sink);
                    // Whatever ended the sleep, the answer is likely to be near.
                    polling_since = None;
                }
            }
        }
        let ended_ns = now_ns();
        let kept = lock(&self.claim).wait_ends(ended_ns, between_waits::keeps());
        self.role.give_back();
        if !kept {
            mesh.resume_wakeups();
        }
        // A thread that parked while the role was taken takes over; one that is about to park
        // looks at the role once more after announcing it.
        if self.role.waits_for_more_than(1) {
            slots::nudge_one();
        }
        ended_ns
    }

    /// Whether waiting threads are asleep, as all but one are.
    pub(crate) fn has_sleepers(&self) -> bool {
        self.role.waits_for_more_than(1)
    }

    /// Another thread receives: wait for the wake-up, or for the role.
    fn stand_by(&self, slot: &Slot) -> StoodBy {
        match self.mode {
            // The receiver needs a core more than threads that only wait for it.
            WaitMode::Spin | WaitMode::Yield => yield_now(),
            WaitMode::Block | WaitMode::Adaptive => return self.role.park(&slot.word),
        }
        StoodBy::Awake
    }

    /// The service thread, until this node leaves: serves while no application thread waits, or always
    /// ([`ServiceLevel`]).
    pub(crate) fn serve(&self, mesh: &Mesh, sink: &mut dyn Sink, membership: &Membership) {
        match self.level {
            ServiceLevel::Helping => {}
            ServiceLevel::Blocked => return self.serve_alone(false, mesh, sink, membership),
            ServiceLevel::Polling => return self.serve_alone(true, mesh, sink, membership),
        }
        let mut watch_micros = None;
        while !membership.is_leaving() {
            let input = mesh.service_wait(watch_micros.map_or(Timeout::Forever, Timeout::Micros));
            if !input && watch_micros.is_none() {
                continue;
            }
            #[cfg(feature = "mutants")]
            if mutants::on(mutants::Mutant::named("service-sleeps")) && !membership.is_finalizing()
            {
                std::thread::sleep(Duration::from_nanos(POLL_NS));
                continue;
            }
            if self.role.try_take() {
                mesh.receive(sink, Timeout::Now);
                lock(&self.claim).watch(input, now_ns, || mesh.resume_wakeups());
                self.role.give_back();
                if self.role.waits_for_more_than(0) {
                    slots::nudge_one();
                }
            } else if input {
                yield_now();
            }
            watch_micros = lock(&self.claim).watch_micros();
        }
        lock(&self.claim).end(|| mesh.resume_wakeups());
    }

    /// Reads what the peers still say, up to their ends of stream: a socket closed with unread bytes would look like a
    /// death to them, as one would on which this node's own goodbye has not gone. Gives up when nothing has come or gone for so long.
    pub(crate) fn exchange_goodbyes(&self, mesh: &Mesh, sink: &mut dyn Sink, idle: Duration) {
        let traffic = || {
            let counters = mesh.counters();
            (mesh.links_alive(), counters.bytes_received, counters.bytes_flushed)
        };
        let (mut before, mut since) = (traffic(), std::time::Instant::now());
        while mesh.links_alive() > 0 || mesh.says_goodbye() {
            let now = traffic();
            if now != before {
                (before, since) = (now, std::time::Instant::now());
            } else if since.elapsed() >= idle {
                return;
            }
            if self.role.try_take() {
                mesh.suppress_wakeups(multigrain_transport::Receiver::Sleeps);
                mesh.receive(sink, Timeout::Millis(20));
                mesh.resume_wakeups();
                self.role.give_back();
            } else {
                yield_now();
            }
        }
    }
}

/// Sleeps in the mesh until something arrives or this thread is woken by another.
fn sleep(slot: &Slot, mesh: &Mesh, sink: &mut dyn Sink) {
    if slot.word.announce_sleep() {
        mesh.receive(sink, Timeout::Forever);
        slot.word.end_sleep();
    }
}
