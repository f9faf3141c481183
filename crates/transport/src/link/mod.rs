//! Links: one stream of bytes to one peer, whatever carries it.
//!
//! Role: [`Link`] is all that the rest of the crate knows of a connection, and [`Backend`] makes links.
//! A backend is one file here and one line in the list `backends!`, which says what serves an address (a new
//! kind of address is a variant of [`Address`] first); every backend passes `conformance.rs`. The rest of the
//! crate neither asks which backend it has nor touches the descriptor but to sleep on it.
//!
//! A link may hold bytes of its own between the stream and the socket (encryption does): see
//! [`Link::send`] and [`Link::holds_input`]. Dispatch is dynamic: an indirect call a system call.
#![expect(unsafe_code, reason = "links send from and receive into raw memory")]

mod socket;

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom", feature = "mutants"))))]
mod conformance;

use crate::address::Address;
use crate::error::TransportError;
use crate::handshake::Refusal;
use crate::span::Span;
use core::fmt;
use core::time::Duration;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

#[cfg(any(feature = "shuttle", feature = "mutants", feature = "fuzzing", test))]
pub(crate) use unix::pair;

/// Declares the files of the backends, each of which has a `BACKEND`, and lists these in order.
macro_rules! backends {
    ($(mod $backend:ident;)+) => {
        $(mod $backend;)+

        /// The backends. The first that serves an address makes its links.
        static BACKENDS: &[&dyn Backend] = &[$($backend::BACKEND),+];
    };
}

// `cargo fmt` does not look into macros; `rustfmt crates/transport/src/link/*.rs` formats these files.
backends! {
    mod unix;
    mod tcp;
}

/// What of a link is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// Nothing is sent any more; the peer reads what was sent, and then the end of the stream.
    Sending,
    /// Nothing is sent or received any more.
    Both,
}

/// A connection to a peer, as a stream of bytes each way. Nothing here ever waits but where it says so,
/// and nothing raises a signal. Any thread sends, one at a time; any thread receives, one at a time.
pub(crate) trait Link: fmt::Debug + Send + Sync {
    /// Sends bytes of the spans, in order; returns how many were taken, which may be fewer than there
    /// are, or 0 when nothing fits now. What was not taken is offered again before anything else, so a
    /// link may keep what it has made of it. With bytes left to send, [`Link::readiness`] becomes
    /// writable when more fits.
    ///
    /// # Errors
    /// The link sends nothing any more: the peer is gone.
    ///
    /// # Safety
    /// Every span is readable for its length, or not mapped at all (then: `EFAULT`).
    unsafe fn send(&self, spans: &mut [Span]) -> Result<usize, Errno>;

    /// Fills the spans, in order; returns the number of bytes, 0 at the end of the stream. Fewer than
    /// there is room for means that all has been read that was there.
    ///
    /// # Errors
    /// `EAGAIN` or `EINTR`: nothing is there now. `EFAULT`: a span has no valid place. Any other: the
    /// connection is broken.
    ///
    /// # Safety
    /// Every span is writable for its length and nobody holds a reference into it.
    unsafe fn receive(&self, spans: &mut [Span]) -> Result<usize, Errno>;

    /// What to sleep on: readable when there is something to receive or the end, writable when more can
    /// be sent. It may say so too often, and is for nothing else: its bytes are the link's.
    fn readiness(&self) -> BorrowedFd<'_>;

    /// Whether input is held inside, which [`Link::readiness`] does not show: receive again before
    /// sleeping.
    fn holds_input(&self) -> bool {
        false
    }

    /// Whether [`Link::readiness`] becomes writable anew when the peer has taken what was sent (ADR 8).
    fn tells_taken(&self) -> bool {
        false
    }

    /// While it suppresses wake-ups, what arrives does not make [`Link::readiness`] readable, but for
    /// bursts and the end; it is received all the same. Taken back, it is readable at once if something
    /// is there (ADR 15).
    ///
    /// # Errors
    /// It cannot; nothing has changed.
    fn suppress_wakeups(&self, suppress: bool) -> Result<(), Errno> {
        let _ = suppress;
        Err(Errno::NOSYS)
    }

    /// Closes it, after what was sent. Closing what is closed does nothing.
    fn close(&self, what: Close);

    /// How the connecting ended, once the link is writable for the first time.
    ///
    /// # Errors
    /// There is no connection.
    fn connected(&self) -> Result<(), Errno>;

    /// Sets the link up for the traffic of a job: short round trips, and a dead host is noticed.
    ///
    /// # Errors
    /// The kernel refuses an option.
    fn tune(&self) -> Result<(), Errno>;

    /// What the transport itself proves about the other end, before it has said anything. It has no default:
    /// a link says itself that it proves nothing, and one around another link asks that.
    ///
    /// # Errors
    /// Why it may not be a node of this job.
    fn authenticate(&self) -> Result<(), Refusal>;

    /// Who is at the other end, in words, for one line of a log.
    fn describe(&self) -> String;
}

/// One sort of links.
pub(crate) trait Backend: Sync {
    /// Whether its links go to this address.
    fn serves(&self, address: &Address) -> bool;

    /// A listening socket (close-on-exec), and the address with its port resolved.
    fn listen(&self, address: &Address) -> Result<(OwnedFd, Address), Errno>;

    /// The next connection to a listening socket that does not block; see `accept(2)` for the errors.
    fn accept(&self, listener: BorrowedFd<'_>) -> Result<Box<dyn Link>, Errno>;

    /// A link on its way to `address`, connected when it is writable; see [`Link::connected`]. It may
    /// wait for `patience` while the listener's backlog is full.
    fn connect(&self, address: &Address, patience: Duration) -> Result<Box<dyn Link>, Errno>;
}

/// Who makes the links of an address.
fn backend(address: &Address) -> Result<&'static dyn Backend, Errno> {
    BACKENDS.iter().copied().find(|backend| backend.serves(address)).ok_or(Errno::AFNOSUPPORT)
}

/// A listening socket (close-on-exec) at `address`, and the address with its port resolved.
///
/// # Errors
/// [`TransportError::Bind`] when the kernel does not give it.
pub fn bind(address: &Address) -> Result<(OwnedFd, Address), TransportError> {
    backend(address)
        .and_then(|backend| backend.listen(address))
        .map_err(|errno| TransportError::Bind { address: address.clone(), errno })
}

/// Begins to connect; see [`Backend::connect`].
pub(crate) fn connect(address: &Address, patience: Duration) -> Result<Box<dyn Link>, Errno> {
    backend(address)?.connect(address, patience)
}

/// A listening socket that does not block.
pub(crate) struct Listener {
    socket: OwnedFd,
    backend: &'static dyn Backend,
}

impl Listener {
    /// A socket that listens, at an address that some backend serves.
    pub(crate) fn new(socket: OwnedFd) -> Result<Self, Errno> {
        let backend = backend(&socket::address(&socket)?)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self { socket, backend })
    }

    pub(crate) fn accept(&self) -> Result<Box<dyn Link>, Errno> {
        self.backend.accept(self.socket.as_fd())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
