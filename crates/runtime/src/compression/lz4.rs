//! LZ4 blocks: an encoder that gives up at a limit and allocates nothing, which that of `lz4_flex` cannot; the
//! decoder is that crate's.
//!
//! A sequence is a token (length of the literals in the high half, of the match less 4 in the low one, 15 for
//! more in bytes that follow), the literals, and the match's distance in two bytes. The last sequence has literals alone,
//! at least 5, and no match begins within 12 bytes of the end.

use super::output::Output;

const MIN_MATCH: usize = 4;
const LAST_LITERALS: usize = 5;
const LAST_MATCH: usize = 12;
const FARTHEST: usize = u16::MAX as usize;
const HASH_BITS: u32 = 12;
/// Places that are tried without success before the distance between them grows by one.
const PATIENCE: u32 = 5;

/// Where each hash of four bytes was seen last.
#[derive(Debug)]
pub(super) struct Table {
    places: Box<[u32; 1 << HASH_BITS]>,
    /// What was added to places of the contents at hand: lower ones are from contents before.
    base: u32,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { places: Box::new([0; 1 << HASH_BITS]), base: 1 }
    }

    /// Forgets what was seen, to take places below `bytes`; None for more than there are numbers.
    fn begin(&mut self, bytes: usize) -> Option<u32> {
        let bytes = u32::try_from(bytes).ok()?;
        if self.base.checked_add(bytes).is_none() {
            *self.places = [0; 1 << HASH_BITS];
            self.base = 1;
        }
        let base = self.base;
        self.base = base.checked_add(bytes)?;
        Some(base)
    }

    /// Notes a place, and says where the same hash was before.
    fn swap(&mut self, word: u32, place: u32) -> u32 {
        let hash = word.wrapping_mul(2_654_435_761) >> (u32::BITS - HASH_BITS);
        core::mem::replace(&mut self.places[hash as usize], place)
    }
}

/// Encodes `contents` into `room`: how many bytes; None, as soon as that is clear, if they do not fit.
pub(super) fn encode(table: &mut Table, contents: &[u8], room: &mut [u8]) -> Option<usize> {
    let base = table.begin(contents.len())?;
    let place = |at: usize| u32::try_from(at).map_or(0, |at| base + at);
    let mut out = Output::new(room);
    let (mut at, mut anchor, mut tried) = (0, 0, 1 << PATIENCE);
    let end = contents.len().saturating_sub(LAST_MATCH);
    while at < end {
        let word = word(contents, at)?;
        let before = table.swap(word, place(at)).checked_sub(base).map(|before| before as usize);
        let known = before.filter(|&before| {
            at - before <= FARTHEST && self::word(contents, before) == Some(word)
        });
        let Some(mut from) = known else {
            if out.left() < at - anchor {
                return None;
            }
            at += tried >> PATIENCE;
            tried += 1;
            continue;
        };
        while at > anchor && from > 0 && contents[at - 1] == contents[from - 1] {
            at -= 1;
            from -= 1;
        }
        let length = alike(&contents[from..], &contents[at..contents.len() - LAST_LITERALS]);
        put(&mut out, &contents[anchor..at], Some((at - from, length)))?;
        at += length;
        (anchor, tried) = (at, 1 << PATIENCE);
        if at < end {
            table.swap(self::word(contents, at - 2)?, place(at - 2));
        }
    }
    put(&mut out, &contents[anchor..], None)?;
    Some(out.len())
}

fn word(contents: &[u8], at: usize) -> Option<u32> {
    contents.get(at..at + 4)?.as_array().map(|bytes| u32::from_le_bytes(*bytes))
}

/// How many bytes two pieces have in common at their start.
fn alike(one: &[u8], other: &[u8]) -> usize {
    let ((words, _), (others, _)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let mut whole = 0;
    for (word, other) in words.iter().zip(others) {
        let differ = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return whole + (differ.trailing_zeros() / u8::BITS) as usize;
        }
        whole += 8;
    }
    let rest = one[whole..].iter().zip(&other[whole..]);
    whole + rest.take_while(|(one, other)| one == other).count()
}

/// Literals, and a match of some distance and length behind them.
fn put(out: &mut Output<'_>, literals: &[u8], copy: Option<(usize, usize)>) -> Option<()> {
    let extra = copy.map_or(0, |(_, length)| length - MIN_MATCH);
    out.push(nibble(literals.len()) << 4 | nibble(extra))?;
    put_length(out, literals.len())?;
    out.extend(literals)?;
    let Some((distance, _)) = copy else { return Some(()) };
    out.extend(&u16::try_from(distance).ok()?.to_le_bytes())?;
    put_length(out, extra)
}

fn nibble(length: usize) -> u8 {
    u8::try_from(length).map_or(15, |length| length.min(15))
}

/// What of a length the token has no room for.
fn put_length(out: &mut Output<'_>, length: usize) -> Option<()> {
    let Some(mut rest) = length.checked_sub(15) else { return Some(()) };
    while rest >= 255 {
        out.push(255)?;
        rest -= 255;
    }
    out.push(u8::try_from(rest).ok()?)
}

/// Decodes all of `packed` to exactly `contents`; None if it is not the code of so many bytes.
pub(super) fn decode(packed: &[u8], contents: &mut [u8]) -> Option<()> {
    let decoded = lz4_flex::block::decompress_into(packed, contents).ok()?;
    (decoded == contents.len()).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_without_numbers_left_begins_anew() {
        let mut table = Table::new();
        let contents = b"abcdefgh".repeat(64);
        let encode = |table: &mut Table| {
            let mut room = [0; 512];
            encode(table, &contents, &mut room).map(|len| room[..len].to_vec())
        };
        let first = encode(&mut table);
        assert!(first.as_ref().is_some_and(|packed| packed.len() < 40), "{first:?}");
        table.base = u32::MAX - 100;
        // Entries of what came before lie above the new base.
        table.places.fill(u32::MAX - 1);
        assert_eq!(encode(&mut table), first);
        assert_eq!(table.base, 513);
    }
}
