//! The receiving side's interface: who gets the frames, and where their payloads go.
#![expect(unsafe_code, reason = "an implementation vouches for the raw places it names")]

use crate::frame_header::Header;
use core::fmt;
use multigrain_types::NodeId;
use multigrain_types::phrases::{BEYOND_LIMIT, BROKE_PROTOCOL};
use rustix::io::Errno;

/// Where the bytes of a payload go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Exactly `header.payload` bytes to this address.
    At(*mut u8),
    /// Into a buffer that [`Sink::frame`] sees; at most [`crate::MAX_BUFFER`] bytes.
    Buffer,
}

/// Why a link is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// The peer said goodbye.
    Left,
    /// The connection ended without a goodbye: the peer or its host is dead.
    Died,
    /// The connection failed: the peer's host does not answer.
    Failed(Errno),
    /// The peer sent what it must not; in words. This node has closed the link.
    Violation(String),
    /// Its program uses more than a node may; in words. This node has closed the link.
    BeyondLimit(String),
    /// No link to it could be made; in words that name it.
    Unreached(String),
}

impl fmt::Display for LostReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => write!(out, "left the job"),
            Self::Died => write!(out, "its connection ended without a goodbye"),
            // Of a link over TLS alone.
            Self::Failed(Errno::BADMSG) => {
                write!(out, "{BROKE_PROTOCOL}: bytes on its encrypted link that it has not sealed")
            }
            Self::Failed(errno) => write!(out, "its connection failed: {errno}"),
            Self::Violation(what) => write!(out, "{BROKE_PROTOCOL}: {what}"),
            Self::BeyondLimit(what) => write!(out, "{BEYOND_LIMIT}: {what}"),
            Self::Unreached(why) => out.write_str(why),
        }
    }
}

/// Who receives the frames. Called by [`crate::Mesh::receive`], in its thread; may send, may not
/// receive.
///
/// # Safety
/// An address that `place` returns in [`Destination::At`] must be writable for `header.payload` bytes,
/// with no reference into it, until `frame` or `lost` was called for that link.
pub unsafe trait Sink {
    /// The header of a frame with a payload is here: where shall its `header.payload` (> 0)
    /// bytes go? Of a member of a batch, this is asked when all members before it are delivered.
    ///
    /// # Errors
    /// What the peer did wrong, in words; the link is closed and `lost` called.
    fn place(&mut self, from: NodeId, header: &Header) -> Result<Destination, String>;

    /// More bytes of a payload have come, after frames of other peers perhaps, and are about to go to the place that it was
    /// given with its header.
    ///
    /// # Errors
    /// The place is not for it any more, in words; nothing is written there, the link is closed and `lost` called.
    fn goes_on(&mut self, _from: NodeId, _header: &Header) -> Result<(), String> {
        Ok(())
    }

    /// A frame is complete; `body` is there when `place` asked for a buffer.
    ///
    /// # Errors
    /// What the peer did wrong, in words; the link is closed and `lost` called.
    fn frame(&mut self, from: NodeId, header: &Header, body: Option<&[u8]>) -> Result<(), String>;

    /// The link to this peer is no more. Called once per peer.
    fn lost(&mut self, from: NodeId, reason: LostReason);

    /// An unauthenticated connection was refused; one line for the log.
    fn refused(&mut self, line: String);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sealed_is_a_breach_of_the_protocol_in_words() {
        let said = LostReason::Failed(Errno::BADMSG).to_string();
        assert_eq!(said, "broke the protocol: bytes on its encrypted link that it has not sealed");
        let said = LostReason::Failed(Errno::TIMEDOUT).to_string();
        assert!(said.starts_with("its connection failed: "), "{said}");
    }
}
