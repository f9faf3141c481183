//! Links: one stream of bytes to one peer, whatever carries it.
//!
//! Role: [`Link`] is all that the rest of the crate knows of a connection, and a [`Backend`] makes links.
//! A backend is one file here and one line in [`backends`]: `--transport` knows it by its name then, with its help text and in
//! completions, and `conformance.rs` tries it alone, emulated and under TLS. The first in the list that serves an address is the
//! one that `auto` means. (A new kind of address is a variant of [`Address`] first.) The rest of the crate neither asks which
//! backend it has nor touches the descriptor but to sleep on it.
//!
//! A link may be laid over another (`tls`, `emulated`), and hold bytes of its own between the stream and the socket: see
//! [`Link::send`] and [`Link::holds_input`]. Dispatch is dynamic: an indirect call a system call.
#![expect(unsafe_code, reason = "links send from and receive into raw memory")]

/// Methods of [`Link`] that a link over another, which is in the named field, leaves to that one.
macro_rules! pass_on {
    ($below:ident: $($method:ident)*) => { $(pass_on! { @$method $below })* };
    (@send $below:ident) => {
        unsafe fn send(&self, spans: &mut [$crate::span::Span]) -> Result<usize, rustix::io::Errno> {
            // SAFETY: the caller's promise is the one asked for.
            unsafe { self.$below.send(spans) }
        }
    };
    (@receive $below:ident) => {
        unsafe fn receive(&self, spans: &mut [$crate::span::Span]) -> Result<usize, rustix::io::Errno> {
            // SAFETY: the caller's promise is the one asked for.
            unsafe { self.$below.receive(spans) }
        }
    };
    (@readiness $below:ident) => { pass_on! { @ readiness($below) -> rustix::fd::BorrowedFd<'_> } };
    (@timer $below:ident) => { pass_on! { @ timer($below) -> Option<rustix::fd::BorrowedFd<'_>> } };
    (@takes_input $below:ident) => { pass_on! { @ takes_input($below) -> bool } };
    (@holds_input $below:ident) => { pass_on! { @ holds_input($below) -> bool } };
    (@tells_taken $below:ident) => { pass_on! { @ tells_taken($below) -> bool } };
    (@suppress_wakeups $below:ident) => {
        pass_on! { @ suppress_wakeups($below, suppress: bool) -> Result<(), rustix::io::Errno> }
    };
    (@close $below:ident) => { pass_on! { @ close($below, what: $crate::link::Close) -> () } };
    (@connected $below:ident) => { pass_on! { @ connected($below) -> Result<(), rustix::io::Errno> } };
    (@tune $below:ident) => { pass_on! { @ tune($below) -> Result<(), rustix::io::Errno> } };
    (@look_after $below:ident) => { pass_on! { @ look_after($below) -> () } };
    (@authenticate $below:ident) => {
        pass_on! { @ authenticate($below) -> core::task::Poll<Result<(), $crate::handshake::Refusal>> }
    };
    (@may_be $below:ident) => {
        pass_on! { @ may_be($below, node: multigrain_types::NodeId) -> Result<(), $crate::handshake::Refusal> }
    };
    (@proves_rank $below:ident) => { pass_on! { @ proves_rank($below) -> bool } };
    (@tap $below:ident) => { pass_on! { @ tap($below) -> Option<&dyn $crate::tap::FrameTap> } };
    (@describe $below:ident) => { pass_on! { @ describe($below) -> String } };
    (@ $method:ident($below:ident $(, $argument:ident: $type:ty)?) -> $returned:ty) => {
        fn $method(&self $(, $argument: $type)?) -> $returned {
            self.$below.$method($($argument)?)
        }
    };
}

/// Declares the module of each backend, and the list of what they export.
macro_rules! backends {
    ($(mod $file:ident;)*) => {
        $(mod $file;)*
        const BACKENDS: &[&dyn Backend] = &[$(&$file::BACKEND),*];
    };
}

// rustfmt finds no files by this list: `.ci/run` names them to it.
backends! {
    mod unix;
    mod tcp;
}

mod choice;
mod emulated;
mod socket;
mod tcp_liveness;
mod tls;

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom", feature = "mutants"))))]
mod conformance;
#[cfg(all(test, not(any(feature = "shuttle", feature = "loom", feature = "mutants"))))]
mod tap_tests;

use crate::address::{Address, AddressKind};
use crate::credentials::{Credentials, CredentialsError};
use crate::handshake::Refusal;
use crate::span::Span;
use crate::tap::FrameTap;
use core::fmt;
use core::task::Poll;
use core::time::Duration;
use emulated::Emulated;
use multigrain_types::NodeId;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::io::Errno;
use tls::Tls;

pub use choice::{Transport, UnknownTransport};
pub use emulated::{Emulation, EmulationError};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use tcp::over as tcp_over;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use tls::Tls as TlsLayer;
#[cfg(any(feature = "shuttle", feature = "mutants", feature = "fuzzing", test))]
pub(crate) use unix::pair;

/// What makes the links of a node: the backends of the transport that is chosen, and what is laid over links that leave the
/// host.
pub(crate) struct Backends {
    chosen: Transport,
    tls: Option<Tls>,
}

impl Backends {
    /// Those of a node of this job; with credentials, whatever leaves the host is encrypted.
    pub(crate) fn new(
        chosen: Transport,
        job: u128,
        own: Option<&Credentials>,
    ) -> Result<Self, CredentialsError> {
        let tls = own.map(|own| Tls::new(job, own)).transpose()?;
        Ok(Self { chosen, tls })
    }

    fn tls_to(&self, backend: &dyn Backend) -> Option<&Tls> {
        self.tls.as_ref().filter(|_| backend.addresses().leave_host())
    }

    /// Begins to connect; see [`Backend::connect`].
    pub(crate) fn connect(
        &self,
        address: &Address,
        patience: Duration,
    ) -> Result<Box<dyn Link>, Errno> {
        let backend = self.chosen.serving(address)?;
        let link = backend.connect(address, patience)?;
        Ok(match self.tls_to(backend) {
            Some(tls) => tls.connecting(link),
            None => link,
        })
    }

    /// A socket that listens, at an address that some backend serves; it does not block from now on.
    pub(crate) fn listener(&self, socket: OwnedFd) -> Result<Listener, Errno> {
        let backend = self.chosen.serving(&socket::address(&socket)?)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Listener { socket, backend, tls: self.tls_to(backend).cloned() })
    }
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
///
/// No method has a default: a link over another would forget to pass it on ([`pass_on`] does so by name).
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
    /// Every span is readable for its length. (To the kernel it may be unmapped as well: `EFAULT`.)
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

    /// What else to sleep on, for input alone, if the link holds back what has arrived: readable once something of
    /// that is to be received. It is the same as long as the link lives.
    fn timer(&self) -> Option<BorrowedFd<'_>>;

    /// Whether it takes input from what [`Link::readiness`] shows: while it does not, its [`Link::timer`] tells when to
    /// receive again. It changes only as it receives.
    fn takes_input(&self) -> bool;

    /// Whether input is held inside, which [`Link::readiness`] does not show: receive again before
    /// sleeping.
    fn holds_input(&self) -> bool;

    /// Whether [`Link::readiness`] becomes writable anew when the peer has taken what was sent (ADR 8).
    fn tells_taken(&self) -> bool;

    /// While it suppresses wake-ups, what arrives does not make [`Link::readiness`] readable, but for
    /// bursts and the end; it is received all the same. Taken back, it is readable at once if something
    /// is there (ADR 15).
    ///
    /// # Errors
    /// It cannot (`ENOSYS` if it never can); nothing has changed.
    fn suppress_wakeups(&self, suppress: bool) -> Result<(), Errno>;

    /// Closes it, after what was sent. Closing what is closed does nothing.
    fn close(&self, what: Close);

    /// How the connecting ended, once the link is writable for the first time.
    ///
    /// # Errors
    /// There is no connection.
    fn connected(&self) -> Result<(), Errno>;

    /// Sets the link up for the traffic of a job: short round trips, and a dead host is noticed. Called once the handshake is
    /// over; also before it where that has no time-out of its own.
    ///
    /// # Errors
    /// The kernel refuses an option.
    fn tune(&self) -> Result<(), Errno>;

    /// Ends the link with an error if the other end's host does not take what was sent, and has not answered at all
    /// for some seconds: to be called a few times a second.
    fn look_after(&self);

    /// What the transport itself proves about the other end, before that has said anything: nothing is sent or
    /// received until it is ready. While it is not, it is asked again whenever the link is readable.
    ///
    /// # Errors
    /// Why it may not be a node of this job. This may also turn out later, when nothing can be received any more.
    fn authenticate(&self) -> Poll<Result<(), Refusal>>;

    /// Whether what is proven allows the other end, once authenticated, to speak for this node.
    ///
    /// # Errors
    /// Why it does not.
    fn may_be(&self, node: NodeId) -> Result<(), Refusal>;

    /// Whether [`Link::may_be`] goes by proof, at both ends: then the job's secret need not be said.
    fn proves_rank(&self) -> bool;

    /// Who is told of each frame that travels on it; it is asked once, when the link is made.
    fn tap(&self) -> Option<&dyn FrameTap>;

    /// Who is at the other end, in words, for one line of a log.
    fn describe(&self) -> String;
}

/// One sort of links.
pub(crate) trait Backend: Send + Sync {
    /// What `--transport` calls it.
    fn name(&self) -> &'static str;

    /// What its help says of it.
    fn help(&self) -> &'static str;

    /// Where its links go.
    fn addresses(&self) -> AddressKind;

    /// A listening socket (close-on-exec), and the address with its port resolved.
    fn listen(&self, address: &Address) -> Result<(OwnedFd, Address), Errno>;

    /// The next connection to a listening socket that does not block; see `accept(2)` for the errors.
    fn accept(&self, listener: BorrowedFd<'_>) -> Result<Box<dyn Link>, Errno>;

    /// A link on its way to `address`, connected when it is writable; see [`Link::connected`]. It may
    /// wait for `patience` while the listener's backlog is full.
    fn connect(&self, address: &Address, patience: Duration) -> Result<Box<dyn Link>, Errno>;
}

/// The file descriptors of a link.
pub(crate) fn descriptors(link: &dyn Link) -> impl Iterator<Item = RawFd> {
    [Some(link.readiness()), link.timer()].into_iter().flatten().map(|fd| fd.as_raw_fd())
}

/// The same link on a network like this.
///
/// # Errors
/// No descriptor is left.
pub(crate) fn emulate(link: Box<dyn Link>, network: Emulation) -> Result<Box<dyn Link>, Errno> {
    Ok(Box::new(Emulated::new(link, network)?))
}

/// A listening socket that does not block.
pub(crate) struct Listener {
    socket: OwnedFd,
    backend: &'static dyn Backend,
    tls: Option<Tls>,
}

impl Listener {
    /// The next connection.
    pub(crate) fn accept(&self) -> Result<Box<dyn Link>, Errno> {
        let link = self.backend.accept(self.socket.as_fd())?;
        Ok(match &self.tls {
            Some(tls) => tls.accepted(link),
            None => link,
        })
    }

    /// Nobody is let in any more: who comes is worth no handshake of TLS.
    pub(crate) fn refusing(self) -> Self {
        Self { tls: None, ..self }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
