//! Links: one stream of bytes to one peer, whatever carries it.
//!
//! Role: [`Link`] is all that the rest of the crate knows of a connection, and [`Backend`] makes links.
//! A backend is one file here and one line in [`Backends`], which says what serves an address (a new
//! kind of address is a variant of [`Address`] first); every backend passes `conformance.rs`. The rest of the
//! crate neither asks which backend it has nor touches the descriptor but to sleep on it.
//!
//! A link may hold bytes of its own between the stream and the socket (encryption does): see
//! [`Link::send`] and [`Link::holds_input`]. Dispatch is dynamic: an indirect call a system call.
#![expect(unsafe_code, reason = "links send from and receive into raw memory")]

mod emulated;
mod socket;
mod tcp;
mod tls;
mod unix;

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom", feature = "mutants"))))]
mod conformance;

use crate::address::{Address, Ports};
use crate::credentials::{Credentials, CredentialsError};
use crate::emulation::Emulation;
use crate::error::TransportError;
use crate::handshake::Refusal;
use crate::span::Span;
use core::fmt;
use core::task::Poll;
use core::time::Duration;
use emulated::Emulated;
use multigrain_types::NodeId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::net::IpAddr;
use std::sync::Arc;
use tcp::Tcp;
use tls::Tls;
use unix::Unix;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use tls::Tls as TlsBackend;
#[cfg(any(feature = "shuttle", feature = "mutants", feature = "fuzzing", test))]
pub(crate) use unix::pair;

/// The backends of a node. The first that serves an address makes its links.
pub(crate) struct Backends(Vec<Arc<dyn Backend>>);

impl Backends {
    /// Those that need nothing, and encrypt nothing.
    pub(crate) fn plain() -> Self {
        Self(vec![Arc::new(Unix), Arc::new(Tcp)])
    }

    /// Those of a node of this job; with credentials, whatever leaves the host is encrypted.
    pub(crate) fn new(job: u128, own: Option<&Credentials>) -> Result<Self, CredentialsError> {
        let Some(own) = own else { return Ok(Self::plain()) };
        Ok(Self(vec![Arc::new(Unix), Arc::new(Tls::new(job, own)?)]))
    }

    /// Who makes the links of an address.
    fn serving(&self, address: &Address) -> Result<&Arc<dyn Backend>, Errno> {
        self.0.iter().find(|backend| backend.serves(address)).ok_or(Errno::AFNOSUPPORT)
    }

    /// Begins to connect; see [`Backend::connect`].
    pub(crate) fn connect(
        &self,
        address: &Address,
        patience: Duration,
    ) -> Result<Box<dyn Link>, Errno> {
        self.serving(address)?.connect(address, patience)
    }

    /// A socket that listens, at an address that some backend serves; it does not block from now on.
    pub(crate) fn listener(&self, socket: OwnedFd) -> Result<Listener, Errno> {
        let backend = Arc::clone(self.serving(&socket::address(&socket)?)?);
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Listener { socket, backend })
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
    fn timer(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether it takes input from what [`Link::readiness`] shows: while it does not, its [`Link::timer`] tells when to
    /// receive again. It changes only as it receives.
    fn takes_input(&self) -> bool {
        true
    }

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

    /// Ends the link with an error if the other end's host does not take what was sent, and has not answered at all
    /// for some seconds: to be called a few times a second. It has no default, for a link over another passes it on.
    fn look_after(&self);

    /// What the transport itself proves about the other end, before that has said anything: nothing is sent or
    /// received until it is ready. While it is not, it is asked again whenever the link is readable. It has no
    /// default: a link says itself that it proves nothing.
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
    fn proves_rank(&self) -> bool {
        false
    }

    /// Who is at the other end, in words, for one line of a log.
    fn describe(&self) -> String;
}

/// One sort of links.
pub(crate) trait Backend: Send + Sync {
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

/// The same link on a network like this.
///
/// # Errors
/// No descriptor is left.
pub(crate) fn emulate(link: Box<dyn Link>, network: Emulation) -> Result<Box<dyn Link>, Errno> {
    Ok(Box::new(Emulated::new(link, network)?))
}

/// A listening socket (close-on-exec) at `address`, and the address with its port resolved.
///
/// # Errors
/// [`TransportError::Bind`] when the kernel does not give it.
pub fn bind(address: &Address) -> Result<(OwnedFd, Address), TransportError> {
    Backends::plain()
        .serving(address)
        .and_then(|backend| backend.listen(address))
        .map_err(|errno| TransportError::Bind { address: address.clone(), errno })
}

/// A listening socket at a port that is free at this address: of these, if the user has named some.
///
/// # Errors
/// [`TransportError::Bind`] when the kernel does not give it, [`TransportError::NoPort`] when all are taken.
pub fn bind_within(at: IpAddr, ports: Option<Ports>) -> Result<(OwnedFd, Address), TransportError> {
    let bind = |port| bind(&Address::Tcp((at, port).into()));
    let Some(ports) = ports else { return bind(0) };
    let is_taken = |error: &TransportError| {
        matches!(error, TransportError::Bind { errno: Errno::ADDRINUSE, .. })
    };
    let mut tried = ports.all().map(bind);
    tried
        .find(|bound| !bound.as_ref().is_err_and(is_taken))
        .unwrap_or(Err(TransportError::NoPort { at, ports }))
}

/// A listening socket that does not block.
pub(crate) struct Listener {
    socket: OwnedFd,
    backend: Arc<dyn Backend>,
}

impl Listener {
    /// The next connection.
    pub(crate) fn accept(&self) -> Result<Box<dyn Link>, Errno> {
        self.backend.accept(self.socket.as_fd())
    }

    /// Nobody is let in any more: who comes is worth no handshake of the link's own.
    pub(crate) fn refusing(self) -> Result<Self, Errno> {
        Backends::plain().listener(self.socket)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
