//! Which bytes of a minipage were written.

use core::ops::Range;

/// Bytes of a line: as many as a mask has bits.
const LINE_BYTES: usize = u64::BITS as usize;
/// Races are told of in words of so many bytes, the smallest that programs share with care.
const WORD_BYTES: usize = 4;
/// Words with less between them are told of as one range: of a number, often only some bytes change.
const GAP_BYTES: usize = 8;

/// A set of bytes: lines in ascending order, and of each a mask whose bit b stands for byte b. No mask is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WrittenBytes(Vec<(u32, u64)>);

/// Of ranges in ascending order.
impl FromIterator<Range<usize>> for WrittenBytes {
    fn from_iter<I: IntoIterator<Item = Range<usize>>>(ranges: I) -> Self {
        let mut lines: Vec<(u32, u64)> = Vec::new();
        for Range { mut start, end } in ranges {
            while start < end {
                let line = u32::try_from(start / LINE_BYTES).expect("a minipage is that short");
                let bit = start % LINE_BYTES;
                let bits = (end - start).min(LINE_BYTES - bit);
                let mask = u64::MAX >> (LINE_BYTES - bits) << bit;
                match lines.last_mut() {
                    Some((last, known)) if *last == line => *known |= mask,
                    Some(_) | None => lines.push((line, mask)),
                }
                start += bits;
            }
        }
        debug_assert!(lines.is_sorted_by(|one, other| one.0 < other.0), "ranges ascend");
        Self(lines)
    }
}

impl WrittenBytes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes in both.
    pub(super) fn both(&self, other: &Self) -> Self {
        let mut of_other = other.masks();
        let common = self.0.iter().filter_map(|&(line, mask)| {
            let mask = mask & of_other(line);
            (mask != 0).then_some((line, mask))
        });
        Self(common.collect())
    }

    pub(super) fn remove(&mut self, other: &Self) {
        let mut of_other = other.masks();
        self.0.retain_mut(|(line, mask)| {
            *mask &= !of_other(*line);
            *mask != 0
        });
    }

    /// The mask of each line that is asked for, in ascending order.
    fn masks(&self) -> impl FnMut(u32) -> u64 + '_ {
        let mut left = self.0.iter().copied().peekable();
        move |line| {
            while left.next_if(|&(before, _)| before < line).is_some() {}
            left.next_if(|&(this, _)| this == line).map_or(0, |(_, mask)| mask)
        }
    }

    /// Ranges of bytes that cover all of them, in whole words.
    pub(super) fn ranges(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for &(line, mask) in &self.0 {
            for bit in (0..LINE_BYTES).filter(|bit| mask & (1 << bit) != 0) {
                let byte = line as usize * LINE_BYTES + bit;
                let word = byte - byte % WORD_BYTES..byte - byte % WORD_BYTES + WORD_BYTES;
                match ranges.last_mut() {
                    Some(last) if word.start < last.end + GAP_BYTES => last.end = word.end,
                    Some(_) | None => ranges.push(word),
                }
            }
        }
        ranges
    }

    /// The bytes that travel: line u32 and mask u64 of each line, little-endian.
    pub(super) fn append_to(&self, out: &mut Vec<u8>) {
        for (line, mask) in &self.0 {
            out.extend(line.to_le_bytes());
            out.extend(mask.to_le_bytes());
        }
    }

    /// What these bytes spell, of a minipage of `len` bytes; `None` if no node writes them.
    pub(super) fn from_bytes(bytes: &[u8], len: usize) -> Option<Self> {
        let (lines, rest) = bytes.as_chunks::<12>();
        let mut written = Self::default();
        for &[a, b, c, d, ref mask @ ..] in lines {
            let line = u32::from_le_bytes([a, b, c, d]);
            let mask = u64::from_le_bytes(*mask);
            let last = (line as usize).checked_mul(LINE_BYTES)? + mask.checked_ilog2()? as usize;
            let ascends = written.0.last().is_none_or(|(before, _)| *before < line);
            if last >= len || !ascends {
                return None;
            }
            written.0.push((line, mask));
        }
        rest.is_empty().then_some(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges by their ends.
    fn set(ranges: &[(usize, usize)]) -> WrittenBytes {
        ranges.iter().map(|&(start, end)| start..end).collect()
    }

    fn ranges(written: &WrittenBytes) -> Vec<(usize, usize)> {
        written.ranges().into_iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn sets_meet_and_part_byte_for_byte() {
        let (one, other) = (set(&[(0, 3), (60, 70)]), set(&[(2, 5), (65, 66), (128, 129)]));
        assert_eq!(one.both(&other), set(&[(2, 3), (65, 66)]));
        let mut left = one.clone();
        left.remove(&other);
        assert_eq!(left, set(&[(0, 2), (60, 65), (66, 70)]));
        left.remove(&one);
        assert!(left.is_empty());
        assert!(set(&[(0, 4)]).both(&set(&[(4, 8)])).is_empty(), "neighbours do not meet");
    }

    #[test]
    fn ranges_are_whole_words_and_bridge_small_gaps() {
        assert_eq!(ranges(&set(&[(18, 19)])), [(16, 20)]);
        // Two numbers of 8 bytes of which the upper halves changed.
        assert_eq!(ranges(&set(&[(6, 8), (14, 16)])), [(4, 16)]);
        assert_eq!(ranges(&set(&[(0, 1), (16, 17), (63, 65)])), [(0, 4), (16, 20), (60, 68)]);
    }

    #[test]
    fn a_set_survives_its_bytes_and_wrong_ones_are_refused() {
        let mut bytes = Vec::new();
        set(&[(0, 3), (60, 70)]).append_to(&mut bytes);
        assert_eq!(WrittenBytes::from_bytes(&bytes, 70), Some(set(&[(0, 3), (60, 70)])));
        assert_eq!(WrittenBytes::from_bytes(&bytes, 69), None, "outside");
        assert_eq!(WrittenBytes::from_bytes(&bytes[..23], 70), None, "cut");
        let twice = [&bytes[..12], &bytes[..12]].concat();
        assert_eq!(WrittenBytes::from_bytes(&twice, 70), None, "twice the same line");
        assert_eq!(WrittenBytes::from_bytes(&[0; 12], 70), None, "an empty line");
    }
}
