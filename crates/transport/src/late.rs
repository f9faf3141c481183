//! Strangers that connect after boot: refused, never waited for.
//!
//! Role: called by the receiving thread when the listener is readable. Bounded: at most
//! [`AT_ONCE`] strangers per event, no system call here sleeps, and a flood of strangers is no
//! flood of lines.

use crate::boot::{same_user, turn_away};
use crate::handshake::{self, HELLO_BYTES, Identity, Refusal};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SocketFlags};
use std::sync::atomic::{AtomicU64, Ordering};

const AT_ONCE: usize = 4;
/// Refusals with a line each; later ones get one when their number has doubled.
const TOLD: u64 = 12;

/// How many strangers this node has refused.
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
pub(crate) fn is_strangers_own(errno: Errno) -> bool {
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
    listener: &OwnedFd,
    own: &Identity,
    refusals: &Refusals,
    refused: &mut dyn FnMut(String),
) -> Result<(), Errno> {
    for _ in 0..AT_ONCE {
        match net::accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(stranger) => {
                let why = verdict(&stranger, own);
                if let Some(line) = turn_away(&stranger, own.rank, why, refusals) {
                    refused(line);
                }
            }
            Err(Errno::AGAIN) => return Ok(()),
            Err(errno) if is_strangers_own(errno) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The best reason to name, from what the stranger has said so far.
fn verdict(stranger: &OwnedFd, own: &Identity) -> Refusal {
    if let Err(why) = same_user(stranger.as_fd()) {
        return why;
    }
    let mut said = [0; HELLO_BYTES];
    let heard = match net::recv(stranger, &mut said, RecvFlags::DONTWAIT) {
        Ok((bytes, _)) => bytes,
        Err(_) => 0,
    };
    match handshake::judge(&said[..heard], own, |_| true) {
        Ok(_) => Refusal::Complete,
        Err(why) => why,
    }
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
