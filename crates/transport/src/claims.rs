//! Claims: while an application thread receives, arrivals wake nobody else.
//!
//! Role: which of two ways keeps them quiet. The inner set is muted in the outer one: that works for any
//! number of links, but each arrival still goes through the callbacks of both sets, in the middle of
//! the sender's system call, and taking it back is an `epoll_ctl` that looks at the inner set. Or, where
//! links are few and all TCP, their low-water marks are raised: to the kernel they are not readable
//! then, and an arrival calls nobody (ADR 15).
//!
//! Invariants: marks are up only while somebody has claimed and polls; whoever sleeps on the inner set
//! takes them down before. What came while they were up wakes who sleeps when they go down.

use crate::sys;
use rustix::fd::BorrowedFd;

/// Below so many bytes a link with its mark up is not readable: more than most pages with their
/// headers, and so little that the kernel does not think the receive buffer too small for it.
const MARK: i32 = 16 << 10;
/// After a burst beyond the mark so many claims do without marks.
const BULK: u32 = 64;

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
    /// Marks are up.
    Marks,
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
    /// Claims to come that do without marks.
    bulk: u32,
}

impl Claims {
    /// One more. `marked` are the links whose marks may be used.
    pub(crate) fn claim<'a>(
        &mut self,
        receiver: Receiver,
        marked: impl Iterator<Item = BorrowedFd<'a>> + Clone,
    ) -> Inner {
        self.count += 1;
        if self.count > 1 {
            return Inner::Leave;
        }
        let in_bulk = self.bulk > 0;
        self.bulk = self.bulk.saturating_sub(1);
        if receiver == Receiver::Polls && !in_bulk && raise(marked) {
            self.hush = Hush::Marks;
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
    pub(crate) fn release<'a>(&mut self, marked: impl Iterator<Item = BorrowedFd<'a>>) -> Inner {
        assert!(self.count > 0, "release without claim");
        self.count -= 1;
        if self.count > 0 {
            return Inner::Leave;
        }
        let hush = core::mem::take(&mut self.hush);
        if hush == Hush::Marks {
            lower(marked);
            return Inner::Leave;
        }
        Inner::Hear
    }

    /// Marks do not do any more: somebody is about to sleep on the inner set. `mute` is called before
    /// they go down, if they are up.
    pub(crate) fn without_marks<'a>(
        &mut self,
        marked: impl Iterator<Item = BorrowedFd<'a>>,
        mute: impl FnOnce(),
    ) {
        if self.hush == Hush::Marks {
            self.hush = Hush::Set;
            mute();
            lower(marked);
        }
    }

    /// The service thread was woken: the same, if that was in spite of the marks.
    pub(crate) fn woken<'a>(
        &mut self,
        marked: impl Iterator<Item = BorrowedFd<'a>>,
        mute: impl FnOnce(),
    ) {
        if self.hush == Hush::Marks {
            self.bulk = BULK;
            self.without_marks(marked, mute);
        }
    }
}

/// True if there are links, and all have their marks up.
fn raise<'a>(marked: impl Iterator<Item = BorrowedFd<'a>> + Clone) -> bool {
    let mut raised = 0;
    for link in marked.clone() {
        if sys::set_low_water(link, MARK).is_err() {
            lower(marked.take(raised));
            return false;
        }
        raised += 1;
    }
    raised > 0
}

fn lower<'a>(marked: impl Iterator<Item = BorrowedFd<'a>>) {
    for link in marked {
        let done = sys::set_low_water(link, 1);
        assert!(done.is_ok(), "SO_RCVLOWAT of our own socket: {done:?}");
    }
}

#[cfg(test)]
#[cfg(not(any(miri, feature = "shuttle")))]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fd::AsFd;
    use std::net::TcpListener;

    #[test]
    fn where_a_mark_is_refused_the_set_is_muted() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let no_socket = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        for refused in [vec![no_socket.as_fd()], vec![socket.as_fd(), no_socket.as_fd()]] {
            let mut claims = Claims::default();
            let marked = || refused.iter().copied();
            assert_eq!(claims.claim(Receiver::Polls, marked()), Inner::Mute);
            claims.without_marks(marked(), || panic!("there are none"));
            assert_eq!(claims.release(marked()), Inner::Hear);
        }
        let mut claims = Claims::default();
        let marked = || [socket.as_fd()].into_iter();
        assert_eq!(claims.claim(Receiver::Polls, marked()), Inner::Leave);
        assert_eq!(claims.release(marked()), Inner::Leave);
    }
}
