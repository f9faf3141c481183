//! Lines: what a kernel has to do with 64 bytes (read, compare, write), and the scalar reference kernel.

use super::{LINE_BYTES, WORD_BYTES};

/// Words of a line.
pub(super) const WORDS: usize = LINE_BYTES / WORD_BYTES;

/// What a kernel can do with a line. All methods presume that the processor has the kernel's
/// features, which whoever made the [`Kernel`] has checked.
///
/// [`Kernel`]: super::Kernel
pub(super) trait Lines {
    /// A line in registers.
    type Line: Copy;

    /// Reads a line, each word once.
    ///
    /// # Safety
    /// 64 bytes at `from` are readable; others may write them.
    unsafe fn load(from: *const u8) -> Self::Line;

    /// Takes a line that nobody else writes: of a twin or of a diff.
    ///
    /// # Safety
    /// The processor's features only.
    #[inline(always)]
    unsafe fn own(bytes: &[u8; LINE_BYTES]) -> Self::Line {
        // SAFETY: the array has that many bytes.
        unsafe { Self::load(bytes.as_ptr()) }
    }

    /// Writes a line, each word by one store if `to` is aligned to words.
    ///
    /// # Safety
    /// 64 bytes at `to` are writable; others may read them.
    unsafe fn store(line: Self::Line, to: *mut u8);

    /// Writes the bytes of a line that a mask names, and the others with the value they have: without
    /// a branch, each word by one store.
    ///
    /// # Safety
    /// `to` is aligned to words; 64 bytes there are writable, and others only read them.
    unsafe fn blend(line: Self::Line, mask: u64, to: *mut u8);

    /// The mask of the bytes that differ.
    ///
    /// # Safety
    /// The processor's features only.
    unsafe fn differing(one: Self::Line, other: Self::Line) -> u64;

    /// The line in memory of ours.
    ///
    /// # Safety
    /// The processor's features only.
    #[inline(always)]
    unsafe fn bytes(line: Self::Line) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        // SAFETY: the array has that many bytes.
        unsafe { Self::store(line, bytes.as_mut_ptr()) };
        bytes
    }
}

/// The reference: words in ordinary registers, on every processor.
pub(super) struct Scalar;

impl Lines for Scalar {
    type Line = [u64; WORDS];

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Line {
        core::array::from_fn(|index| {
            let word = from.wrapping_add(index * WORD_BYTES);
            // SAFETY: the caller's promise, for each of the words.
            unsafe { load_word(word) }
        })
    }

    #[inline(always)]
    unsafe fn own(bytes: &[u8; LINE_BYTES]) -> Self::Line {
        let (words, _) = bytes.as_chunks();
        core::array::from_fn(|index| u64::from_ne_bytes(words[index]))
    }

    #[inline(always)]
    unsafe fn store(line: Self::Line, to: *mut u8) {
        for (index, word) in line.into_iter().enumerate() {
            let to = to.wrapping_add(index * WORD_BYTES);
            // SAFETY: the caller's promise, for each of the words.
            unsafe { store_word(word, to) };
        }
    }

    #[inline(always)]
    unsafe fn blend(line: Self::Line, mask: u64, to: *mut u8) {
        for ((index, word), mask) in line.into_iter().enumerate().zip(mask.to_le_bytes()) {
            let to = to.wrapping_add(index * WORD_BYTES).cast::<u64>();
            let named = spread(mask);
            // SAFETY: the caller's promise, for each of the words.
            let old = unsafe { to.read_volatile() };
            // SAFETY: as above; a volatile write does not care who reads.
            unsafe { to.write_volatile(old & !named | word & named) };
        }
    }

    #[inline(always)]
    unsafe fn differing(one: Self::Line, other: Self::Line) -> u64 {
        let differences: Self::Line = core::array::from_fn(|index| one[index] ^ other[index]);
        if differences.iter().fold(0, |any, word| any | word) == 0 {
            return 0;
        }
        let bits = |(index, word): (usize, &u64)| byte_bits(*word) << (index * WORD_BYTES);
        differences.iter().enumerate().map(bits).fold(0, |mask, bits| mask | bits)
    }

    #[inline(always)]
    unsafe fn bytes(line: Self::Line) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(line) {
            *to = word.to_ne_bytes();
        }
        bytes
    }
}

/// Eight bits, one for each byte of the word at the lower address first: whether it is not zero.
#[inline(always)]
const fn byte_bits(word: u64) -> u64 {
    const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The product moves the bit at 8 * i to 56 + i; no two of its terms meet, so nothing carries.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let word = u64::from_le(word);
    let high_bits = (((word & LOW_SEVEN) + LOW_SEVEN) | word) & !LOW_SEVEN;
    (high_bits >> 7).wrapping_mul(GATHER) >> 56
}

/// A word of a page, read once if it is aligned, otherwise byte by byte.
///
/// # Safety
/// 8 bytes at `from` are readable; others may write them.
#[inline(always)]
unsafe fn load_word(from: *const u8) -> u64 {
    let word = from.cast::<u64>();
    if word.is_aligned() {
        // SAFETY: aligned, and the caller's promise; a volatile read does not care who writes.
        return unsafe { word.read_volatile() };
    }
    let mut bytes = [0; WORD_BYTES];
    // SAFETY: the caller's promise.
    unsafe { load_bytes(from, &mut bytes) };
    u64::from_ne_bytes(bytes)
}

/// Copies bytes of a page, each read once.
///
/// # Safety
/// As many bytes at `from` are readable; others may write them.
#[inline(always)]
unsafe fn load_bytes(from: *const u8, to: &mut [u8]) {
    for (index, to) in to.iter_mut().enumerate() {
        let from = from.wrapping_add(index);
        // SAFETY: the caller's promise; a volatile read does not care who writes.
        *to = unsafe { from.read_volatile() };
    }
}

/// Copies less than a line of a page, whole words first; the rest of the line is zero.
///
/// # Safety
/// `bytes` bytes at `from`, less than a line, are readable; others may write them.
pub(super) unsafe fn load_short(from: *const u8, bytes: usize) -> [u8; LINE_BYTES] {
    let mut line = [0; LINE_BYTES];
    let (words, rest) = line[..bytes].as_chunks_mut();
    let rest_at = from.wrapping_add(words.len() * WORD_BYTES);
    for (index, to) in words.iter_mut().enumerate() {
        let from = from.wrapping_add(index * WORD_BYTES);
        // SAFETY: the caller's promise, for a word that ends before `bytes`.
        *to = unsafe { load_word(from) }.to_ne_bytes();
    }
    // SAFETY: the caller's promise, for the bytes after the last word.
    unsafe { load_bytes(rest_at, rest) };
    line
}

/// Writes a word, by one store if it is aligned, otherwise by parts.
///
/// # Safety
/// 8 bytes at `to` are writable; others may read them.
#[inline(always)]
unsafe fn store_word(word: u64, to: *mut u8) {
    // SAFETY: the caller's promise, for all that the mask names.
    unsafe { store_masked(word.to_ne_bytes(), u8::MAX, to) };
}

/// The bytes that eight bits name, the byte at the lower address first: all ones, and the others
/// zero.
#[inline(always)]
const fn spread(mask: u8) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const OWN_BIT: u64 = 0x8040_2010_0804_0201;
    const LOW_SEVEN: u64 = 0x7f * EACH;
    let own = (mask as u64 * EACH) & OWN_BIT;
    let high_bits = ((own + LOW_SEVEN) | own) & !LOW_SEVEN;
    ((high_bits >> 7) * 0xff).to_le()
}

/// Writes the bytes of a word that a mask names: the whole word, a half or a quarter by one store
/// if it is aligned, the others one by one. Never touches bytes that the mask does not name, for
/// they may be written meanwhile.
///
/// # Safety
/// The bytes named are writable at their places from `to` on; others may read them.
#[inline(always)]
pub(super) unsafe fn store_masked(word: [u8; WORD_BYTES], mask: u8, to: *mut u8) {
    let aligned = to.cast::<u64>();
    if mask == u8::MAX && aligned.is_aligned() {
        // SAFETY: aligned, and all 8 bytes are named; a volatile write does not care who reads.
        return unsafe { aligned.write_volatile(u64::from_ne_bytes(word)) };
    }
    for (index, half) in word.as_chunks().0.iter().enumerate() {
        let first = index * half.len();
        // SAFETY: the caller's promise, for half of the bytes.
        unsafe { store_half(*half, mask >> first & 0xf, to.wrapping_add(first)) };
    }
}

/// [`store_masked`] for half a word.
///
/// # Safety
/// As for that.
#[inline(always)]
unsafe fn store_half(half: [u8; 4], mask: u8, to: *mut u8) {
    let aligned = to.cast::<u32>();
    if mask == 0xf && aligned.is_aligned() {
        // SAFETY: aligned, and all 4 bytes are named; a volatile write does not care who reads.
        return unsafe { aligned.write_volatile(u32::from_ne_bytes(half)) };
    }
    for (index, quarter) in half.as_chunks().0.iter().enumerate() {
        let first = index * quarter.len();
        // SAFETY: the caller's promise, for half of the bytes.
        unsafe { store_quarter(*quarter, mask >> first & 0b11, to.wrapping_add(first)) };
    }
}

/// [`store_masked`] for a quarter of a word.
///
/// # Safety
/// As for that.
#[inline(always)]
unsafe fn store_quarter(quarter: [u8; 2], mask: u8, to: *mut u8) {
    let aligned = to.cast::<u16>();
    if mask == 0b11 && aligned.is_aligned() {
        // SAFETY: aligned, and both bytes are named; a volatile write does not care who reads.
        return unsafe { aligned.write_volatile(u16::from_ne_bytes(quarter)) };
    }
    for (index, byte) in quarter.into_iter().enumerate() {
        if mask & (1 << index) != 0 {
            // SAFETY: the mask names this byte; a volatile write does not care who reads.
            unsafe { to.wrapping_add(index).write_volatile(byte) };
        }
    }
}
