//! Applying a diff: writes the bytes that its records name.

use super::compare::{Lines, store_masked};
use super::format::{Diff, Record, word_bits};
use super::{LINE_BYTES, Others, WORD_BYTES};

/// [`Diff::apply`] by the lines of a kernel. Inlined into a function with its features.
///
/// # Safety
/// As for that, and the processor has the features.
#[inline(always)]
pub(super) unsafe fn apply<K: Lines>(diff: &Diff<'_>, page: *mut u8, others: Others) {
    let blends = others == Others::Read && page.cast::<u64>().is_aligned();
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
                // What follows a page that ends within a line is not ours.
                if let (true, Ok(line)) =
                    (blends && offset + LINE_BYTES <= diff.len(), words.try_into())
                {
                    // SAFETY: the processor has the features.
                    let line = unsafe { K::own(line) };
                    // SAFETY: the line lies in the page, aligned to words; nobody writes it.
                    unsafe { K::blend(line, mask, page.wrapping_add(offset)) };
                    continue;
                }
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
