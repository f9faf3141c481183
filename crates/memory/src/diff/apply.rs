//! Applying a diff: write the bytes its records name.

use super::lines::{Lines, store_masked};
use super::records::{Diff, Record, word_bits};
use super::{LINE_BYTES, WORD_BYTES};

/// [`Diff::apply`] by the lines of a kernel. Inlined into a function with its features.
///
/// # Safety
/// As for that, and the processor has the features.
#[inline(always)]
pub(super) unsafe fn apply<K: Lines>(diff: &Diff<'_>, page: *mut u8) {
    for record in diff.records() {
        match record {
            Record::Whole { offset, lines } => {
                for (index, line) in lines.as_chunks::<LINE_BYTES>().0.iter().enumerate() {
                    let to = page.wrapping_add(offset + index * LINE_BYTES);
                    // SAFETY: the processor has the features.
                    let line = unsafe { K::own(line) };
                    // SAFETY: records lie in the page, and this one names all of the line.
                    unsafe { K::store(line, to) };
                }
            }
            Record::Words { offset, mask, words } => {
                let mut left = word_bits(mask);
                for word in words.as_chunks::<WORD_BYTES>().0 {
                    let first = left.trailing_zeros();
                    let to = page.wrapping_add(offset + first as usize);
                    // SAFETY: records lie in the page, and this one names these bytes.
                    unsafe { store_masked(*word, (mask >> first).to_le_bytes()[0], to) };
                    left &= left - 1;
                }
            }
        }
    }
}
