//! Wake-up suppression: while an application thread receives, arrivals wake nobody else, but for bursts on links that suppress by themselves.
//!
//! Role: which of two ways does it. The inner set is muted in the outer one: that works for any number of
//! links, but each arrival still goes through the callbacks of both sets, in the middle of the sender's
//! system call, and taking it back is an `epoll_ctl` that looks at the inner set. Or, where links are few
//! and all of them can, each does it by itself: an arrival calls nobody then (ADR 15).
//!
//! Invariants: links suppress only while an application thread polls; whoever sleeps on the inner set takes
//! that back before. What came meanwhile wakes who sleeps when it is taken back.

use crate::link::Link;

/// After input in spite of suppressing links so many times the set is muted instead.
const BULK: u32 = 64;

/// What the thread that receives is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// Try to receive, again and again. It may sleep later all the same.
    Polls,
    /// Sleep until something comes.
    Sleeps,
}

/// How wake-ups are suppressed now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Suppressed {
    /// They are not.
    #[default]
    No,
    /// The inner set is muted.
    ByInnerSet,
    /// The links do.
    ByLinks,
}

/// What is to be done to the inner set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Inner {
    Leave,
    Mute,
    Unmute,
}

/// Application threads that receive, and how wake-ups are suppressed for them.
#[derive(Debug, Default)]
pub(crate) struct Suppression {
    receivers: u32,
    suppressed: Suppressed,
    /// Times to come that the set is muted, though links could.
    bulk: u32,
}

impl Suppression {
    /// One receiver more. `links` are those that may suppress; so below.
    pub(crate) fn begin<'a>(
        &mut self,
        receiver: Receiver,
        links: impl Iterator<Item = &'a dyn Link> + Clone,
    ) -> Inner {
        self.receivers += 1;
        if self.receivers > 1 {
            return Inner::Leave;
        }
        let in_bulk = self.bulk > 0;
        self.bulk = self.bulk.saturating_sub(1);
        if receiver == Receiver::Polls && !in_bulk && suppress(links) {
            self.suppressed = Suppressed::ByLinks;
            Inner::Leave
        } else {
            self.suppressed = Suppressed::ByInnerSet;
            Inner::Mute
        }
    }

    /// One receiver less.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn end<'a>(&mut self, links: impl Iterator<Item = &'a dyn Link>) -> Inner {
        assert!(self.receivers > 0, "wake-ups are resumed that nobody has suppressed");
        self.receivers -= 1;
        if self.receivers > 0 {
            return Inner::Leave;
        }
        let before = core::mem::take(&mut self.suppressed);
        if before == Suppressed::ByLinks {
            resume(links);
            return Inner::Leave;
        }
        Inner::Unmute
    }

    /// Suppressing links do not do any more: somebody is about to sleep on the inner set. `mute` is called
    /// before they are taken back, if they suppress.
    pub(crate) fn mute_instead<'a>(
        &mut self,
        links: impl Iterator<Item = &'a dyn Link>,
        mute: impl FnOnce(),
    ) {
        if self.suppressed == Suppressed::ByLinks {
            self.suppressed = Suppressed::ByInnerSet;
            mute();
            resume(links);
        }
    }

    /// The service thread was woken: the same, if that was in spite of suppressing links.
    pub(crate) fn woken<'a>(
        &mut self,
        links: impl Iterator<Item = &'a dyn Link>,
        mute: impl FnOnce(),
    ) {
        if self.suppressed == Suppressed::ByLinks {
            self.bulk = BULK;
            self.mute_instead(links, mute);
        }
    }
}

/// True if there are links, and all suppress now.
fn suppress<'a>(links: impl Iterator<Item = &'a dyn Link> + Clone) -> bool {
    let mut done = 0;
    for link in links.clone() {
        if link.suppress_wakeups(true).is_err() {
            resume(links.take(done));
            return false;
        }
        done += 1;
    }
    done > 0
}

fn resume<'a>(links: impl Iterator<Item = &'a dyn Link>) {
    for link in links {
        let done = link.suppress_wakeups(false);
        assert!(done.is_ok(), "{link:?} suppresses, and does not resume: {done:?}");
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
#[expect(unsafe_code, reason = "implements a link")]
mod tests {
    use super::*;
    use crate::handshake::Refusal;
    use crate::link::Close;
    use crate::span::Span;
    use crate::tap::FrameTap;
    use core::task::Poll;
    use multigrain_types::NodeId;
    use rustix::fd::BorrowedFd;
    use rustix::io::Errno;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A link that can suppress, or not.
    #[derive(Debug, Default)]
    struct Fake {
        refuses: bool,
        suppresses: AtomicBool,
    }

    impl Link for Fake {
        fn suppress_wakeups(&self, on: bool) -> Result<(), Errno> {
            if self.refuses {
                return Err(Errno::NOSYS);
            }
            assert_ne!(self.suppresses.swap(on, Ordering::Relaxed), on, "twice the same");
            Ok(())
        }

        unsafe fn send(&self, _: &mut [Span]) -> Result<usize, Errno> {
            unreachable!()
        }

        unsafe fn receive(&self, _: &mut [Span]) -> Result<usize, Errno> {
            unreachable!()
        }

        fn readiness(&self) -> BorrowedFd<'_> {
            unreachable!()
        }

        fn timer(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        fn takes_input(&self) -> bool {
            true
        }

        fn holds_input(&self) -> bool {
            false
        }

        fn tells_taken(&self) -> bool {
            false
        }

        fn proves_rank(&self) -> bool {
            false
        }

        fn tap(&self) -> Option<&dyn FrameTap> {
            None
        }

        fn close(&self, _: Close) {}

        fn connected(&self) -> Result<(), Errno> {
            Ok(())
        }

        fn tune(&self) -> Result<(), Errno> {
            Ok(())
        }

        fn look_after(&self) {}

        fn authenticate(&self) -> Poll<Result<(), Refusal>> {
            Poll::Ready(Ok(()))
        }

        fn may_be(&self, _: NodeId) -> Result<(), Refusal> {
            Ok(())
        }

        fn describe(&self) -> String {
            String::new()
        }
    }

    fn links(fakes: &[Fake]) -> impl Iterator<Item = &dyn Link> + Clone {
        fakes.iter().map(|fake| fake as &dyn Link)
    }

    fn suppressing(fakes: &[Fake]) -> usize {
        fakes.iter().filter(|fake| fake.suppresses.load(Ordering::Relaxed)).count()
    }

    #[test]
    fn where_a_link_cannot_suppress_the_set_is_muted() {
        let refusing = || Fake { refuses: true, ..Fake::default() };
        for fakes in [vec![], vec![refusing()], vec![Fake::default(), refusing()]] {
            let mut suppression = Suppression::default();
            assert_eq!(suppression.begin(Receiver::Polls, links(&fakes)), Inner::Mute);
            assert_eq!(suppressing(&fakes), 0);
            suppression.mute_instead(links(&fakes), || panic!("it is"));
            assert_eq!(suppression.end(links(&fakes)), Inner::Unmute);
        }
        let fakes = [Fake::default(), Fake::default()];
        let mut suppression = Suppression::default();
        assert_eq!(suppression.begin(Receiver::Sleeps, links(&fakes)), Inner::Mute);
        assert_eq!(suppression.end(links(&fakes)), Inner::Unmute);
        assert_eq!(suppression.begin(Receiver::Polls, links(&fakes)), Inner::Leave);
        assert_eq!(suppressing(&fakes), 2);
        assert_eq!(suppression.end(links(&fakes)), Inner::Leave);
        assert_eq!(suppressing(&fakes), 0);
    }

    #[test]
    fn input_in_spite_of_suppression_mutes_the_set_for_a_while() {
        let fakes = [Fake::default()];
        let mut suppression = Suppression::default();
        assert_eq!(suppression.begin(Receiver::Polls, links(&fakes)), Inner::Leave);
        let mut muted = 0;
        for _ in 0..2 {
            suppression.woken(links(&fakes), || muted += 1);
        }
        assert_eq!((muted, suppressing(&fakes)), (1, 0));
        assert_eq!(suppression.end(links(&fakes)), Inner::Unmute);
        for _ in 0..BULK {
            assert_eq!(suppression.begin(Receiver::Polls, links(&fakes)), Inner::Mute);
            assert_eq!(suppression.end(links(&fakes)), Inner::Unmute);
        }
        assert_eq!(suppression.begin(Receiver::Polls, links(&fakes)), Inner::Leave);
    }
}
