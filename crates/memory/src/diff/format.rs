//! A diff as it came from a peer: checked, then read record by record.
//!
//! # Format
//! A diff is a sequence of records in ascending order of lines. A *line* is 64 bytes of the page,
//! counted from the page's start; the last line may be shorter. All numbers are little-endian.
//!
//! | field | bytes | |
//! |---|---|---|
//! | line | 4 | number of the (first) line |
//! | mask | 8 | bit b says that byte b of the line changed; never 0 |
//!
//! If the mask is not all ones, the words of 8 bytes with a changed byte follow, in order; bytes
//! of these words that did not change, or lie beyond the end of the page, have no meaning (they are
//! what the writer saw there, and 0). If the mask is all ones, a run of lines follows that changed
//! wholly:
//!
//! | field | bytes | |
//! |---|---|---|
//! | count | 4 | lines of the run, at least 1 |
//! | lines | 64 each | |
//!
//! A page of 4096 changed bytes costs 16 more than itself; a changed word costs 20. The worst
//! page, every second line changed wholly and the others but for one byte, costs 78 bytes a line.

use super::{LINE_BYTES, WHOLE, WORD_BYTES};
use crate::layout::index;

/// Where in a record its mask is: after the line.
pub(super) const MASK_AT: usize = size_of::<u32>();
/// Bytes of a record's line and mask.
pub(super) const HEADER_BYTES: usize = MASK_AT + size_of::<u64>();
/// Bytes of a run's count.
pub(super) const COUNT_BYTES: usize = size_of::<u32>();
/// The lowest bit of each byte.
const EACH_WORD: u64 = 0x0101_0101_0101_0101;

/// What is wrong with a diff; the peer that sent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The diff ends within a record.
    #[error("a diff ends within its record at byte {at}: {has} bytes of {needs}")]
    Cut {
        /// Where the record starts in the diff.
        at: usize,
        /// Bytes that the record has at least.
        needs: usize,
        /// Bytes that are there.
        has: usize,
    },
    /// A record names no byte.
    #[error("a diff's record at byte {at} names no bytes")]
    Empty {
        /// Where the record starts in the diff.
        at: usize,
    },
    /// Lines do not ascend.
    #[error("a diff's record at byte {at} is of line {line}, after line {after}")]
    Order {
        /// Where the record starts in the diff.
        at: usize,
        /// The record's first line.
        line: u32,
        /// The last line of the record before.
        after: u64,
    },
    /// A record names bytes that the page does not have.
    #[error("a diff's record at byte {at} names byte {byte} of a page of {len} bytes")]
    Outside {
        /// Where the record starts in the diff.
        at: usize,
        /// The last byte of the page that it names.
        byte: u64,
        /// Bytes of the page.
        len: usize,
    },
}

/// A diff that was found to be sound for pages of some length.
#[derive(Clone, Copy, Debug)]
pub struct Diff<'d> {
    bytes: &'d [u8],
    len: usize,
    changed: usize,
}

impl<'d> Diff<'d> {
    /// Checks all of a diff for a page of `len` bytes.
    ///
    /// # Errors
    /// The first record that is broken or leaves the page.
    #[inline]
    pub fn check(bytes: &'d [u8], len: usize) -> Result<Self, DiffError> {
        let mut records = Records::new(bytes, len);
        let mut changed = 0;
        while let Some(record) = records.read()? {
            changed += match record {
                Record::Whole { lines, .. } => lines.len(),
                Record::Words { mask, .. } => mask.count_ones() as usize,
            };
        }
        Ok(Self { bytes, len, changed })
    }

    /// How many bytes it names.
    #[must_use]
    pub const fn changed(&self) -> usize {
        self.changed
    }

    /// The bytes it names, in ascending order.
    #[must_use]
    pub fn runs(&self) -> Runs<'d> {
        Runs { records: Records::new(self.bytes, self.len), words: None }
    }

    /// Bytes of the pages it is sound for.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Record<'d>> {
        let mut records = Records::new(self.bytes, self.len);
        // Every record passed the same checks in check(), so this ends where the diff does.
        core::iter::from_fn(move || records.read().ok().flatten())
    }
}

/// A record; it lies in the page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Record<'d> {
    /// Lines that changed wholly, from byte `offset` of the page on.
    Whole { offset: usize, lines: &'d [u8] },
    /// The changed words of the line at byte `offset` of the page, as many as the mask says.
    Words { offset: usize, mask: u64, words: &'d [u8] },
}

/// Reads records, checking each.
#[derive(Clone, Debug)]
struct Records<'d> {
    bytes: &'d [u8],
    at: usize,
    /// The first line that the next record may have.
    next_line: u64,
    len: usize,
}

impl<'d> Records<'d> {
    const fn new(bytes: &'d [u8], len: usize) -> Self {
        Self { bytes, at: 0, next_line: 0, len }
    }

    /// The next record; None at the end.
    #[inline(always)]
    fn read(&mut self) -> Result<Option<Record<'d>>, DiffError> {
        let at = self.at;
        if at == self.bytes.len() {
            return Ok(None);
        }
        let (&header, data) = self.split::<HEADER_BYTES>(0)?;
        let [a, b, c, d, mask @ ..] = header;
        let (line, mask) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(mask));
        if u64::from(line) < self.next_line {
            return Err(DiffError::Order { at, line, after: self.next_line - 1 });
        }
        let record = match mask {
            0 => return Err(DiffError::Empty { at }),
            WHOLE => self.whole(u64::from(line))?,
            mask => self.words(u64::from(line), mask, data)?,
        };
        Ok(Some(record))
    }

    #[inline(always)]
    fn whole(&mut self, line: u64) -> Result<Record<'d>, DiffError> {
        let (&count, data) = self.split::<COUNT_BYTES>(HEADER_BYTES)?;
        let count = u64::from(u32::from_le_bytes(count));
        if count == 0 {
            return Err(DiffError::Empty { at: self.at });
        }
        let lines = index(count) * LINE_BYTES;
        let offset = self.inside(line, count * LINE_BYTES as u64 - 1)?;
        let lines = self.take(HEADER_BYTES + COUNT_BYTES, lines, data)?;
        self.next_line = line + count;
        Ok(Record::Whole { offset, lines })
    }

    #[inline(always)]
    fn words(&mut self, line: u64, mask: u64, data: &'d [u8]) -> Result<Record<'d>, DiffError> {
        let offset = self.inside(line, u64::from(mask.ilog2()))?;
        let words = self.take(HEADER_BYTES, word_count(mask) * WORD_BYTES, data)?;
        self.next_line = line + 1;
        Ok(Record::Words { offset, mask, words })
    }

    /// Where in the page a line starts, if the page has byte `last` of what starts there.
    #[inline(always)]
    fn inside(&self, line: u64, last: u64) -> Result<usize, DiffError> {
        let first = line * LINE_BYTES as u64;
        if first + last < self.len as u64 {
            return Ok(index(first));
        }
        Err(DiffError::Outside { at: self.at, byte: first + last, len: self.len })
    }

    /// Field number of bytes `skip` on of the record, and what comes after it.
    #[inline(always)]
    fn split<const BYTES: usize>(
        &self,
        skip: usize,
    ) -> Result<(&'d [u8; BYTES], &'d [u8]), DiffError> {
        let record = &self.bytes[self.at..];
        let field = record.get(skip..).and_then(<[u8]>::split_first_chunk);
        field.ok_or(self.cut(skip + BYTES))
    }

    /// The last `bytes` bytes of a record whose first `header` bytes were read.
    #[inline(always)]
    fn take(&mut self, header: usize, bytes: usize, data: &'d [u8]) -> Result<&'d [u8], DiffError> {
        let taken = data.get(..bytes).ok_or(self.cut(header + bytes))?;
        self.at += header + bytes;
        Ok(taken)
    }

    const fn cut(&self, needs: usize) -> DiffError {
        DiffError::Cut { at: self.at, needs, has: self.bytes.len() - self.at }
    }
}

/// The bytes that a diff names: where in the page, and which. As long as they can be within a line
/// or a run of lines that changed wholly.
#[derive(Clone, Debug)]
pub struct Runs<'d> {
    records: Records<'d>,
    /// The record under way, and the bytes of it that are still to come.
    words: Option<(Words<'d>, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Words<'d> {
    offset: usize,
    mask: u64,
    words: &'d [u8],
}

impl<'d> Iterator for Runs<'d> {
    type Item = (usize, &'d [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((words, rest @ 1..)) = self.words {
            let first = rest.trailing_zeros();
            let count = (rest >> first).trailing_ones();
            let run = ((1 << count) - 1) << first;
            self.words = Some((words, rest & !run));
            return Some(words.run(first as usize, count as usize));
        }
        // check() has been here, so an error cannot be.
        match self.records.read().ok().flatten()? {
            Record::Whole { offset, lines } => Some((offset, lines)),
            Record::Words { offset, mask, words } => {
                self.words = Some((Words { offset, mask, words }, mask));
                self.next()
            }
        }
    }
}

impl<'d> Words<'d> {
    /// `count` bytes of the line from byte `first` on, all of which changed: their words are all
    /// there, and neighbours.
    fn run(&self, first: usize, count: usize) -> (usize, &'d [u8]) {
        let before = self.mask & ((1 << (first / WORD_BYTES * WORD_BYTES)) - 1);
        let start = word_count(before) * WORD_BYTES + first % WORD_BYTES;
        (self.offset + first, &self.words[start..start + count])
    }
}

/// Of the bits of a line's mask, the lowest of each byte: whether any byte of the word changed.
#[inline(always)]
pub(super) const fn word_bits(mask: u64) -> u64 {
    const LOW_SEVEN: u64 = 0x7f * EACH_WORD;
    ((((mask & LOW_SEVEN) + LOW_SEVEN) | mask) & !LOW_SEVEN) >> 7
}

/// Words with a changed byte.
#[inline(always)]
const fn word_count(mask: u64) -> usize {
    index(word_bits(mask).wrapping_mul(EACH_WORD) >> (u64::BITS - u8::BITS))
}
