//! Payloads in parts, each acknowledged before the next is sent: the handshake that MIRAGE+ measures blasting against (3.1, 3.2).
//!
//! Role: the only place that knows how such a payload lies on the wire. Without it a payload follows its header as one stream,
//! of which the link takes as much as fits and the receiver places whatever has come. With it, a frame whose payload is longer
//! than a part is
//!
//! | frame | kind | what |
//! |---|---|---|
//! | a notice | [`PARTED`] | the payload of the next frame comes in parts |
//! | the frame | its own | its header alone, with the length of the whole payload |
//! | each part | [`PART`] | so many bytes of it; all but the first wait for the [`PART_TAKEN`] of the one before |
//!
//! Between parts nothing is sent but the acknowledgements of the peer's parts, so that two nodes that send to each other both
//! go on. The last part needs no acknowledgement: nothing waits for it. Batches, whose members are small, go as ever.

use super::payload::{Payload, Piece};
use super::queue::{Cause, Queue};
use crate::frame_header::{Header, PART, PART_TAKEN, PARTED};
use crate::span::Raw;

/// The acknowledgement of a part, from this node.
pub(super) fn taken(from: u16) -> Header {
    Header { kind: PART_TAKEN, from, ..Header::default() }
}

/// Queues a frame whose payload is cut into parts of so many bytes.
pub(super) fn queue(
    queue: &mut Queue,
    header: &[u8; Header::BYTES],
    payload: Payload<'_>,
    part: usize,
    cause: Cause,
) {
    let from = Header::decode(header).map_or(0, |header| header.from);
    let own = |kind, payload| Header { kind, from, payload, ..Header::default() }.encode();
    queue.push(&own(PARTED, 0), Payload::None, cause);
    queue.push(header, Payload::None, cause);
    let whole = payload.span().len();
    for at in (0..whole).step_by(part) {
        let bytes = at..whole.min(at + part);
        let own = own(PART, bytes.len() as u64);
        let piece = match &payload {
            Payload::None => return,
            Payload::Memory { ptr, .. } => {
                let start = Raw(ptr.cast_mut().wrapping_add(at));
                Piece::Memory { start, len: bytes.len() }
            }
            Payload::Owned(all) => Piece::Owned(all[bytes].to_vec()),
            Payload::Bytes(all) => Piece::Owned(all[bytes].to_vec()),
        };
        queue.push_part(own, piece, at > 0, cause);
    }
}
