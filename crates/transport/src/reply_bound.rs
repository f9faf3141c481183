//! A bound on what waits for a peer as answers to its own frames.
//!
//! Role: backpressure. A peer that asks and does not read the answers is cut off: what is sent to it by
//! the thread that takes its own frames, while it does, counts as answers until the link has taken it.
//! What this node sends it besides, be it a gigabyte, does not count.
//!
//! What counts is what the queue holds: owned bytes and its own entries, not memory that frames refer
//! to. The numbers change under the lock of their outbox; a relaxed read of them may be a little old.
#![expect(unsafe_code, reason = "asks for the number of this thread, as a signal handler may")]

use crate::sink::LostReason;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What waits for one peer.
#[derive(Debug, Default)]
pub(crate) struct ReplyBound {
    bytes: AtomicUsize,
    answers: AtomicUsize,
    /// The thread that takes this peer's frames just now; 0 for none.
    serving: AtomicUsize,
}

impl ReplyBound {
    /// The queue has changed: it takes so many bytes now, and of these so many are answers.
    pub(crate) fn weigh(&self, bytes: usize, answers: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.answers.store(answers, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// From now on what this thread sends to the peer are answers, until it says so with false.
    pub(crate) fn serve(&self, serves: bool) {
        self.serving.store(if serves { this_thread() } else { 0 }, Ordering::Relaxed);
    }

    /// Whether what this thread sends just now answers the peer. Only a thread's own number can be its
    /// number, whatever the others write here.
    pub(crate) fn answers_now(&self) -> bool {
        let serving = self.serving.load(Ordering::Relaxed);
        serving != 0 && serving == this_thread()
    }

    /// Whether a peer may go on asking.
    pub(crate) fn check(&self, allowed: usize) -> Result<(), LostReason> {
        #[cfg(feature = "mutants")]
        if crate::mutants::on(crate::mutants::ANSWERS_WITHOUT_END) {
            return Ok(());
        }
        let waiting = self.answers.load(Ordering::Relaxed);
        if waiting <= allowed {
            return Ok(());
        }
        let wrong = format!("asks without reading the answers, of which {waiting} bytes wait here");
        Err(LostReason::Violation(wrong))
    }
}

/// A number no other thread of this process has now; never 0.
fn this_thread() -> usize {
    // SAFETY: it has no conditions, and fails never.
    let thread = unsafe { libc::pthread_self() };
    usize::try_from(thread).unwrap_or(usize::MAX)
}
