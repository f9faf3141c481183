//! The driver of a node: takes an input, makes a step, sends its effects; a thread that has to wait waits here,
//! and receives for the node meanwhile.
//!
//! ```text
//! trap, call -> Driver -> Engine::step -> frames, protections, wake-ups
//!                 ^  |
//!    requests     |  +-> Receiver::wait -> Mesh -> NodeSink -+-> Engine::step_received
//!  of services ---+                                          +-> Driver::serve_request -> Services
//! ```
//!
//! Steps of this node's own ([`steps`]), faults ([`fetch`], [`held_instructions`]), requests between nodes ([`requests`]) and threads that begin and end
//! ([`live_threads`]) enter here; nothing below knows where they came from. What a request means is known to the
//! services above, which the driver only knows as [`Services`].

mod answers;
mod back_pressure;
pub(crate) mod fetch;
pub(crate) mod held_instructions;
mod live_threads;
mod outstanding_requests;
mod page_locks;
pub(crate) mod remote_atomics;
mod requests;
mod retire_areas;
mod single_step;
pub(crate) mod sink;
pub(crate) mod steps;
mod window_ends;

use core::fmt;

use multigrain_memory::Memory;
use multigrain_transport::{Header, LinkEvent, Mesh};
use multigrain_types::NodeId;
use multigrain_types::deadlock::BlockingCall;

use crate::engine::Engine;
use crate::frames::{Asker, Request};
use crate::interposed_close::{self, LinkThread};
use crate::membership::Membership;
use crate::platform::Platform;
use crate::races::Races;
use crate::receiver::Receiver;
use crate::receiver::slots::Slot;
use crate::shim::Mutex;
use crate::state_tables::SharedTables;
use crate::stats::{Count, Counters};
use crate::time_windows::now_ns;
use answers::Answers;
use live_threads::ThreadCounts;
use outstanding_requests::OutstandingRequests;
use remote_atomics::WaitingAtomics;
use retire_areas::Retiring;
use sink::NodeSink;

/// What serves the requests of this node and of its peers.
pub(crate) trait Services: Send + Sync + fmt::Debug {
    /// Serves one request, now or later; [`Driver::answer`] ends it if it is one that is answered.
    ///
    /// # Errors
    /// What is wrong with it: what no correct peer asks.
    fn serve(
        &self,
        driver: &Driver,
        asker: Asker,
        request: Request,
        header: &Header,
        body: &[u8],
    ) -> Result<(), String>;
}

/// What a thread waits for: where its time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// Minipages.
    Fault,
    /// Another thread of the job, which alone can end the wait: what this one asked for has been sent,
    /// and no time ends it.
    At(BlockingCall),
    /// The same, but a time ends the wait, if the other thread does not.
    Until(BlockingCall),
    /// Names, answers of other nodes, room in what is sent.
    Other,
}

impl WaitReason {
    fn count(self) -> Option<Count> {
        match self {
            Self::Fault => Some(Count::FaultWait),
            Self::At(BlockingCall::Lock(_)) => Some(Count::LockWait),
            Self::At(BlockingCall::Barrier(_)) => Some(Count::BarrierWait),
            // The end of the job is no time of the program's.
            Self::At(BlockingCall::Finalize) => None,
            Self::At(_) | Self::Until(_) | Self::Other => Some(Count::OtherWait),
        }
    }
}

/// What runs a node; see the module.
#[derive(Debug)]
pub(crate) struct Driver {
    engine: Engine,
    receiver: Receiver,
    outstanding: Mutex<OutstandingRequests>,
    answers: Answers,
    atomics: WaitingAtomics,
    threads: ThreadCounts,
    retiring: Retiring,
    services: Box<dyn Services>,
}

impl Driver {
    pub(crate) fn new(engine: Engine, receiver: Receiver, services: Box<dyn Services>) -> Self {
        let retiring = Retiring::new(engine.platform().nodes());
        Self {
            engine,
            receiver,
            outstanding: Mutex::default(),
            answers: Answers::default(),
            atomics: WaitingAtomics::default(),
            threads: ThreadCounts::default(),
            retiring,
            services,
        }
    }

    pub(crate) fn platform(&self) -> &Platform {
        self.engine.platform()
    }

    pub(crate) fn me(&self) -> NodeId {
        self.platform().me()
    }

    pub(crate) fn nodes(&self) -> u16 {
        self.platform().nodes()
    }

    pub(crate) fn memory(&self) -> &Memory {
        self.platform().memory()
    }

    pub(crate) fn mesh(&self) -> &Mesh {
        self.platform().mesh()
    }

    pub(crate) fn tables(&self) -> &SharedTables {
        self.platform().tables()
    }

    pub(crate) fn counters(&self) -> &Counters {
        self.platform().counters()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn races(&self) -> Races<'_> {
        self.engine.races()
    }

    pub(crate) fn membership(&self) -> &Membership {
        self.platform().membership()
    }

    /// Waits until `slot` is woken, receiving for the node if nobody does.
    pub(crate) fn wait_for(&self, slot: &Slot, wait: WaitReason) {
        if !slot.is_woken() {
            self.wait_since(slot, wait, now_ns());
        }
    }

    /// The same, of a wait whose time counts from then on.
    fn wait_since(&self, slot: &Slot, wait: WaitReason, since_ns: u64) {
        if !matches!(wait, WaitReason::Fault) && slot.awaited().is_waiting() {
            let place = match wait {
                WaitReason::At(place) | WaitReason::Until(place) => place.to_string(),
                WaitReason::Fault | WaitReason::Other => "for another node".to_owned(),
            };
            self.platform().fatal(&format!(
                "a signal handler waits {place} while its thread waited in a call of this library, which would both wait for \
                 ever: let the handler post a semaphore or set a flag, and the thread do the rest, exit() as well"
            ));
        }
        if !matches!(wait, WaitReason::Fault) {
            self.end_kept_lock(slot);
        }
        let receive = || self.receiver.wait(slot, since_ns, self.mesh(), &mut NodeSink::new(self));
        let ended_ns = match wait {
            WaitReason::At(place) => slot.awaited().wait_at(place, false, receive),
            WaitReason::Until(place) => slot.awaited().wait_at(place, true, receive),
            WaitReason::Fault | WaitReason::Other => receive(),
        };
        self.count_wait(wait, since_ns, ended_ns.unwrap_or_else(now_ns));
    }

    fn count_wait(&self, wait: WaitReason, since_ns: u64, ended_ns: u64) {
        if let Some(count) = wait.count() {
            self.counters().add(count, ended_ns.saturating_sub(since_ns));
        }
    }

    /// Serves what has arrived, if this thread looks between its waits.
    pub(crate) fn look(&self) {
        self.receiver.look(self.mesh(), &mut NodeSink::new(self));
    }

    /// Serves what has arrived, in a thread that takes a lock again and again.
    pub(crate) fn look_as_if_waiting(&self) {
        self.receiver.look_as_if_waiting(self.mesh(), &mut NodeSink::new(self));
    }

    /// This thread looks no more.
    pub(crate) fn rest(&self) {
        self.receiver.let_go(self.mesh());
    }

    /// The service thread: receives while no thread of the program waits.
    pub(crate) fn serve_peers(&self) {
        self.receiver.serve(self.mesh(), &mut NodeSink::new(self), self.membership());
    }

    /// The thread that makes links when they are first used, where there are such.
    pub(crate) fn make_links(&self) {
        let _link_thread = LinkThread::of_links();
        let launcher = self.platform().launcher();
        let made = self.mesh().make_links(&mut |event| match event {
            LinkEvent::Made(descriptors) => interposed_close::keep(&descriptors),
            // Peers that leave hang up, too.
            LinkEvent::Refused(_) if self.membership().is_finalizing() => {}
            LinkEvent::Refused(line) => launcher.refused(&line),
        });
        if let Err(error) = made {
            launcher.fatal(&format!("cannot make links to other nodes: {error}"));
        }
    }

    /// All nodes have come to the end: says goodbye, and reads what the peers still say.
    pub(crate) fn leave(&self, idle: core::time::Duration) {
        self.membership().leave();
        let leaving = LinkThread::leaving();
        self.mesh().leave();
        drop(leaving);
        self.receiver.exchange_goodbyes(self.mesh(), &mut NodeSink::new(self), idle);
        self.mesh().wake();
        self.engine.windows().ring();
    }
}
