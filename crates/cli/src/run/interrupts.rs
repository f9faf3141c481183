//! What the user of a running job has asked for by signals: to end it, gently or at once. What each signal does is in
//! [`super::node_signals`], how long nodes may take to end in [`super::escalation`].

use super::signalfd::Signals;
use rustix::process::Signal;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Two interrupts within this time mean: at once.
const INTERRUPT_WINDOW: Duration = Duration::from_secs(2);

/// The signals that come to the launcher, and what follows from them. Times are since the job's start.
pub(super) struct Interrupts {
    signals: Signals,
    last_interrupt: Option<Duration>,
    ends_at_once: bool,
    kill_at: Option<Duration>,
}

impl Interrupts {
    /// Nothing has been asked for.
    pub(super) fn new(signals: Signals) -> Self {
        Self { signals, last_interrupt: None, ends_at_once: false, kill_at: None }
    }

    /// The next signal that has come.
    pub(super) fn next_signal(&self) -> Option<Signal> {
        self.signals.next()
    }

    /// An interrupt has come; whether it is the second.
    pub(super) fn is_second(&mut self, now: Duration) -> bool {
        let last = self.last_interrupt.replace(now);
        last.is_some_and(|at| now <= at + INTERRUPT_WINDOW)
    }

    /// A SIGTERM has come, which nodes may outlive until then.
    pub(super) fn terminates(&mut self, kill_at: Duration) {
        self.kill_at.get_or_insert(kill_at);
    }

    /// When nodes are killed that a SIGTERM has not ended.
    pub(super) fn kill_at(&self) -> Option<Duration> {
        self.kill_at
    }

    /// The user wants out at once.
    pub(super) fn end_at_once(&mut self) {
        self.ends_at_once = true;
    }

    /// Whether the user wants out at once.
    pub(super) fn ends_at_once(&self) -> bool {
        self.ends_at_once
    }
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}
