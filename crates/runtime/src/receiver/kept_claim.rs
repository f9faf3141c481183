//! The kept claim: wake-ups stay suppressed between two waits that follow each other closely (ADR 40).
//!
//! Suppose a thread waits, goes on for a microsecond and waits again. An arrival in between would wake the
//! service thread, which would take the receiver's role, and the thread would park. So while waits follow each
//! other closely nobody resumes wake-ups, and the next wait finds what has arrived. The service thread guards
//! against a wait that does not come: it sleeps for [`WATCH_MICROS`] at a time instead of for ever, and where no
//! wait has followed it receives and resumes wake-ups. That time, with what the kernel adds to a sleep, is how
//! long a request may wait at a node whose thread has gone on to compute, once for each time it does so after
//! close waits. A node begins to keep claims when an arrival has woken its service thread in such a gap.
//!
//! A thread that says that it looks by itself between its waits (`between_waits`) needs no watch.

use std::time::Duration;

use crate::shim::Instant;

/// How long the service thread sleeps while it watches over a claim.
pub(super) const WATCH_MICROS: u32 = 200;
/// Waits that are no further apart follow each other closely.
const CLOSE: Duration = Duration::from_micros(50);

/// Whether the next wait is expected soon. All is done with the role of the receiver, or by the service
/// thread at its end.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// The service thread watches over it.
    watched: bool,
    /// Wake-ups are suppressed, and nobody receives.
    kept: bool,
    /// The last wait has followed the one before it closely.
    close: bool,
    /// The end of the last wait.
    ended: Option<Instant>,
}

impl Claim {
    /// A wait begins: whether wake-ups are suppressed already.
    pub(super) fn wait_begins(&mut self) -> bool {
        self.close = self.is_fresh();
        core::mem::take(&mut self.kept)
    }

    /// A wait ends: whether wake-ups stay suppressed. `looks`: its thread receives all the same, until it lets go.
    pub(super) fn wait_ends(&mut self, looks: bool) -> bool {
        self.ended = Some(Instant::now());
        self.kept = looks || self.watched && self.close;
        self.kept
    }

    /// Whether wake-ups are suppressed while nobody waits.
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    /// Nobody looks any more: if wake-ups are suppressed, they are to be resumed, by `resume`.
    pub(super) fn let_go(&mut self, resume: impl FnOnce()) {
        if core::mem::take(&mut self.kept) {
            resume();
        }
    }

    /// The service thread looks, while nobody receives: whether it is to watch. If not, and if wake-ups are
    /// suppressed, they are to be resumed, by `resume`.
    pub(super) fn watch(&mut self, resume: impl FnOnce()) -> bool {
        self.watched = self.close && self.is_fresh();
        if !self.watched {
            self.let_go(resume);
        }
        self.watched
    }

    /// The service thread ends.
    pub(super) fn end(&mut self, resume: impl FnOnce()) {
        self.close = false;
        self.watch(resume);
    }

    fn is_fresh(&self) -> bool {
        self.ended.is_some_and(|ended| ended.elapsed() < CLOSE)
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom", miri))))]
mod tests {
    use super::*;

    fn wait(claim: &mut Claim) -> (bool, bool) {
        (claim.wait_begins(), claim.wait_ends(false))
    }

    /// The last wait has just ended, for however long the thread that runs this loses the processor.
    fn just_ended() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(3600))
    }

    #[test]
    fn it_is_kept_between_close_waits_while_it_is_watched() {
        let mut claim = Claim::default();
        assert_eq!(wait(&mut claim), (false, false), "the first wait");
        claim.ended = just_ended();
        assert_eq!(wait(&mut claim), (false, false), "nobody watches");
        claim.ended = just_ended();
        assert!(claim.watch(|| panic!("wake-ups are not suppressed")));
        assert_eq!(wait(&mut claim), (false, true));
        claim.ended = just_ended();
        assert!(claim.wait_begins());
    }

    #[test]
    fn wake_ups_are_resumed_once_where_no_wait_follows() {
        let ended = Instant::now().checked_sub(CLOSE);
        assert!(ended.is_some(), "this machine has run for longer");
        let mut claim = Claim { watched: true, kept: true, close: true, ended };
        let mut resumed = 0;
        assert!(!claim.watch(|| resumed += 1) && !claim.watch(|| resumed += 1));
        assert_eq!(resumed, 1);
        assert_eq!(wait(&mut claim), (false, false), "that was not close");
    }

    #[test]
    fn who_looks_by_itself_needs_no_watch_and_lets_go_once() {
        let mut claim = Claim::default();
        assert!(!claim.wait_begins() && claim.wait_ends(true) && claim.is_kept());
        assert!(
            claim.wait_begins() && claim.wait_ends(true),
            "the next wait finds them suppressed"
        );
        let mut resumed = 0;
        claim.let_go(|| resumed += 1);
        claim.let_go(|| resumed += 1);
        assert!(resumed == 1 && !claim.is_kept() && !claim.wait_begins());
    }

    #[test]
    fn the_service_thread_leaves_nothing_suppressed() {
        let ended = just_ended();
        let mut claim = Claim { watched: true, kept: true, close: true, ended };
        let mut resumed = false;
        claim.end(|| resumed = true);
        assert!(resumed && !claim.wait_begins() && !claim.wait_ends(false));
    }
}
