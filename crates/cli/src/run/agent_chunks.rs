//! The chunks in which a launcher's requests go to an agent. A pipe takes each chunk whole or not at all, so the
//! watchdog can write a heartbeat between any two: the agent of a stopped launcher then knows that it still exists.

/// Most bytes that a pipe takes whole or not at all (PIPE_BUF).
const MOST_BYTES: usize = 4096;
/// Bytes of a chunk's length, little-endian.
const LENGTH_BYTES: usize = 2;

/// A chunk of nothing: somebody is there.
pub(super) const HEARTBEAT: [u8; LENGTH_BYTES] = [0; LENGTH_BYTES];

/// The next chunk of these bytes, and how many of them it has.
pub(super) fn chunk(bytes: &[u8]) -> (Vec<u8>, usize) {
    let count = bytes.len().min(MOST_BYTES - LENGTH_BYTES);
    let length = u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes();
    ([&length, &bytes[..count]].concat(), count)
}

/// Opens chunks, however a read cuts them.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    /// The length's first byte, if its second has not come.
    half: Option<u8>,
    /// Bytes of the open chunk that have not come.
    left: usize,
}

impl Chunks {
    /// Gives `take` what is in these bytes.
    pub(super) fn open(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8])) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.left > 0 {
                let (content, behind) = bytes.split_at(self.left.min(bytes.len()));
                take(content);
                self.left -= content.len();
                bytes = behind;
                continue;
            }
            match self.half.take() {
                None => self.half = Some(first),
                Some(half) => self.left = u16::from_le_bytes([half, first]).into(),
            }
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_into_pieces_comes_out_whole_with_heartbeats_between_and_however_it_is_read() {
        let whole: Vec<u8> = (0..10_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let (mut sent, mut at) = (HEARTBEAT.to_vec(), 0);
        while at < whole.len() {
            let (chunk, count) = chunk(&whole[at..]);
            assert!(chunk.len() <= MOST_BYTES);
            sent.extend(chunk);
            sent.extend(HEARTBEAT);
            at += count;
        }
        for step in [1, 2, 3, 4095, 4096, 4097, sent.len()] {
            let (mut chunks, mut came) = (Chunks::default(), Vec::new());
            for bytes in sent.chunks(step) {
                chunks.open(bytes, |content| came.extend_from_slice(content));
            }
            assert!(came == whole, "in steps of {step}");
        }
    }
}
