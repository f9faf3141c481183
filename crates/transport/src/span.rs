//! Pieces of memory by their addresses.
//!
//! No Rust reference may ever be made into memory that the application writes: such bytes are named by a
//! [`Span`] and copied by pointer.
#![expect(unsafe_code, reason = "copies from and to raw memory")]

/// A piece of memory for the kernel to read or to fill.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Span(libc::iovec);

impl Span {
    /// No memory at all.
    pub(crate) const EMPTY: Span = Span::at(core::ptr::null_mut(), 0);

    pub(crate) const fn at(start: *mut u8, len: usize) -> Self {
        Self(libc::iovec { iov_base: start.cast(), iov_len: len })
    }

    /// For sending: the kernel does not write to it.
    pub(crate) const fn of(bytes: &[u8]) -> Self {
        Self::at(bytes.as_ptr().cast_mut(), bytes.len())
    }

    pub(crate) const fn of_mut(bytes: &mut [u8]) -> Self {
        Self::at(bytes.as_mut_ptr(), bytes.len())
    }

    pub(crate) const fn start(&self) -> *mut u8 {
        self.0.iov_base.cast()
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.iov_len
    }
}

/// An address that may cross threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw(pub(crate) *mut u8);

// SAFETY: an address alone does nothing; who follows it argues for the memory behind it.
unsafe impl Send for Raw {}

/// Copies `bytes` to `place`.
///
/// # Safety
/// `place` is writable for `bytes.len()` and does not overlap `bytes`.
pub(crate) unsafe fn copy_to(place: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller vouches for `place`.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) }
}

/// Fills `bytes` from `place`.
///
/// # Safety
/// `place` is readable for `bytes.len()` and does not overlap `bytes`.
pub(crate) unsafe fn copy_from(place: *const u8, bytes: &mut [u8]) {
    // SAFETY: the caller vouches for `place`.
    unsafe { core::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) }
}

/// Appends the bytes of `span` to `out`.
///
/// # Safety
/// The span is readable for its length and not a part of `out`.
pub(crate) unsafe fn append(span: Span, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + span.len(), 0);
    if span.len() > 0 {
        // SAFETY: the caller vouches for the span.
        unsafe { copy_from(span.start(), &mut out[start..]) };
    }
}
