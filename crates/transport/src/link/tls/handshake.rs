//! The handshake of a TLS connection, over a socket that does not block.

use super::records::{Key, MOST_RECORD};
use super::traffic::{Keys, Receiving, Sending};
use crate::handshake::Refusal;
use crate::link::socket;
use crate::span::Span;
use core::task::Poll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CertificateError, Error, ExtractedSecrets};

#[expect(unsafe_code, reason = "a socket is read and written by address")]
mod io {
    use super::*;

    /// Sends all; a fresh socket takes the few thousand bytes of a handshake.
    pub(super) fn send(socket: &OwnedFd, bytes: &[u8]) -> Result<(), Refusal> {
        // SAFETY: the span is a reference.
        let sent = unsafe { socket::send(socket, &mut [Span::of(bytes)]) };
        if sent == Ok(bytes.len()) { Ok(()) } else { Err(Refusal::Cut) }
    }

    pub(super) fn receive(socket: &OwnedFd, room: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the span is a reference that nobody else has.
        unsafe { socket::receive(socket, &mut [Span::of_mut(room)]) }
    }
}

/// Read from the socket at once.
const READ: usize = 4 << 10;

/// Who began.
pub(super) enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

/// A handshake under way.
pub(super) struct Handshake {
    side: Side,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// What the peer has said right behind its last message.
    early: Vec<u8>,
}

/// What a handshake leads to.
pub(super) struct Established {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) sending: Sending,
    pub(super) receiving: Receiving,
    pub(super) keys: Box<dyn Keys>,
}

enum Next {
    Go,
    Read,
    Done,
    Failed(Refusal),
}

impl Handshake {
    pub(super) fn new(side: Side) -> Self {
        Self { side, incoming: Vec::new(), outgoing: Vec::new(), early: Vec::new() }
    }

    /// Goes on as far as it can without waiting; true once it is over, and [`Handshake::end`] gives the result.
    pub(super) fn advance(&mut self, socket: &OwnedFd) -> Poll<Result<(), Refusal>> {
        loop {
            match self.step() {
                Next::Go => {}
                Next::Done => return Poll::Ready(self.flush(socket)),
                Next::Read => {
                    if let Err(why) = self.flush(socket) {
                        return Poll::Ready(Err(why));
                    }
                    let mut room = [0; READ];
                    match io::receive(socket, &mut room) {
                        Ok(got @ 1..) if self.incoming.len() + got <= MOST_RECORD + READ => {
                            self.incoming.extend_from_slice(&room[..got]);
                        }
                        Ok(1..) => return Poll::Ready(Err(Refusal::Plain)),
                        Err(Errno::AGAIN | Errno::INTR) => return Poll::Pending,
                        Ok(0) | Err(_) => return Poll::Ready(Err(Refusal::Cut)),
                    }
                }
                Next::Failed(why) => {
                    // The alert that tells the peer. What came is wrong, and not to be looked at again: once.
                    self.step();
                    let _ = self.flush(socket);
                    return Poll::Ready(Err(why));
                }
            }
        }
    }

    fn flush(&mut self, socket: &OwnedFd) -> Result<(), Refusal> {
        let outgoing = core::mem::take(&mut self.outgoing);
        if outgoing.is_empty() { Ok(()) } else { io::send(socket, &outgoing) }
    }

    fn step(&mut self) -> Next {
        let Self { side, incoming, outgoing, early } = self;
        let (discard, next) = match side {
            Side::Client(client) => take(client.process_tls_records(incoming), outgoing, early),
            Side::Server(server) => take(server.process_tls_records(incoming), outgoing, early),
        };
        incoming.drain(..discard);
        next
    }

    /// The connection, after the handshake is over.
    pub(super) fn end(self) -> Result<Established, Refusal> {
        let broken = |_: Error| Refusal::Tls;
        let certificate = match &self.side {
            Side::Client(client) => client.peer_certificates(),
            Side::Server(server) => server.peer_certificates(),
        };
        let certificate = certificate.and_then(<[_]>::first).cloned();
        let certificate = certificate.ok_or(Refusal::NoCertificate)?.into_owned();
        let (secrets, keys): (ExtractedSecrets, Box<dyn Keys>) = match self.side {
            Side::Client(client) => {
                let (secrets, keys) = client.dangerous_into_kernel_connection().map_err(broken)?;
                (secrets, Box::new(keys))
            }
            Side::Server(server) => {
                let (secrets, keys) = server.dangerous_into_kernel_connection().map_err(broken)?;
                (secrets, Box::new(keys))
            }
        };
        let sending = Sending::new(Key::new(secrets.tx).ok_or(Refusal::Tls)?);
        let key = Key::new(secrets.rx).ok_or(Refusal::Tls)?;
        let receiving = Receiving::new(key, &self.early, &self.incoming);
        Ok(Established { certificate, sending, receiving, keys })
    }
}

/// Does what rustls asks for; how many bytes of what came are done with.
fn take<Side>(
    UnbufferedStatus { discard, state }: UnbufferedStatus<'_, '_, Side>,
    outgoing: &mut Vec<u8>,
    early: &mut Vec<u8>,
) -> (usize, Next) {
    let next = match state {
        Err(error) => Next::Failed(refusal(&error)),
        Ok(ConnectionState::EncodeTlsData(mut message)) => {
            let start = outgoing.len();
            if let Err(EncodeError::InsufficientSize(size)) = message.encode(&mut []) {
                outgoing.resize(start + size.required_size, 0);
            }
            let encoded = message.encode(&mut outgoing[start..]);
            if encoded.is_ok() { Next::Go } else { Next::Failed(Refusal::Tls) }
        }
        Ok(ConnectionState::TransmitTlsData(message)) => {
            // It is in `outgoing`, which goes before anything is waited for.
            message.done();
            Next::Go
        }
        Ok(ConnectionState::ReadTraffic(mut records)) => {
            while let Some(Ok(record)) = records.next_record() {
                early.extend_from_slice(record.payload);
            }
            Next::Go
        }
        Ok(ConnectionState::BlockedHandshake) => Next::Read,
        Ok(ConnectionState::WriteTraffic(_)) => Next::Done,
        Ok(_) => Next::Failed(Refusal::Cut),
    };
    (discard, next)
}

/// Why the peer is no node of this job, as far as its part of the handshake tells.
fn refusal(error: &Error) -> Refusal {
    use CertificateError as Wrong;
    if let Error::InvalidCertificate(why) = error {
        let old = matches!(
            why,
            Wrong::Expired
                | Wrong::ExpiredContext { .. }
                | Wrong::NotValidYet
                | Wrong::NotValidYetContext { .. }
        );
        return if old { Refusal::Expired } else { Refusal::Certificate };
    }
    if matches!(error, Error::InvalidMessage(_)) {
        return Refusal::Plain;
    }
    if matches!(error, Error::PeerIncompatible(_)) {
        return Refusal::OldTls;
    }
    if matches!(error, Error::NoCertificatesPresented) {
        return Refusal::NoCertificate;
    }
    if matches!(error, Error::AlertReceived(_)) {
        return Refusal::Alert;
    }
    Refusal::Tls
}
