//! Diffs: what a node wrote to a minipage since it made the twin, byte for byte.
//!
//! Role: the multiple-writer part of release consistency (MGS; twins and diffs as in Munin). Before
//! its first write a node copies the minipage, the *twin*. At a release it sends only the bytes in
//! which page and twin differ, and whoever has a copy writes those bytes and no others. So writers
//! of different bytes of one minipage keep each other's writes, also within one word.
//!
//! The format is in `diff/format.rs`.
//!
//! # Invariants
//! The page is memory that applications write meanwhile, so there is never a reference to it. Each
//! of its words is read once, for comparing and for sending: a diff holds no value that was not
//! there. Bytes a diff does not name are never written, not even with the value they have, where other
//! threads may write them ([`Others`]). A diff comes from a peer: all of it is checked before anything is
//! written.
//!
//! Nothing here takes a lock or allocates, but for the output's growth: for signal context too.
//! What it must not know: who wrote, in which order diffs apply, minipages.
#![expect(unsafe_code, reason = "reads and writes pages that applications write, by pointer")]

mod apply;
mod compare;
mod encode;
mod format;
mod kernel;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use format::{Diff, DiffError, Runs};
pub use kernel::Kernel;

/// Bytes of a line.
pub const LINE_BYTES: usize = 64;
/// The longest page that line numbers can count, in bytes.
pub const MAX_PAGE_BYTES: usize = (LINE_BYTES << 32) - 1;

/// No diff of a page of so many bytes is longer: a line that changed wholly costs 16 bytes more than
/// itself, any other less.
#[must_use]
pub const fn most_bytes(page: usize) -> usize {
    (LINE_BYTES + 16) * page.div_ceil(LINE_BYTES)
}

/// Bytes of a word.
const WORD_BYTES: usize = 8;
/// The mask of a line that changed wholly.
const WHOLE: u64 = u64::MAX;

/// Appends to `out` what changed in the page since its twin was made, and returns how many bytes
/// that are. Appends nothing if nothing changed.
///
/// Writes that come after their word was read are not in the diff: restrict the minipage first if
/// the twin is given up afterwards, or they are lost. The twin stays as it is.
///
/// # Panics
/// If the twin is longer than [`MAX_PAGE_BYTES`].
///
/// # Safety
/// `twin.len()` bytes at `page` are readable. Others may write them meanwhile.
#[inline]
pub unsafe fn encode(twin: &[u8], page: *const u8, out: &mut Vec<u8>) -> usize {
    // SAFETY: the caller's promise.
    unsafe { Kernel::best().encode(twin, page, out) }
}

/// Whether anything changed in the page since its twin was made.
///
/// # Safety
/// `twin.len()` bytes at `page` are readable. Others may write them meanwhile.
#[must_use]
#[inline]
pub unsafe fn differs(twin: &[u8], page: *const u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { Kernel::best().differs(twin, page) }
}

/// What others may do with a page while a diff is applied to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Others {
    /// They write bytes that the diff does not name. Slower where lines changed in part.
    Write,
    /// They read it only.
    Read,
}

/// Writes the bytes that a diff names, and returns how many that are.
///
/// Where the page is aligned to 8, a word whose bytes all changed is written by one store, and so
/// are halves and quarters of words. A node that has a twin of the page applies the diff to that as
/// well, or it would send these bytes as changes of its own.
///
/// # Errors
/// The diff is broken or leaves the page: nothing was written, and the peer is wrong.
///
/// # Safety
/// `len` bytes at `page` are writable. Others may read them meanwhile, and do what `others` says.
#[inline]
pub unsafe fn apply(
    diff: &[u8],
    page: *mut u8,
    len: usize,
    others: Others,
) -> Result<usize, DiffError> {
    let diff = Diff::check(diff, len)?;
    // SAFETY: the caller's promise.
    unsafe { diff.apply(page, others) };
    Ok(diff.changed())
}

impl Diff<'_> {
    /// Writes the bytes it names, as [`apply`] does.
    ///
    /// # Safety
    /// As many bytes at `page` as were checked for are writable. Others may read them meanwhile,
    /// and do what `others` says.
    #[inline]
    pub unsafe fn apply(&self, page: *mut u8, others: Others) {
        // SAFETY: the caller's promise.
        unsafe { Kernel::best().apply(self, page, others) };
    }
}

/// [`apply`] for memory that nobody else knows: a twin.
///
/// # Errors
/// As for [`apply`].
pub fn apply_to(diff: &[u8], page: &mut [u8]) -> Result<usize, DiffError> {
    // SAFETY: all of the slice is writable, and by nobody else.
    unsafe { apply(diff, page.as_mut_ptr(), page.len(), Others::Read) }
}
