//! Frames on the channel between the launcher and an agent: a message is its length in four bytes, little-endian, the CRC-32 of
//! what follows, and its encoding by postcard. ssh changes nothing on the way; what else writes to the same pipe may come at
//! any moment, and is to be found out.

use serde::{Serialize, de::DeserializeOwned};

/// A longer message is invalid.
const MAX_BYTES: usize = 64 << 20;

/// Bytes of the length, and of the checksum.
const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = 2 * LENGTH_BYTES;

/// The bytes of a message.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    let head = vec![0; HEAD_BYTES];
    // It fails for what has no length, and every message has one.
    let mut bytes = postcard::to_extend(message, head).unwrap_or_default();
    if let Some((head, message)) = bytes.split_at_mut_checked(HEAD_BYTES) {
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        head[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
        head[LENGTH_BYTES..].copy_from_slice(&crc32fast::hash(message).to_le_bytes());
    }
    bytes
}

/// Bytes that have come, and are not taken yet.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    /// How many of them are taken.
    taken: usize,
}

/// What is no message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Inbox {
    /// More bytes have come.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether as many bytes are there as the first message has.
    pub(super) fn has_message(&self) -> bool {
        let length = self.rest().first_chunk().map(|length| u32::from_le_bytes(*length));
        let bytes = length.and_then(|length| usize::try_from(length).ok()?.checked_add(HEAD_BYTES));
        bytes.is_some_and(|bytes| self.len() >= bytes)
    }

    /// How many bytes are there.
    pub(super) fn len(&self) -> usize {
        self.rest().len()
    }

    /// The bytes that are there.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Takes some of them.
    pub(super) fn take(&mut self, count: usize) {
        self.taken += count;
    }

    /// The next message, if it is there as a whole.
    ///
    /// # Errors
    /// What is there is no message, and nothing after it can be one.
    pub(super) fn next<M: DeserializeOwned>(&mut self) -> Result<Option<M>, Malformed> {
        let number = |bytes: &[u8; LENGTH_BYTES]| u32::from_le_bytes(*bytes);
        let Some((length, rest)) = self.rest().split_first_chunk() else { return Ok(None) };
        let length = usize::try_from(number(length)).unwrap_or(usize::MAX);
        if length > MAX_BYTES {
            return Err(Malformed);
        }
        let Some((checksum, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let Some(message) = rest.get(..length) else { return Ok(None) };
        if crc32fast::hash(message) != number(checksum) {
            return Err(Malformed);
        }
        let (message, behind) = postcard::take_from_bytes(message).map_err(|_| Malformed)?;
        if !behind.is_empty() {
            return Err(Malformed);
        }
        self.take(HEAD_BYTES + length);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::facts::Status;
    use super::super::messages::{AgentEvent, Stream};
    use super::*;

    #[test]
    fn messages_come_as_they_went_however_they_are_cut() {
        let events = [
            AgentEvent::Output { rank: 3, stream: Stream::Err, bytes: b"a\0b".to_vec() },
            AgentEvent::Ended {
                rank: 1,
                status: Status::Killed { signal: 9, core: true },
                memory_kills: None,
            },
            AgentEvent::Swept,
        ];
        let bytes: Vec<u8> = events.iter().flat_map(encode).collect();
        for step in 1..bytes.len() {
            let (mut inbox, mut got) = (Inbox::default(), Vec::new());
            for piece in bytes.chunks(step) {
                inbox.feed(piece);
                while let Some(event) = inbox.next::<AgentEvent>().unwrap() {
                    got.push(event);
                }
            }
            assert_eq!(got, events, "in steps of {step}");
            assert!(inbox.rest().is_empty());
        }
    }

    /// As an end of output, or a longer message, they were taken for what was not said.
    #[test]
    fn flipped_bits_make_no_other_message() {
        let events = [AgentEvent::EndOfOutput { rank: 1, stream: Stream::Out }, AgentEvent::Swept];
        let bytes: Vec<u8> = events.iter().flat_map(encode).collect();
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let mut inbox = Inbox::default();
            inbox.feed(&flipped);
            let mut got = Vec::new();
            while let Ok(Some(event)) = inbox.next::<AgentEvent>() {
                got.push(event);
            }
            assert!(!inbox.has_message() || inbox.next::<AgentEvent>().is_err());
            assert!(got.len() < 2 && events.starts_with(&got), "bit {bit}: {got:?}");
        }
    }

    #[test]
    fn what_is_no_message_is_noticed() {
        // An event that has a byte too many.
        let mut longer = encode(&AgentEvent::Swept);
        longer[0] += 1;
        longer.push(11);
        let checksum = crc32fast::hash(&longer[HEAD_BYTES..]).to_le_bytes();
        longer[LENGTH_BYTES..HEAD_BYTES].copy_from_slice(&checksum);
        // One of a kind that there is not.
        let mut unknown = encode(&AgentEvent::Swept);
        unknown[HEAD_BYTES] = 250;
        let checksum = crc32fast::hash(&unknown[HEAD_BYTES..]).to_le_bytes();
        unknown[LENGTH_BYTES..HEAD_BYTES].copy_from_slice(&checksum);
        for wrong in [&[255, 255, 255, 255][..], &unknown, &longer] {
            let mut inbox = Inbox::default();
            inbox.feed(wrong);
            assert_eq!(inbox.next::<AgentEvent>(), Err(Malformed), "{wrong:?}");
        }
    }
}
