//! Applying a diff: write the bytes its records name.

use super::lines::{Lines, store_masked};
use super::records::{Diff, Record};
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
                    // SAFETY: a line of the diff.
                    let line = unsafe { K::load(line.as_ptr()) };
                    // SAFETY: records lie in the page, and this one names all of the line.
                    unsafe { K::store(line, to) };
                }
            }
            Record::Words { offset, mask, words } => {
                let mut words = words.as_chunks::<WORD_BYTES>().0.iter();
                for (index, mask) in mask.to_le_bytes().into_iter().enumerate() {
                    if mask == 0 {
                        continue;
                    }
                    let Some(word) = words.next() else { break };
                    let to = page.wrapping_add(offset + index * WORD_BYTES);
                    // SAFETY: records lie in the page, and this one names these bytes.
                    unsafe { store_masked(*word, mask, to) };
                }
            }
        }
    }
}
