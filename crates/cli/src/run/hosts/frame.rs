//! Frames on the channel between the launcher and an agent: a message is its length in four bytes, little-endian,
//! then its encoding by postcard.

use serde::{Serialize, de::DeserializeOwned};

/// A longer message is invalid.
const MAX_BYTES: usize = 64 << 20;

/// Bytes of the length.
const LENGTH_BYTES: usize = 4;

/// The bytes of a message.
pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    let head = vec![0; LENGTH_BYTES];
    // It fails for what has no length, and every message has one.
    let mut bytes = postcard::to_extend(message, head).unwrap_or_default();
    let length = u32::try_from(bytes.len().saturating_sub(LENGTH_BYTES)).unwrap_or(u32::MAX);
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
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
        let Some((head, rest)) = self.rest().split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        if length > MAX_BYTES {
            return Err(Malformed);
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let (message, behind) = postcard::take_from_bytes(message).map_err(|_| Malformed)?;
        if !behind.is_empty() {
            return Err(Malformed);
        }
        self.take(LENGTH_BYTES + length);
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

    #[test]
    fn what_is_no_message_is_noticed() {
        // An event that has a byte too many.
        let mut longer = encode(&AgentEvent::Swept);
        longer[0] += 1;
        longer.push(11);
        for wrong in [&[255, 255, 255, 255][..], &[1, 0, 0, 0, 250], &longer] {
            let mut inbox = Inbox::default();
            inbox.feed(wrong);
            assert_eq!(inbox.next::<AgentEvent>(), Err(Malformed), "{wrong:?}");
        }
    }
}
