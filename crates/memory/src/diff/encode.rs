//! Encoding a diff: compares page and twin line by line, and appends records.

use super::compare::{Lines, load_short};
use super::format::{COUNT_BYTES, HEADER_BYTES, MASK_AT, word_bits};
use super::{LINE_BYTES, MAX_PAGE_BYTES, WHOLE, WORD_BYTES};

/// What a line takes at most: a record that is no run, or a run of its own.
const RECORD_BYTES: usize = HEADER_BYTES + COUNT_BYTES + LINE_BYTES;
/// Lines that get room together: those of a page of 4 KiB.
const AT_ONCE: usize = 64;

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
    for (chunk, twins) in lines.chunks(AT_ONCE).enumerate() {
        let mut cursor = records.cursor();
        for (index, twin) in (chunk * AT_ONCE..).zip(twins) {
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
                records.begin_whole_line(index, &mut cursor);
                // SAFETY: there is room for a line, which nobody else knows.
                unsafe { K::store(line, cursor.at) };
                cursor.advance(LINE_BYTES);
            } else {
                // SAFETY: the processor has the features.
                let bytes = unsafe { K::bytes(line) };
                records.append_words(index, mask, &bytes, &mut cursor);
            }
        }
        // SAFETY: the cursor has left written bytes behind it.
        unsafe { records.wrote(&cursor) };
    }
    if !rest.is_empty() {
        let at = page.wrapping_add(lines.len() * LINE_BYTES);
        // SAFETY: the page is as long as the twin, so it has these bytes too.
        let line = unsafe { load_short(at, rest.len()) };
        let mask = differing_short(rest, &line);
        if mask != 0 {
            let mut cursor = records.cursor();
            records.append_words(lines.len(), mask, &line, &mut cursor);
            // SAFETY: as above.
            unsafe { records.wrote(&cursor) };
        }
    }
    records.close_run();
    records.changed
}

/// [`super::differs`] by the lines of a kernel. Inlined into a function with its features.
///
/// # Safety
/// As for that, and the processor has the features.
#[inline(always)]
pub(super) unsafe fn differs<K: Lines>(twin: &[u8], page: *const u8) -> bool {
    let (lines, rest) = twin.as_chunks::<LINE_BYTES>();
    for (index, twin) in lines.iter().enumerate() {
        // SAFETY: the page is as long as the twin, so it has this line too.
        let line = unsafe { K::load(page.wrapping_add(index * LINE_BYTES)) };
        // SAFETY: the processor has the features.
        let old = unsafe { K::own(twin) };
        // SAFETY: the processor has the features.
        if unsafe { K::differing(line, old) } != 0 {
            return true;
        }
    }
    // SAFETY: the page is as long as the twin, so it has these bytes too.
    let line = unsafe { load_short(page.wrapping_add(lines.len() * LINE_BYTES), rest.len()) };
    differing_short(rest, &line) != 0
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

/// Where the next bytes go, in room that is there.
struct Cursor {
    at: *mut u8,
    written: usize,
}

impl Cursor {
    /// So many bytes have been written at it.
    #[inline(always)]
    fn advance(&mut self, bytes: usize) {
        self.at = self.at.wrapping_add(bytes);
        self.written += bytes;
    }

    #[inline(always)]
    fn append<const BYTES: usize>(&mut self, bytes: [u8; BYTES]) {
        // SAFETY: there is room for what a line takes, of which this is a part.
        unsafe { self.at.cast::<[u8; BYTES]>().write_unaligned(bytes) };
        self.advance(BYTES);
    }
}

impl Records<'_> {
    /// Behind what is there, with room for the lines of a chunk.
    #[inline(always)]
    fn cursor(&mut self) -> Cursor {
        self.out.reserve(AT_ONCE * RECORD_BYTES);
        Cursor { at: self.out.as_mut_ptr().wrapping_add(self.out.len()), written: 0 }
    }

    /// # Safety
    /// The bytes behind the cursor are written.
    #[inline(always)]
    unsafe fn wrote(&mut self, cursor: &Cursor) {
        // SAFETY: the caller's promise.
        unsafe { self.out.set_len(self.out.len() + cursor.written) };
    }

    /// One more line of a run, of this one or of another, comes next.
    #[inline(always)]
    fn begin_whole_line(&mut self, index: usize, cursor: &mut Cursor) {
        self.changed += LINE_BYTES;
        match &mut self.run {
            Some(run) if run.end == index => run.end += 1,
            Some(_) | None => {
                let before = self.run.take();
                cursor.append(header(index, WHOLE));
                let count_at = self.out.len() + cursor.written;
                cursor.append([0; COUNT_BYTES]);
                if let Some(run) = before {
                    self.count(run, cursor);
                }
                self.run = Some(Run { start: index, end: index + 1, count_at });
            }
        }
    }

    /// Writes the count of a run, which may lie behind the cursor and not be part of the output yet.
    #[inline(always)]
    fn count(&mut self, Run { start, end, count_at }: Run, cursor: &Cursor) {
        let back = self.out.len() + cursor.written - count_at;
        let place = cursor.at.wrapping_sub(back).cast::<[u8; COUNT_BYTES]>();
        // SAFETY: the run's count was written there, with zeros.
        unsafe { place.write_unaligned(number(end - start).to_le_bytes()) };
    }

    #[inline(always)]
    fn close_run(&mut self) {
        if let Some(Run { start, end, count_at }) = self.run {
            let count = number(end - start).to_le_bytes();
            self.out[count_at..][..COUNT_BYTES].copy_from_slice(&count);
        }
    }

    #[inline(always)]
    fn append_words(
        &mut self,
        index: usize,
        mask: u64,
        line: &[u8; LINE_BYTES],
        cursor: &mut Cursor,
    ) {
        self.changed += mask.count_ones() as usize;
        cursor.append(header(index, mask));
        // Each word is written where it would go, and stays there if any of it changed.
        let mut bits = word_bits(mask);
        let mut end = 0;
        for word in line.as_chunks::<WORD_BYTES>().0 {
            let place = cursor.at.wrapping_add(end).cast::<[u8; WORD_BYTES]>();
            // SAFETY: there is room for the words of a line.
            unsafe { place.write_unaligned(*word) };
            end += WORD_BYTES * (bits & 1) as usize;
            bits >>= WORD_BYTES;
        }
        cursor.advance(end);
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
