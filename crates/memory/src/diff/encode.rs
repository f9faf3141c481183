//! Making a diff: compare line by line, append records.

use super::lines::{Lines, load_short};
use super::records::{COUNT_BYTES, HEADER_BYTES, MASK_AT, word_bits};
use super::{LINE_BYTES, MAX_PAGE_BYTES, WHOLE, WORD_BYTES};

/// The longest record that is no run.
const RECORD_BYTES: usize = HEADER_BYTES + LINE_BYTES;

/// [`super::encode`] by the lines of a kernel. Inlined into a function with its features.
///
/// # Safety
/// As for that, and the processor has the features.
#[inline(always)]
pub(super) unsafe fn encode<K: Lines>(twin: &[u8], page: *const u8, out: &mut Vec<u8>) -> usize {
    let bytes = twin.len();
    assert!(bytes <= MAX_PAGE_BYTES, "a page of {bytes} bytes has more lines than diffs can name");
    let mut records = Records { out, run: None, changed: 0 };
    let (lines, rest) = twin.as_chunks::<LINE_BYTES>();
    for (index, twin) in lines.iter().enumerate() {
        let at = page.wrapping_add(index * LINE_BYTES);
        // SAFETY: the page is as long as the twin, so it has this line too.
        let line = unsafe { K::load(at) };
        // SAFETY: the processor has the features.
        let old = unsafe { K::own(twin) };
        // SAFETY: the processor has the features.
        let mask = unsafe { K::differing(line, old) };
        if mask == 0 {
            continue;
        }
        if mask == WHOLE {
            let place = records.whole_line(index);
            // SAFETY: there is room for a line, which nobody else knows.
            unsafe { K::store(line, place) };
            // SAFETY: its bytes were written just above.
            unsafe { records.wrote(LINE_BYTES) };
        } else {
            // SAFETY: the processor has the features.
            let bytes = unsafe { K::bytes(line) };
            records.append_words(index, mask, &bytes);
        }
    }
    if !rest.is_empty() {
        let at = page.wrapping_add(lines.len() * LINE_BYTES);
        // SAFETY: the page is as long as the twin, so it has these bytes too.
        let line = unsafe { load_short(at, rest.len()) };
        let mask = differing_short(rest, &line);
        if mask != 0 {
            records.append_words(lines.len(), mask, &line);
        }
    }
    records.close_run();
    records.changed
}

/// The mask of a last line that is shorter than others.
fn differing_short(twin: &[u8], line: &[u8; LINE_BYTES]) -> u64 {
    let pairs = twin.iter().zip(line).enumerate();
    pairs.fold(0, |mask, (index, (old, new))| mask | (u64::from(old != new) << index))
}

/// The diff under way.
struct Records<'out> {
    out: &'out mut Vec<u8>,
    run: Option<Run>,
    changed: usize,
}

/// The last run, whose count is not yet written.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    /// Where in the output its count goes.
    count_at: usize,
}

impl Records<'_> {
    /// Where the next line of a run goes: to room for it.
    #[inline(always)]
    fn whole_line(&mut self, index: usize) -> *mut u8 {
        self.changed += LINE_BYTES;
        match &mut self.run {
            Some(run) if run.end == index => run.end += 1,
            Some(_) | None => {
                self.close_run();
                self.out.extend_from_slice(&header(index, WHOLE));
                let count_at = self.out.len();
                self.out.extend_from_slice(&[0; COUNT_BYTES]);
                self.run = Some(Run { start: index, end: index + 1, count_at });
            }
        }
        self.out.reserve(LINE_BYTES);
        self.out.spare_capacity_mut().as_mut_ptr().cast()
    }

    /// # Safety
    /// So many bytes behind the others are written.
    #[inline(always)]
    unsafe fn wrote(&mut self, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.out.set_len(self.out.len() + bytes) };
    }

    #[inline(always)]
    fn close_run(&mut self) {
        if let Some(Run { start, end, count_at }) = self.run {
            let count = number(end - start).to_le_bytes();
            self.out[count_at..][..COUNT_BYTES].copy_from_slice(&count);
        }
    }

    #[inline(always)]
    fn append_words(&mut self, index: usize, mask: u64, line: &[u8; LINE_BYTES]) {
        self.changed += mask.count_ones() as usize;
        self.out.reserve(RECORD_BYTES);
        let record = &mut self.out.spare_capacity_mut()[..RECORD_BYTES];
        record[..HEADER_BYTES].write_copy_of_slice(&header(index, mask));
        // Each word is written where it would go, and stays there if any of it changed.
        let mut bits = word_bits(mask);
        let mut end = HEADER_BYTES;
        for word in line.as_chunks::<WORD_BYTES>().0 {
            record[end..][..WORD_BYTES].write_copy_of_slice(word);
            end += WORD_BYTES * (bits & 1) as usize;
            bits >>= WORD_BYTES;
        }
        // SAFETY: the bytes up to `end` were written just above.
        unsafe { self.wrote(end) };
    }
}

/// A record's line and mask.
#[inline(always)]
fn header(index: usize, mask: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..MASK_AT].copy_from_slice(&number(index).to_le_bytes());
    header[MASK_AT..].copy_from_slice(&mask.to_le_bytes());
    header
}

#[expect(clippy::cast_possible_truncation, reason = "encode() asserts that lines have numbers")]
const fn number(lines: usize) -> u32 {
    lines as u32
}
