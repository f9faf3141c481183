//! Copies in and out of shared memory, word by word.
//!
//! Each word is an atomic access, so that a copy that races with a writer gets some value of every
//! word and the compiler knows that others write. Acquire and release cost nothing on x86 and let
//! a flag announce data.

#![expect(unsafe_code, reason = "shared memory is reached by pointer")]

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::shareable::Shareable;

/// A number the machine loads and stores whole.
trait Word: Copy {
    /// # Safety
    /// `from` is valid shared memory, aligned.
    unsafe fn load(from: *mut Self) -> Self;
    /// # Safety
    /// `to` is valid shared memory, aligned.
    unsafe fn store(to: *mut Self, word: Self);
}

macro_rules! word {
    ($($word:ty, $atomic:ty;)*) => {$(
        impl Word for $word {
            #[inline(always)]
            unsafe fn load(from: *mut Self) -> Self {
                // SAFETY: the caller says so; all accesses of shared words are atomic.
                unsafe { <$atomic>::from_ptr(from) }.load(Ordering::Acquire)
            }

            #[inline(always)]
            unsafe fn store(to: *mut Self, word: Self) {
                // SAFETY: the caller says so; all accesses of shared words are atomic.
                unsafe { <$atomic>::from_ptr(to) }.store(word, Ordering::Release);
            }
        }
    )*};
}

word! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// A copy of the value at `from`.
///
/// # Safety
/// `from` is valid, aligned shared memory of a `T`.
#[inline]
pub(crate) unsafe fn load<T: Shareable + Copy>(from: *mut T) -> T {
    match align_of::<T>() {
        // SAFETY: the caller's promise; words are aligned as T is.
        1 => unsafe { load_by::<u8, T>(from) },
        // SAFETY: as above.
        2 => unsafe { load_by::<u16, T>(from) },
        // SAFETY: as above.
        4 => unsafe { load_by::<u32, T>(from) },
        // SAFETY: as above.
        _ => unsafe { load_by::<u64, T>(from) },
    }
}

/// Copies `value` to `to`.
///
/// # Safety
/// `to` is valid, aligned shared memory of a `T`.
#[inline]
pub(crate) unsafe fn store<T: Shareable + Copy>(to: *mut T, value: T) {
    match align_of::<T>() {
        // SAFETY: the caller's promise; words are aligned as T is.
        1 => unsafe { store_by::<u8, T>(to, &value) },
        // SAFETY: as above.
        2 => unsafe { store_by::<u16, T>(to, &value) },
        // SAFETY: as above.
        4 => unsafe { store_by::<u32, T>(to, &value) },
        // SAFETY: as above.
        _ => unsafe { store_by::<u64, T>(to, &value) },
    }
}

/// # Safety
/// As [`load`]; `T` is aligned as `W`, or better.
#[inline(always)]
unsafe fn load_by<W: Word, T: Shareable + Copy>(from: *mut T) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    for index in 0..size_of::<T>() / size_of::<W>() {
        // SAFETY: within the value at `from`.
        let source = unsafe { from.cast::<W>().add(index) };
        // SAFETY: the caller's promise.
        let word = unsafe { W::load(source) };
        // SAFETY: within `value`.
        let place = unsafe { value.as_mut_ptr().cast::<W>().add(index) };
        // SAFETY: `place` is in `value` and aligned.
        unsafe { place.write(word) };
    }
    // SAFETY: a size is a multiple of the alignment, so all bytes are written; any are a value.
    unsafe { value.assume_init() }
}

/// # Safety
/// As [`store`]; `T` is aligned as `W`, or better.
#[inline(always)]
unsafe fn store_by<W: Word, T: Shareable + Copy>(to: *mut T, value: &T) {
    for index in 0..size_of::<T>() / size_of::<W>() {
        // SAFETY: within `value`.
        let source = unsafe { (&raw const *value).cast::<W>().add(index) };
        // SAFETY: `source` is in `value` and aligned; no byte of it is padding.
        let word = unsafe { source.read() };
        // SAFETY: within the value at `to`.
        let place = unsafe { to.cast::<W>().add(index) };
        // SAFETY: the caller's promise.
        unsafe { W::store(place, word) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Shareable + Copy + PartialEq + core::fmt::Debug>(value: T, other: T) {
        let mut place = other;
        // SAFETY: `place` is valid and nobody else's.
        unsafe { store(&raw mut place, value) };
        assert_eq!(place, value);
        // SAFETY: as above.
        assert_eq!(unsafe { load(&raw mut place) }, value);
    }

    #[test]
    fn values_of_every_alignment_come_back_whole() {
        there_and_back([1u8, 2, 3], [0; 3]);
        there_and_back([1u16, 2, 3], [0; 3]);
        there_and_back([1.5f32, 2.5, 3.5], [0.0; 3]);
        there_and_back([u64::MAX, 0, 7], [0; 3]);
        there_and_back(-1.5f64, 0.0);
    }
}
