//! Claims: while an application thread receives, arrivals wake nobody else.
//!
//! Role: which of two ways keeps them quiet. The inner set is muted in the outer one: that works for any
//! number of links, but each arrival still goes through the callbacks of both sets, in the middle of
//! the sender's system call, and taking it back is an `epoll_ctl` that looks at the inner set. Or, where
//! links are few, each is hushed by itself: an arrival calls nobody then, or little (ADR 15).
//!
//! Invariants: links are hushed only while somebody has claimed and polls; whoever sleeps on the inner
//! set takes that back before. What came meanwhile wakes who sleeps when it is taken back.

use rustix::io::Errno;

/// After news in spite of hushed links so many claims hush none.
const BULK: u32 = 64;

/// A link that can be kept quiet by itself.
pub(crate) trait Hushable {
    /// The inner set hears no more of what arrives, but for bursts.
    fn hush(&self) -> Result<(), Errno>;
    /// It hears again, and at once if something is there.
    fn unhush(&self);
}

/// What the thread that claims is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// Try to receive, again and again. It may sleep later all the same.
    Polls,
    /// Sleep until something comes.
    Sleeps,
}

/// How arrivals are kept quiet now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hush {
    /// They are not.
    #[default]
    No,
    /// The inner set is muted.
    Set,
    /// The links are hushed.
    Links,
}

/// What is to be done to the inner set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Inner {
    Leave,
    Mute,
    Hear,
}

/// Who has claimed the receiving.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    count: u32,
    hush: Hush,
    /// Claims to come that hush no links.
    bulk: u32,
}

impl Claims {
    /// One more. `links` are those that may be hushed; so below.
    pub(crate) fn claim(
        &mut self,
        receiver: Receiver,
        links: impl Iterator<Item = impl Hushable> + Clone,
    ) -> Inner {
        self.count += 1;
        if self.count > 1 {
            return Inner::Leave;
        }
        let in_bulk = self.bulk > 0;
        self.bulk = self.bulk.saturating_sub(1);
        if receiver == Receiver::Polls && !in_bulk && hush(links) {
            self.hush = Hush::Links;
            Inner::Leave
        } else {
            self.hush = Hush::Set;
            Inner::Mute
        }
    }

    /// One less.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn release(&mut self, links: impl Iterator<Item = impl Hushable>) -> Inner {
        assert!(self.count > 0, "release without claim");
        self.count -= 1;
        if self.count > 0 {
            return Inner::Leave;
        }
        let hush = core::mem::take(&mut self.hush);
        if hush == Hush::Links {
            links.for_each(|link| link.unhush());
            return Inner::Leave;
        }
        Inner::Hear
    }

    /// Hushed links do not do any more: somebody is about to sleep on the inner set. `mute` is called
    /// before they are heard again, if they are hushed.
    pub(crate) fn muted_instead(
        &mut self,
        links: impl Iterator<Item = impl Hushable>,
        mute: impl FnOnce(),
    ) {
        if self.hush == Hush::Links {
            self.hush = Hush::Set;
            mute();
            links.for_each(|link| link.unhush());
        }
    }

    /// The service thread was woken: the same, if that was in spite of hushed links.
    pub(crate) fn woken(
        &mut self,
        links: impl Iterator<Item = impl Hushable>,
        mute: impl FnOnce(),
    ) {
        if self.hush == Hush::Links {
            self.bulk = BULK;
            self.muted_instead(links, mute);
        }
    }
}

/// True if there are links, and all are hushed.
fn hush(links: impl Iterator<Item = impl Hushable> + Clone) -> bool {
    let mut hushed = 0;
    for link in links.clone() {
        if link.hush().is_err() {
            links.take(hushed).for_each(|link| link.unhush());
            return false;
        }
        hushed += 1;
    }
    hushed > 0
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// A link that the kernel refuses to hush, or not.
    #[derive(Default)]
    struct Fake {
        refuses: bool,
        hushed: Cell<bool>,
    }

    impl Hushable for &Fake {
        fn hush(&self) -> Result<(), Errno> {
            self.hushed.set(!self.refuses);
            if self.refuses { Err(Errno::NOSYS) } else { Ok(()) }
        }

        fn unhush(&self) {
            assert!(self.hushed.replace(false), "it was not hushed");
        }
    }

    #[test]
    fn where_a_link_cannot_be_hushed_the_set_is_muted() {
        let refusing = || Fake { refuses: true, ..Fake::default() };
        for links in [vec![], vec![refusing()], vec![Fake::default(), refusing()]] {
            let mut claims = Claims::default();
            assert_eq!(claims.claim(Receiver::Polls, links.iter()), Inner::Mute);
            assert!(!links.iter().any(|link| link.hushed.get()));
            claims.muted_instead(links.iter(), || panic!("it is"));
            assert_eq!(claims.release(links.iter()), Inner::Hear);
        }
        let links = [Fake::default(), Fake::default()];
        let mut claims = Claims::default();
        assert_eq!(claims.claim(Receiver::Polls, links.iter()), Inner::Leave);
        assert!(links.iter().all(|link| link.hushed.get()));
        assert_eq!(claims.release(links.iter()), Inner::Leave);
    }
}
