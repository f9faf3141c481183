//! Unauthenticated connections: how many there may be and for how long, how they are turned away, and those that come after
//! boot.
//!
//! Role: called by `rendezvous` for its bounds, and by the receiving thread when the listener is readable. Bounded: at most
//! [`REFUSED_AT_ONCE`] connections per event, no system call here sleeps, and a flood of connections is no
//! flood of lines.
#![expect(unsafe_code, reason = "links receive into raw memory")]

use crate::address::Address;
use crate::handshake::{self, HELLO_BYTES, Identity, Refusal};
use crate::link::{Close, Link, Listener};
use crate::span::Span;
use core::task::Poll;
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::io::Errno;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};

/// How long an unauthenticated connection may take for its HELLO, and so much longer for each node of the
/// job: the nodes of a host compete for its processors while they start.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_FOR_EACH: Duration = Duration::from_millis(50);
/// Unauthenticated connections at once; one more drops the oldest. From the nodes' own hosts there may be one of each node
/// besides.
const MOST: usize = 64;
/// Connections accepted at a rendezvous in one round, so that a flood of them holds up no peer.
pub(crate) const ACCEPTED_AT_ONCE: usize = 16;
/// Connections accepted after boot at once, all to be refused.
const REFUSED_AT_ONCE: usize = 4;
/// Lines about refused connections of one node: one for each caller and reason.
const TOLD: usize = 12;
/// What the last of them says besides.
const LAST: &str = "; nothing is said of what else this node refuses";

/// How long a connection may take for its HELLO in a job of so many nodes.
pub(crate) fn handshake_timeout(nodes: u16) -> Duration {
    PATIENCE + PATIENCE_FOR_EACH * nodes.into()
}

/// Unauthenticated connections at once in a job of so many nodes: of outsiders, or of the hosts of nodes.
pub(crate) fn most(nodes: u16, is_outsider: bool) -> usize {
    if is_outsider { MOST } else { MOST + usize::from(nodes) }
}

/// Where a connection is from that describes itself so, if it is from a network.
fn origin(description: &str) -> Option<IpAddr> {
    let address: SocketAddr = description.parse().ok()?;
    Some(address.ip().to_canonical())
}

/// Whether a connection comes from where no node of the job is.
pub(crate) fn is_outsider(link: &dyn Link, peers: &[Address]) -> bool {
    let Some(from) = origin(&link.describe()) else { return false };
    !peers.iter().any(|peer| matches!(peer, Address::Tcp(at) if at.ip().to_canonical() == from))
}

/// Whom this node has refused, and why, as far as it has told: hashes of that, or zeros.
#[derive(Debug, Default)]
pub(crate) struct Refusals([AtomicU64; TOLD]);

impl Refusals {
    /// The line about one more, if nobody from there was refused for that, and not too many were. Whatever port it is from, and
    /// whatever process.
    pub(crate) fn line(&self, description: &str, why: &str) -> Option<String> {
        let user = description.split_once(" of user ").map_or(description, |(_, user)| user);
        let mut hasher = DefaultHasher::new();
        match origin(description) {
            Some(address) => (address, why).hash(&mut hasher),
            None => (user, why).hash(&mut hasher),
        }
        let hash = hasher.finish().max(1);
        for (told, slot) in (1..).zip(&self.0) {
            match slot.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let last = if told == TOLD { LAST } else { "" };
                    return Some(format!("refused a connection from {description}: {why}{last}"));
                }
                Err(told) if told == hash => return None,
                Err(_) => {}
            }
        }
        None
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
    let line = refusals.line(&link.describe(), &why.to_string());
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
    fn a_caller_gets_one_line_for_each_reason_whatever_its_port_or_process() {
        let refusals = Refusals::default();
        let told = |who: &str, why: &str| refusals.line(who, why).is_some();
        assert!(told("10.0.0.9:4000", "silent") && !told("10.0.0.9:4001", "silent"));
        assert!(told("10.0.0.9:4002", "no secret") && told("[fd00::9]:4000", "silent"));
        assert!(told("process 7 of user 5", "another user"));
        assert!(!told("process 8 of user 5", "another user"));
        let line = "refused a connection from 10.0.0.8:1: silent".to_owned();
        assert_eq!(refusals.line("10.0.0.8:1", "silent"), Some(line));
    }

    #[test]
    fn many_callers_get_a_few_lines() {
        let refusals = Refusals::default();
        let who = |number: u32| format!("10.0.{}.{}:4000", number >> 8, number & 255);
        let lines = (0..65_536).filter_map(|number| refusals.line(&who(number), "silent"));
        let lines: Vec<String> = lines.collect();
        assert_eq!(lines.len(), TOLD);
        let last: Vec<bool> = lines.iter().map(|line| line.ends_with(LAST)).collect();
        assert_eq!(last.iter().position(|&last| last), Some(TOLD - 1));
    }
}
