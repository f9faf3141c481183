//! Unauthenticated connections: how many there may be and for how long, how they are turned away, and those that come after
//! boot.
//!
//! Role: called by `rendezvous` for its bounds, and by the receiving thread when the listener is readable. Bounded: at most
//! [`REFUSED_AT_ONCE`] connections per event, no system call here sleeps, and a flood of connections is no
//! flood of lines.
#![expect(unsafe_code, reason = "links receive into raw memory")]

use crate::handshake::{self, HELLO_BYTES, Identity, Refusal};
use crate::link::{Close, Link, Listener};
use crate::span::Span;
use core::task::Poll;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long an unauthenticated connection may take for its HELLO, and so much longer for each node of the
/// job: the nodes of a host compete for its processors while they start.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_FOR_EACH: Duration = Duration::from_millis(50);
/// Unauthenticated connections at once, beyond one of each node; one more drops the oldest.
const MOST: usize = 64;
/// Connections accepted at a rendezvous in one round, so that a flood of them holds up no peer.
pub(crate) const ACCEPTED_AT_ONCE: usize = 16;
/// Connections accepted after boot at once, all to be refused.
const REFUSED_AT_ONCE: usize = 4;
/// Refusals with a line each; later ones get one when their number has doubled.
const TOLD: u64 = 12;

/// How long a connection may take for its HELLO in a job of so many nodes.
pub(crate) fn handshake_timeout(nodes: u16) -> Duration {
    PATIENCE + PATIENCE_FOR_EACH * nodes.into()
}

/// Unauthenticated connections at once in a job of so many nodes.
pub(crate) fn most(nodes: u16) -> usize {
    MOST + usize::from(nodes)
}

/// How many connections this node has refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals(AtomicU64);

impl Refusals {
    /// Counts one more; the line about it, if it gets one.
    pub(crate) fn line(&self, line: impl FnOnce() -> String) -> Option<String> {
        match self.0.fetch_add(1, Ordering::Relaxed) + 1 {
            ..=TOLD => Some(line()),
            count if count.is_power_of_two() => {
                Some(format!("{} ({count} refused so far)", line()))
            }
            _ => None,
        }
    }
}

/// Errors of `accept` that speak of the one connection, not of the listener (see accept(2)).
pub(crate) fn is_of_one_connection(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::CONNABORTED
            | Errno::INTR
            | Errno::NETDOWN
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETUNREACH
            | Errno::PERM
    )
}

/// Accepts and refuses who is waiting. An error means that the listener is of no use any more.
pub(crate) fn refuse_waiting(
    listener: &Listener,
    own: &Identity,
    refusals: &Refusals,
    refused: &mut dyn FnMut(String),
) -> Result<(), Errno> {
    for _ in 0..REFUSED_AT_ONCE {
        match listener.accept() {
            Ok(link) => {
                let why = verdict(&*link, own);
                if let Some(line) = turn_away(&*link, own.rank, why, refusals) {
                    refused(line);
                }
            }
            Err(Errno::AGAIN) => return Ok(()),
            Err(errno) if is_of_one_connection(errno) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The best reason to name, from what has been said so far.
fn verdict(link: &dyn Link, own: &Identity) -> Refusal {
    if let Poll::Ready(Err(why)) = link.authenticate() {
        return why;
    }
    let mut said = [0; HELLO_BYTES];
    let got = receive_bytes(link, &mut said).unwrap_or(0);
    match handshake::judge(&said[..got], own, |peer| handshake::only_higher(own.rank, peer, true)) {
        Ok(_) | Err(Refusal::Encrypted) => Refusal::Complete,
        Err(why) => why,
    }
}

/// Tells who connected why it may not come in, hangs up, and returns the line for the log, if this one
/// gets a line.
pub(crate) fn turn_away(
    link: &dyn Link,
    own: NodeId,
    why: Refusal,
    refusals: &Refusals,
) -> Option<String> {
    let line = refusals.line(|| format!("refused a connection from {}: {why}", link.describe()));
    send_bytes(link, &handshake::refused(own, why));
    link.close(Close::Both);
    line
}

/// Sends a frame of the handshake, which a fresh link always takes whole; whether it did.
pub(crate) fn send_bytes(link: &dyn Link, frame: &[u8]) -> bool {
    // SAFETY: the span is a reference.
    unsafe { link.send(&mut [Span::of(frame)]) == Ok(frame.len()) }
}

/// Receives what is there into `room`.
pub(crate) fn receive_bytes(link: &dyn Link, room: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the span is a reference, which nobody else has.
    unsafe { link.receive(&mut [Span::of_mut(room)]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "a million steps are too many for Miri")]
    fn a_million_refusals_get_a_few_lines_and_the_last_says_how_many() {
        let refusals = Refusals::default();
        let lines: Vec<String> =
            (0..1 << 20).filter_map(|_| refusals.line(|| "refused".to_owned())).collect();
        assert_eq!(lines.len(), 12 + 17);
        assert_eq!(lines[11], "refused");
        assert_eq!(lines[28], "refused (1048576 refused so far)");
    }
}
