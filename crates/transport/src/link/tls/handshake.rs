//! The handshake of a TLS connection, over a link.

use super::records::{HEADER, Key, MOST_RECORD};
use super::traffic::{Keys, Receiving, Sending};
use crate::handshake::Refusal;
use crate::link::Link;
use crate::span::Span;
use core::task::Poll;
use rustix::io::Errno;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{CertificateError, Error, ExtractedSecrets};

#[expect(unsafe_code, reason = "a link is read and written by address")]
mod io {
    use super::*;

    /// Sends all; a fresh socket takes the few thousand bytes of a handshake.
    pub(super) fn send(stream: &dyn Link, bytes: &[u8]) -> Result<(), Refusal> {
        // SAFETY: the span is a reference.
        let sent = unsafe { stream.send(&mut [Span::of(bytes)]) };
        if sent == Ok(bytes.len()) { Ok(()) } else { Err(Refusal::Cut) }
    }

    pub(super) fn receive(stream: &dyn Link, room: &mut [u8]) -> Result<usize, Errno> {
        // SAFETY: the span is a reference that nobody else has.
        unsafe { stream.receive(&mut [Span::of_mut(room)]) }
    }
}

/// Read from the socket at once.
const READ: usize = 4 << 10;
/// The most that is kept of what came: a message may be cut into many records.
const MOST_KEPT: usize = 1 << 17;

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
    /// What is to be read next: not a byte beyond the handshake.
    piece: Piece,
    /// Bytes of it that are still to come.
    missing: usize,
}

/// A record is read in two pieces.
enum Piece {
    Header,
    Body,
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
        let (incoming, outgoing) = (Vec::new(), Vec::new());
        Self { side, incoming, outgoing, piece: Piece::Header, missing: HEADER }
    }

    /// Goes on as far as it can without waiting; true once it is over, and [`Handshake::end`] gives the result.
    pub(super) fn advance(&mut self, stream: &dyn Link) -> Poll<Result<(), Refusal>> {
        loop {
            match self.step() {
                Next::Go => {}
                Next::Done => return Poll::Ready(self.flush(stream)),
                Next::Read => {
                    if let Err(why) = self.flush(stream) {
                        return Poll::Ready(Err(why));
                    }
                    match self.read_record(stream) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
                        Poll::Pending => return Poll::Pending,
                    }
                }
                Next::Failed(why) => {
                    // The alert that tells the peer. What came is wrong, and not to be looked at again: once.
                    self.step();
                    let _ = self.flush(stream);
                    return Poll::Ready(Err(why));
                }
            }
        }
    }

    /// Reads to the end of the record that comes next.
    fn read_record(&mut self, stream: &dyn Link) -> Poll<Result<(), Refusal>> {
        let mut room = [0; READ];
        loop {
            let asked = self.missing.min(READ);
            match io::receive(stream, &mut room[..asked]) {
                Ok(got @ 1..) if self.incoming.len() + got <= MOST_KEPT => {
                    self.incoming.extend_from_slice(&room[..got]);
                    self.missing -= got;
                }
                Err(Errno::AGAIN | Errno::INTR) => return Poll::Pending,
                Ok(1..) => return Poll::Ready(Err(Refusal::Plain)),
                Ok(0) | Err(_) => return Poll::Ready(Err(Refusal::Cut)),
            }
            match self.piece {
                Piece::Body if self.missing == 0 => {
                    (self.piece, self.missing) = (Piece::Header, HEADER);
                    return Poll::Ready(Ok(()));
                }
                Piece::Body => {}
                Piece::Header => {
                    let start = self.incoming.len() + self.missing - HEADER;
                    let length = match self.incoming[start..] {
                        [20..=23, 3, _, high, low] => usize::from(u16::from_be_bytes([high, low])),
                        [20..=23] | [20..=23, 3] | [20..=23, 3, _] | [20..=23, 3, _, _] => continue,
                        _ => return Poll::Ready(Err(Refusal::Plain)),
                    };
                    if length == 0 || length > MOST_RECORD {
                        return Poll::Ready(Err(Refusal::Plain));
                    }
                    (self.piece, self.missing) = (Piece::Body, length);
                }
            }
        }
    }

    fn flush(&mut self, stream: &dyn Link) -> Result<(), Refusal> {
        let outgoing = core::mem::take(&mut self.outgoing);
        if outgoing.is_empty() { Ok(()) } else { io::send(stream, &outgoing) }
    }

    fn step(&mut self) -> Next {
        let Self { side, incoming, outgoing, .. } = self;
        let (discard, next) = match side {
            Side::Client(client) => take(client.process_tls_records(incoming), outgoing),
            Side::Server(server) => take(server.process_tls_records(incoming), outgoing),
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
        let receiving = Receiving::new(key);
        Ok(Established { certificate, sending, receiving, keys })
    }
}

/// Does what rustls asks for; how many bytes of what came are done with.
fn take<Side>(
    UnbufferedStatus { discard, state }: UnbufferedStatus<'_, '_, Side>,
    outgoing: &mut Vec<u8>,
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
