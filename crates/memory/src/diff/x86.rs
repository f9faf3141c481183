//! Kernels for x86-64: lines in two registers of AVX2, or in one of AVX-512.
//!
//! Vector loads and stores need no alignment, and processors with AVX move each aligned word of them
//! whole. To the compiler the loads are ordinary ones: it keeps a line in its registers, where it
//! has room for many, instead of reading it again.

use core::arch::x86_64::{
    __m256i, __m512i, _mm256_and_si256, _mm256_blendv_epi8, _mm256_cmpeq_epi8, _mm256_loadu_si256,
    _mm256_movemask_epi8, _mm256_set_epi64x, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_shuffle_epi8, _mm256_storeu_si256, _mm512_cmpneq_epi8_mask, _mm512_loadu_si512,
    _mm512_mask_storeu_epi8, _mm512_storeu_si512,
};

use super::compare::Lines;
use super::format::Diff;
use super::{Others, apply, encode};

/// Half a line.
const HALF_BYTES: usize = 32;

/// Whether the processor has what [`encode_avx2`] and [`apply_avx2`] need.
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt")
}

/// Whether the processor has what [`encode_avx512`] and [`apply_avx512`] need.
pub(super) fn has_avx512() -> bool {
    has_avx2() && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

/// [`encode::encode`] by AVX2.
///
/// # Safety
/// As for that, and [`has_avx2`].
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub(super) unsafe fn encode_avx2(twin: &[u8], page: *const u8, out: &mut Vec<u8>) -> usize {
    // SAFETY: the caller's promise.
    unsafe { encode::encode::<Avx2>(twin, page, out) }
}

/// [`encode::differs`] by AVX2.
///
/// # Safety
/// As for that, and [`has_avx2`].
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub(super) unsafe fn differs_avx2(twin: &[u8], page: *const u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { encode::differs::<Avx2>(twin, page) }
}

/// [`apply::apply`] by AVX2.
///
/// # Safety
/// As for that, and [`has_avx2`].
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub(super) unsafe fn apply_avx2(diff: &Diff<'_>, page: *mut u8, others: Others) {
    // SAFETY: the caller's promise.
    unsafe { apply::apply::<Avx2>(diff, page, others) }
}

/// [`encode::encode`] by AVX-512.
///
/// # Safety
/// As for that, and [`has_avx512`].
#[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,popcnt")]
pub(super) unsafe fn encode_avx512(twin: &[u8], page: *const u8, out: &mut Vec<u8>) -> usize {
    // SAFETY: the caller's promise.
    unsafe { encode::encode::<Avx512>(twin, page, out) }
}

/// [`encode::differs`] by AVX-512.
///
/// # Safety
/// As for that, and [`has_avx512`].
#[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,popcnt")]
pub(super) unsafe fn differs_avx512(twin: &[u8], page: *const u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { encode::differs::<Avx512>(twin, page) }
}

/// [`apply::apply`] by AVX-512.
///
/// # Safety
/// As for that, and [`has_avx512`].
#[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,popcnt")]
pub(super) unsafe fn apply_avx512(diff: &Diff<'_>, page: *mut u8, others: Others) {
    // SAFETY: the caller's promise.
    unsafe { apply::apply::<Avx512>(diff, page, others) }
}

struct Avx2;

impl Lines for Avx2 {
    type Line = [__m256i; 2];

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(from: *const u8) -> Self::Line {
        let second = from.wrapping_add(HALF_BYTES);
        // SAFETY: the caller's promise, for the first 32 bytes.
        let first = unsafe { _mm256_loadu_si256(from.cast()) };
        // SAFETY: the caller's promise, for the last 32 bytes.
        let second = unsafe { _mm256_loadu_si256(second.cast()) };
        [first, second]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn store([first, second]: Self::Line, to: *mut u8) {
        // SAFETY: the caller's promise, for the first 32 bytes.
        unsafe { _mm256_storeu_si256(to.cast(), first) };
        let to = to.wrapping_add(HALF_BYTES);
        // SAFETY: the caller's promise, for the last 32 bytes.
        unsafe { _mm256_storeu_si256(to.cast(), second) };
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn blend(line: Self::Line, mask: u64, to: *mut u8) {
        // SAFETY: the caller's promise.
        let old = unsafe { Self::load(to) };
        let halves = [0, 1]
            .map(|half| _mm256_blendv_epi8(old[half], line[half], named(mask >> (32 * half))));
        // SAFETY: the caller's promise.
        unsafe { Self::store(halves, to) };
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn differing(one: Self::Line, other: Self::Line) -> u64 {
        let [first, second] = [0, 1].map(|half| {
            let equal = _mm256_cmpeq_epi8(one[half], other[half]);
            u64::from(_mm256_movemask_epi8(equal).cast_unsigned())
        });
        !(first | (second << 32))
    }
}

/// The bytes that the low 32 bits name: all ones, and the others zero.
#[inline]
#[target_feature(enable = "avx2")]
fn named(mask: u64) -> __m256i {
    /// For each byte the byte of the mask that has its bit.
    const BYTES: [i64; 4] =
        [0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303];
    #[expect(clippy::cast_possible_truncation, reason = "half of a mask is taken on purpose")]
    let mask = _mm256_set1_epi32((mask as u32).cast_signed());
    let [a, b, c, d] = BYTES;
    let bits = _mm256_shuffle_epi8(mask, _mm256_set_epi64x(d, c, b, a));
    let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
    _mm256_cmpeq_epi8(_mm256_and_si256(bits, own), own)
}

struct Avx512;

impl Lines for Avx512 {
    type Line = __m512i;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(from: *const u8) -> Self::Line {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store(line: Self::Line, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), line) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn blend(line: Self::Line, mask: u64, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), mask, line) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn differing(one: Self::Line, other: Self::Line) -> u64 {
        _mm512_cmpneq_epi8_mask(one, other)
    }
}
