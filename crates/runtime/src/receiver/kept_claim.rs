//! The kept claim: wake-ups stay suppressed between two waits that follow each other closely (ADR 40).
//!
//! Suppose a thread waits, goes on for a microsecond and waits again. An arrival in between would wake the service
//! thread, which would take the receiver's role, and the thread would park. So while waits follow each other closely
//! nobody resumes wake-ups, and the next wait finds what has arrived. The service thread guards against a wait that
//! does not come: it sleeps for [`WATCH_MICROS`] at a time instead of for ever, and twice as long after each look at
//! which waits had gone on, up to [`LONGEST_WATCH_MICROS`]; where no wait has followed it receives and resumes
//! wake-ups. That time, with what the kernel adds to a sleep, is how long a request may wait at a node whose thread has
//! gone on to compute, once for each time it does so after close waits. A node begins to keep claims when an arrival
//! has woken its service thread in such a gap, and ends it when nothing has arrived in [`EMPTY`] gaps in a row:
//! watching is not for nothing, least of all where a hypervisor sets the timer.
//!
//! A thread that says that it looks by itself between its waits (`between_waits`) needs no watch.

/// How long the service thread sleeps while it watches over a claim that was not kept for long.
const WATCH_MICROS: u32 = 200;
/// The same where waits have followed each other for a while, at most: each time that it wakes it takes the processor of a
/// thread that waits, or is about to.
const LONGEST_WATCH_MICROS: u32 = 800;
/// Waits that are no further apart follow each other closely.
const CLOSE_NS: u64 = 50_000;
/// So many gaps in a row in which nothing arrives end it.
const EMPTY: u8 = 64;

/// Whether the next wait is expected soon. All is done with the role of the receiver, or by the service
/// thread at its end.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// The service thread watches over it.
    watched: bool,
    /// How long it sleeps then.
    watch_micros: u32,
    /// Wake-ups are suppressed, and nobody receives.
    kept: bool,
    /// The last wait has followed the one before it closely.
    close: bool,
    /// In so many gaps nothing has arrived since something did.
    empty: u8,
    /// When the last wait ended, in nanoseconds.
    ended_ns: Option<u64>,
}

impl Claim {
    /// A thread that waits since then receives from now on: whether wake-ups are suppressed already.
    pub(super) fn wait_begins(&mut self, since_ns: u64, now_ns: impl FnOnce() -> u64) -> bool {
        // It may have stood by while another one received.
        let stood_by = self.ended_ns.is_some_and(|ended_ns| since_ns < ended_ns);
        self.close = self.is_fresh(if stood_by { now_ns() } else { since_ns });
        core::mem::take(&mut self.kept)
    }

    /// A wait that began with a kept claim has looked: whether anything had arrived.
    pub(super) fn looked(&mut self, arrived: bool) {
        self.empty = if arrived { 0 } else { self.empty.saturating_add(1) };
    }

    /// A wait ends: whether wake-ups stay suppressed. `looks`: its thread receives all the same, until it lets go.
    pub(super) fn wait_ends(&mut self, now_ns: u64, looks: bool) -> bool {
        self.ended_ns = Some(now_ns);
        self.watched &= self.empty < EMPTY;
        self.kept = looks || self.watched && self.close;
        self.kept
    }

    /// A thread that is to wait soon looks at what has arrived, as if it waited.
    pub(super) fn look(&mut self, now_ns: u64) {
        self.ended_ns = Some(now_ns);
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

    /// The service thread looks, while nobody receives. If it is not to watch, and if wake-ups are
    /// suppressed, they are to be resumed, by `resume`. `woken`: an arrival has woken it.
    pub(super) fn watch(
        &mut self,
        woken: bool,
        now_ns: impl FnOnce() -> u64,
        resume: impl FnOnce(),
    ) {
        if woken {
            self.empty = 0;
        }
        // What is not fresh any more is not until the next wait.
        self.close = self.close && self.is_fresh(now_ns());
        let goes_on = self.watched;
        self.watched = self.close && self.empty < EMPTY;
        self.watch_micros = match goes_on && self.watched && !woken {
            true => (2 * self.watch_micros).min(LONGEST_WATCH_MICROS),
            false => WATCH_MICROS,
        };
        if !self.watched {
            self.let_go(resume);
        }
    }

    /// For how many microseconds the service thread sleeps if it is to watch.
    pub(super) fn watch_micros(&self) -> Option<u32> {
        self.watched.then_some(self.watch_micros)
    }

    /// The service thread ends.
    pub(super) fn end(&mut self, resume: impl FnOnce()) {
        self.close = false;
        self.watch(false, || 0, resume);
    }

    fn is_fresh(&self, now_ns: u64) -> bool {
        self.ended_ns.is_some_and(|ended_ns| now_ns.saturating_sub(ended_ns) < CLOSE_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait begins then, and its thread receives at once.
    fn begins(claim: &mut Claim, since_ns: u64) -> bool {
        claim.wait_begins(since_ns, || unreachable!("it has not stood by"))
    }

    /// The service thread looks then, and finds no wake-up suppressed: whether it is to watch.
    fn watches(claim: &mut Claim, woken: bool, now_ns: u64) -> bool {
        claim.watch(woken, || now_ns, || panic!("wake-ups are not suppressed"));
        claim.watch_micros().is_some()
    }

    /// A wait that begins and ends then.
    fn wait(claim: &mut Claim, now_ns: u64) -> (bool, bool) {
        (begins(claim, now_ns), claim.wait_ends(now_ns, false))
    }

    #[test]
    fn it_is_watched_less_often_while_waits_go_on() {
        let mut claim = Claim::default();
        (0..2).for_each(|_| _ = wait(&mut claim, 0));
        let mut micros = |woken| {
            claim.watch(woken, || 0, || ());
            claim.watch_micros()
        };
        assert_eq!(micros(true), Some(200));
        assert_eq!([(); 4].map(|()| micros(false)), [Some(400), Some(800), Some(800), Some(800)]);
        assert_eq!(micros(true), Some(200), "an arrival has waited for it");
        claim.watch(false, || CLOSE_NS, || ());
        assert_eq!(claim.watch_micros(), None, "no wait has followed");
    }

    #[test]
    fn it_is_kept_between_close_waits_while_it_is_watched() {
        let mut claim = Claim::default();
        assert_eq!(wait(&mut claim, 0), (false, false), "the first wait");
        assert_eq!(wait(&mut claim, CLOSE_NS - 1), (false, false), "nobody watches");
        assert!(watches(&mut claim, true, 2 * CLOSE_NS - 2));
        assert_eq!(wait(&mut claim, 2 * CLOSE_NS - 2), (false, true));
        assert!(begins(&mut claim, 3 * CLOSE_NS - 3));
    }

    #[test]
    fn wake_ups_are_resumed_once_where_no_wait_follows() {
        let mut claim =
            Claim { watched: true, kept: true, close: true, ended_ns: Some(7), ..Claim::default() };
        let mut resumed = 0;
        let late = || 7 + CLOSE_NS;
        for _ in 0..2 {
            claim.watch(false, late, || resumed += 1);
            assert!(claim.watch_micros().is_none());
        }
        assert_eq!(resumed, 1);
        assert_eq!(wait(&mut claim, late()), (false, false), "that was not close");
    }

    #[test]
    fn it_is_kept_until_nothing_has_arrived_in_many_gaps() {
        let mut claim = Claim { watched: true, close: true, ended_ns: Some(0), ..Claim::default() };
        // What arrives in the last gap but one begins the count again.
        for (gap, arrived) in (1..2 * EMPTY).map(|gap| (gap, gap == EMPTY - 1)) {
            assert!(wait(&mut claim, gap.into()).1 && claim.watch_micros().is_some(), "{gap}");
            claim.looked(arrived);
        }
        assert_eq!(wait(&mut claim, 2 * u64::from(EMPTY)), (true, false));
        assert!(claim.watch_micros().is_none(), "the service thread sleeps for ever");
        assert!(!watches(&mut claim, false, 100));
        assert!(watches(&mut claim, true, 100), "something has arrived");
    }

    #[test]
    fn who_has_stood_by_follows_closely_if_it_takes_over_soon() {
        for (after_ns, close) in [(0, true), (CLOSE_NS - 1, true), (CLOSE_NS, false)] {
            let mut claim = Claim { ended_ns: Some(CLOSE_NS), ..Claim::default() };
            claim.wait_begins(0, || CLOSE_NS + after_ns);
            assert_eq!(claim.close, close, "{after_ns}");
        }
    }

    #[test]
    fn who_looks_by_itself_needs_no_watch_and_lets_go_once() {
        let mut claim = Claim::default();
        assert!(!begins(&mut claim, 0) && claim.wait_ends(0, true) && claim.is_kept());
        assert!(
            begins(&mut claim, CLOSE_NS) && claim.wait_ends(CLOSE_NS, true),
            "the next wait finds them suppressed"
        );
        let mut resumed = 0;
        claim.let_go(|| resumed += 1);
        claim.let_go(|| resumed += 1);
        assert!(resumed == 1 && !claim.is_kept() && !begins(&mut claim, CLOSE_NS));
    }

    #[test]
    fn the_service_thread_leaves_nothing_suppressed() {
        let mut claim =
            Claim { watched: true, kept: true, close: true, ended_ns: Some(0), ..Claim::default() };
        let mut resumed = false;
        claim.end(|| resumed = true);
        assert!(resumed && !begins(&mut claim, 0) && !claim.wait_ends(0, false));
    }
}
