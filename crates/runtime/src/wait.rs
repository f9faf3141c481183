//! How a thread waits: it receives for the whole node until its own wake-up is there.
//!
//! One thread at a time has the *receiver's role* (`receiving`). An application thread that takes
//! it claims the mesh, so that arrivals do not wake the service thread; others park on their slot.
//! Whoever gives the role back hands it to a parked thread, or re-arms the service thread.

#[cfg(feature = "mutants")]
use std::thread;
use std::time::Duration;

#[cfg(feature = "mutants")]
use multigrain_protocol::mutants;
use multigrain_transport::{Mesh, Receiver, Timeout};

use crate::boot::Runtime;
use crate::config::WaitMode;
use crate::parking::StoodBy;
use crate::receive::NodeSink;
use crate::shim::{Instant, spin_loop, yield_now};
use crate::slots::{self, Slot};

/// How long an adaptive wait polls before it sleeps: a few round trips, and well below the cost of
/// keeping a core from somebody else.
const POLL_FOR: Duration = Duration::from_micros(60);

/// A claim of the mesh by a thread that is about to wait; given back when dropped.
#[derive(Debug)]
pub(crate) struct Claim<'a>(&'a Mesh);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Runtime {
    fn claim(&self) -> Claim<'_> {
        self.mesh.claim(match self.wait_mode {
            WaitMode::Block => Receiver::Sleeps,
            WaitMode::Spin | WaitMode::Yield | WaitMode::Adaptive => Receiver::Polls,
        });
        Claim(&self.mesh)
    }

    /// Waits until `slot` is woken.
    pub(crate) fn wait_for(&self, slot: &Slot) {
        if slot.is_woken() {
            return;
        }
        self.role.wait(
            &slot.word,
            || self.receive_until(slot),
            || self.stand_by(slot),
            slots::nudge_one,
        );
    }

    /// Has the role; gives it back when the wake-up is there.
    fn receive_until(&self, slot: &Slot) {
        // The request is under way: claiming costs its time, not the reply's.
        let claim = self.claim();
        // Acks of earlier faults that did not go with the request go now, while it travels.
        self.mesh.send_lazy();
        let mut sink = NodeSink::new(self);
        let mut polling_since = None;
        while !slot.is_woken() {
            if self.wait_mode == WaitMode::Block {
                self.sleep(slot, &mut sink);
                continue;
            }
            if self.mesh.receive(&mut sink, Timeout::Now) > 0 {
                polling_since = None;
                continue;
            }
            match self.wait_mode {
                WaitMode::Spin => {
                    let since = *polling_since.get_or_insert_with(Instant::now);
                    // Nodes that spin may be more than cores: who would send needs one as well.
                    if since.elapsed() < POLL_FOR { spin_loop() } else { yield_now() }
                }
                WaitMode::Yield => yield_now(),
                WaitMode::Adaptive | WaitMode::Block => {
                    let since = *polling_since.get_or_insert_with(Instant::now);
                    if since.elapsed() < POLL_FOR {
                        yield_now();
                    } else {
                        self.sleep(slot, &mut sink);
                        // Whatever ended the sleep, the answer is likely to be near.
                        polling_since = None;
                    }
                }
            }
        }
        self.role.give_back();
        drop(claim);
        // A thread that parked while the role was taken takes over; one that is about to park
        // looks at the role once more after announcing it.
        if self.role.waits_for_more_than(1) {
            slots::nudge_one();
        }
    }

    /// Sleeps in the mesh until something arrives or this thread is woken by another.
    fn sleep(&self, slot: &Slot, sink: &mut NodeSink<'_>) {
        if slot.word.announce_sleep() {
            self.mesh.receive(sink, Timeout::Forever);
            slot.word.end_sleep();
        }
    }

    /// Another thread receives: wait for the wake-up, or for the role.
    fn stand_by(&self, slot: &Slot) -> StoodBy {
        match self.wait_mode {
            // Who receives needs a core more than who only waits for it.
            WaitMode::Spin | WaitMode::Yield => yield_now(),
            WaitMode::Block | WaitMode::Adaptive => return self.role.park(&slot.word),
        }
        StoodBy::Awake
    }

    /// The service thread: serves while no application thread waits.
    pub(crate) fn serve(&self) {
        let mut sink = NodeSink::new(self);
        while !self.is_leaving() {
            if !self.mesh.service_wait(Timeout::Forever) {
                continue;
            }
            #[cfg(feature = "mutants")]
            if mutants::on(mutants::Mutant::named("service-sleeps")) && !self.is_finalizing() {
                thread::sleep(POLL_FOR);
                continue;
            }
            if self.role.try_take() {
                self.mesh.receive(&mut sink, Timeout::Now);
                self.role.give_back();
                if self.role.waits_for_more_than(0) {
                    slots::nudge_one();
                }
            } else {
                yield_now();
            }
        }
    }
}
