//! Strangers that connect after boot: refused with one line each, never waited for.
//!
//! Role: called by the receiving thread when the listener is readable. Bounded: at most
//! [`AT_ONCE`] strangers per event, and no system call here sleeps.

use crate::boot::{same_user, turn_away};
use crate::handshake::{self, HELLO_BYTES, Identity, Refusal};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SocketFlags};

const AT_ONCE: usize = 4;

/// Accepts and refuses who is waiting. An error means that the listener is of no use any more.
pub(crate) fn refuse_waiting(
    listener: &OwnedFd,
    own: &Identity,
    refused: &mut dyn FnMut(String),
) -> Result<(), Errno> {
    for _ in 0..AT_ONCE {
        match net::accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(stranger) => refused(turn_away(&stranger, own.rank, verdict(&stranger, own))),
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::CONNABORTED | Errno::INTR) => {}
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
