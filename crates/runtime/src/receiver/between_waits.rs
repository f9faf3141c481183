//! A thread that is to wait again soon, and looks at what arrives until then: a site's, while faults follow each other.
//!
//! Between two waits of an ordinary thread nobody but the service thread receives, so each wait begins with a system call that
//! suppresses its wake-ups and ends with one that resumes them. A thread that does not sleep in between can spare both, if it
//! receives itself: it says so before it waits ([`begin`]), looks each time that it finds nothing else to do
//! ([`Receiver::look`]), and lets go before it sleeps ([`Receiver::let_go`]).
//!
//! Nothing is lost if another thread waits meanwhile: that one finds wake-ups suppressed, and resumes them when it ends, unless it
//! looks by itself, too. Claim and role say who does what; what is here is what a thread knows of itself.

use core::cell::Cell;

use multigrain_transport::{Mesh, Sink, Timeout};

use super::{Receiver, slots};
use crate::shim::lock;
use crate::time_windows::now_ns;

/// What a thread does between its waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// Anything.
    Goes,
    /// It looks, but has not suppressed anything.
    Looks,
    /// It has.
    Keeps,
}

thread_local! {
    static BETWEEN: Cell<Between> = const { Cell::new(Between::Goes) };
}

/// This thread looks from now on, until it lets go.
pub(crate) fn begin() {
    if BETWEEN.get() == Between::Goes {
        BETWEEN.set(Between::Looks);
    }
}

/// A wait of this thread ends, with the role: whether wake-ups stay suppressed for it.
pub(super) fn keeps() -> bool {
    let looks = BETWEEN.get() != Between::Goes;
    if looks {
        BETWEEN.set(Between::Keeps);
    }
    looks
}

impl Receiver {
    /// Serves what has arrived, if this thread has left wake-ups suppressed and nobody else receives.
    pub(crate) fn look(&self, mesh: &Mesh, sink: &mut dyn Sink) {
        if BETWEEN.get() == Between::Keeps {
            self.between(|| {
                let is_kept = lock(&self.claim).is_kept();
                if is_kept {
                    mesh.receive(sink, Timeout::Now);
                }
            });
        }
    }

    /// Serves what has arrived, if nobody receives, in a thread that polls under a lock: for the claim, it is as if it
    /// waited (`kept_claim`).
    pub(crate) fn look_as_if_waiting(&self, mesh: &Mesh, sink: &mut dyn Sink) {
        self.between(|| {
            lock(&self.claim).look(now_ns());
            if mesh.receive(sink, Timeout::Now) > 0 {
                lock(&self.claim).looked(true);
            }
        });
    }

    /// This thread looks no more. Whoever has the role just now resumes wake-ups, or has the service thread watch.
    pub(crate) fn let_go(&self, mesh: &Mesh) {
        if BETWEEN.replace(Between::Goes) == Between::Keeps {
            self.between(|| lock(&self.claim).let_go(|| mesh.resume_wakeups()));
        }
    }

    /// With the role, if it is free.
    fn between(&self, act: impl FnOnce()) {
        if !self.role.try_take() {
            return;
        }
        act();
        self.role.give_back();
        if self.role.waits_for_more_than(0) {
            slots::nudge_one();
        }
    }
}
