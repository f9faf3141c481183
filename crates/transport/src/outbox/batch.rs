//! Batches: frames that travel as one message.
//!
//! Role: the only place that knows how a batch lies on the wire: a frame of kind [`BATCH`] whose
//! payload is whole frames, header and payload each, one right after the other. What is told
//! together at a release costs one message that way, as the papers count it, and one header more.
//!
//! What does not fit into one goes as several, and all but the last say that more follows: the receiver
//! defers its replies until that has come, and a flush of many diffs gets one.
//!
//! Invariant: the transport's own frames are never members. What is read is checked member by
//! member; those before a wrong one are good.

use crate::frame_header::{BATCH, Header, LAST_KIND, MAX_BUFFER};

/// Flag of a batch: its sender has more to send, and does at once.
pub(crate) const MORE_FOLLOWS: u8 = 1;
/// A batch of so many bytes takes no more members.
const FULL: usize = 64 << 10;
/// Nor does one of so many, however short: the peer works on them while the next are made.
const MOST_MEMBERS: usize = 128;
/// The longest payload of a batch, in bytes: it was not full before the last member, whose payload
/// the receiver takes into a buffer like any other.
pub(crate) const MAX_BATCH: u64 = FULL as u64 + Header::BYTES as u64 + MAX_BUFFER;
/// The longest payload that is copied to join a batch, instead of following it, in bytes.
pub(crate) const MAX_JOINING: usize = 4 << 10;
/// The most memory that an empty batch keeps, in bytes.
pub(crate) const SPARE_BYTES: usize = 4 * FULL;

/// Deferred frames that travel together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Frames that go before it, room for its own header, and its members.
    bytes: Vec<u8>,
    /// Where that room begins.
    own: usize,
    members: usize,
    /// Where the last one begins.
    last: usize,
    /// Who sends it.
    from: u16,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.members == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() - self.own >= FULL || self.members >= MOST_MEMBERS
    }

    /// Bytes of all, before it is sealed or after.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn members(&self) -> usize {
        self.members
    }

    /// Starts behind frames that are no members, in the same go.
    pub(crate) fn follow(&mut self, frames: &[u8]) {
        debug_assert!(self.is_empty(), "they would overtake its members");
        self.bytes.extend_from_slice(frames);
        self.own = frames.len();
    }

    /// One more member, whose payload `fill` appends to what it is given; returns the payload's
    /// length in bytes.
    pub(crate) fn add(&mut self, header: Header, fill: impl FnOnce(&mut Vec<u8>)) -> usize {
        if self.is_empty() {
            self.bytes.resize(self.own + Header::BYTES, 0);
        }
        let start = self.bytes.len();
        self.bytes.resize(start + Header::BYTES, 0);
        fill(&mut self.bytes);
        let payload = self.bytes.len() - start - Header::BYTES;
        let header = Header { payload: payload as u64, ..header };
        self.bytes[start..start + Header::BYTES].copy_from_slice(&header.encode());
        self.members += 1;
        self.last = start;
        self.from = header.from;
        payload
    }

    /// Changes the header of the last member as `merge` says, which gets it; true if it says so. A
    /// member with a payload stays as it is.
    pub(crate) fn merge_last(&mut self, merge: impl FnOnce(&Header) -> Option<Header>) -> bool {
        let last = &mut self.bytes[self.last..];
        if self.members == 0 || last.len() > Header::BYTES {
            return false;
        }
        let Some(merged) = Header::decode(last).ok().as_ref().and_then(merge) else { return false };
        last.copy_from_slice(&Header { from: self.from, payload: 0, ..merged }.encode());
        true
    }

    /// The bytes to send, from the second of the two on: one member alone goes as it is. `flags` are
    /// 0 or [`MORE_FOLLOWS`].
    pub(crate) fn seal(&mut self, flags: u8) -> (&[u8], usize) {
        let start = if self.members > 1 {
            let payload = self.bytes.len() - self.own - Header::BYTES;
            let (kind, from, payload) = (BATCH, self.from, payload as u64);
            let header = Header { kind, flags, from, payload, ..Header::default() };
            self.bytes[self.own..self.own + Header::BYTES].copy_from_slice(&header.encode());
            0
        } else {
            self.bytes.copy_within(..self.own, Header::BYTES);
            Header::BYTES
        };
        (&self.bytes, start)
    }

    /// Gives up its bytes, and starts anew with `room`.
    pub(crate) fn take(&mut self, room: Vec<u8>) -> Vec<u8> {
        let bytes = core::mem::replace(&mut self.bytes, room);
        self.clear();
        bytes
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(SPARE_BYTES);
        self.own = 0;
        self.members = 0;
        self.last = 0;
    }
}

/// The first member of a batch's payload, and what follows it.
///
/// # Errors
/// What the peer `from` did wrong, in words.
pub(crate) fn first_member(payload: &[u8], from: u16) -> Result<Member<'_>, String> {
    let header =
        Header::decode(payload).map_err(|error| format!("a batch with a wrong frame: {error}"))?;
    let wrong = |what: &str| {
        let Header { kind, from, payload, .. } = header;
        Err(format!("a batch with {what}: kind {kind} from rank {from}, {payload} bytes"))
    };
    if header.from != from {
        return wrong("another node's frame");
    }
    if header.kind > LAST_KIND {
        return wrong("a frame that has no business in it");
    }
    let Some((body, rest)) = payload[Header::BYTES..].split_at_checked(header.payload_bytes())
    else {
        return wrong("a frame that is cut short");
    };
    Ok(Member { header, body, rest })
}

/// One frame of a batch.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    pub(crate) header: Header,
    pub(crate) body: &'a [u8],
    /// The batch after it.
    pub(crate) rest: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, subject: u64) -> Header {
        Header { kind, from: 3, subject, ..Header::default() }
    }

    fn sealed(batch: &mut Batch) -> Vec<u8> {
        let (bytes, start) = batch.seal(0);
        bytes[start..].to_vec()
    }

    #[test]
    fn one_member_alone_goes_as_it_is() {
        let mut batch = Batch::default();
        assert_eq!(batch.add(frame(7, 1), |out| out.extend(b"body")), 4);
        let alone = Header { payload: 4, ..frame(7, 1) };
        assert_eq!(sealed(&mut batch), [&alone.encode()[..], b"body"].concat());
        batch.clear();
        batch.follow(&[9; 64]);
        batch.add(frame(7, 2), |_| {});
        assert_eq!(sealed(&mut batch), [&[9; 64][..], &frame(7, 2).encode()].concat());
    }

    #[test]
    fn the_last_member_may_stand_for_one_more_if_it_has_no_payload() {
        let mut batch = Batch::default();
        let sum = |last: &Header| Some(Header { subject: last.subject + 10, ..*last });
        assert!(!batch.merge_last(sum), "there is none");
        batch.add(frame(7, 1), |_| {});
        assert!(batch.merge_last(sum) && !batch.merge_last(|_| None));
        assert_eq!(sealed(&mut batch), frame(7, 11).encode());
        batch.add(frame(8, 2), |_| {});
        assert!(batch.merge_last(sum));
        let members = [frame(7, 11).encode(), frame(8, 12).encode()].concat();
        assert_eq!(sealed(&mut batch)[Header::BYTES..], members);
        batch.add(frame(9, 3), |out| out.push(0));
        assert!(!batch.merge_last(sum), "it has a payload");
        batch.clear();
        assert!(!batch.merge_last(sum), "there is none any more");
    }

    #[test]
    fn members_lie_behind_each_other_in_one_frame() {
        let mut batch = Batch::default();
        batch.follow(&[9; Header::BYTES]);
        batch.add(frame(7, 1), |out| out.extend(b"body"));
        batch.add(frame(8, 2), |_| {});
        assert_eq!(batch.members(), 2);
        let bytes = sealed(&mut batch);
        let own = Header::decode(&bytes[Header::BYTES..]).unwrap();
        assert_eq!((own.kind, own.from, own.payload), (BATCH, 3, 84));
        let Member { header, body, rest } = first_member(&bytes[2 * Header::BYTES..], 3).unwrap();
        assert_eq!((header.subject, header.payload, body), (1, 4, &b"body"[..]));
        let Member { header, body, rest } = first_member(rest, 3).unwrap();
        assert_eq!((header, body, rest), (frame(8, 2), &b""[..], &b""[..]));
    }

    #[test]
    fn a_full_batch_has_64_kib() {
        let mut batch = Batch::default();
        batch.add(frame(7, 0), |out| out.resize(out.len() + FULL - 2 * Header::BYTES - 1, 0));
        assert!(!batch.is_full());
        batch.add(frame(7, 0), |out| out.resize(out.len() + 100, 0));
        assert!(batch.is_full());
        batch.clear();
        assert!(batch.is_empty() && !batch.is_full());
    }

    #[test]
    fn wrong_members_are_named() {
        let says = |header: Header, body: &[u8]| {
            first_member(&[&header.encode()[..], body].concat(), 3).unwrap_err()
        };
        let good = Header { payload: 4, ..frame(7, 1) };
        let cut = "a batch with a frame that is cut short: kind 7 from rank 3, 4 bytes";
        assert_eq!(says(good, b"bod"), cut);
        assert!(says(Header { from: 2, ..good }, b"body").contains("another node's frame"));
        for kind in [LAST_KIND + 1, 243, BATCH] {
            assert!(says(Header { kind, ..good }, b"body").contains("no business in it"));
        }
        assert!(says(Header { kind: 0, ..good }, b"body").contains("illegal frame kind 0"));
        let short = first_member(&good.encode()[..31], 3).unwrap_err();
        assert!(short.contains("here are 31"), "{short}");
    }
}
