//! Tracking: how the writes to pages that several nodes may write are found.
//!
//! Role: one trait, one file per backend, one conformance suite (tests/tracking.rs) over both. A
//! tracker has whole pages of shared memory mapped by the caller, all allocated, in a range that
//! nobody else registers with userfaultfd: a mapping has one guard or one tracker.
//!
//! | backend | the first write to a page since a scan | a scan |
//! |---|---|---|
//! | [`TrackingKind::Faults`] | traps; the handler notes the page and opens it | closes the noted pages |
//! | [`TrackingKind::Scans`] | the kernel opens the page, nobody is told | the kernel names pages opened, and closes them |
//!
//! Both keep this: a write is named by the scan that it was made before, or by the next one if it
//! was made meanwhile; none is left out. A scan may name a page that was not written, where the
//! kernel had dropped its entry. What a scan does *not* give is what a page held before the write:
//! a twin has to be made by other means, and only the trap comes early enough to make it lazily.
//! So [`TrackingKind::Scans`] serves where no twin is needed: at a home, to tell whether a page was
//! written at all.
#![expect(unsafe_code, reason = "who attaches a range vouches for it")]

use core::ffi::c_void;
use core::fmt;
use core::ops::Range;

use libc::siginfo_t;

use crate::error::MemoryError;
use crate::trap::Trap;

mod faults;
mod pagemap;
mod scans;

/// A way to find writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrackingKind {
    /// Pages are opened by a write fault: userfaultfd with SIGBUS in the faulting thread.
    Faults,
    /// Pages stay open: userfaultfd in its asynchronous mode, and `PAGEMAP_SCAN` (Linux 6.7).
    Scans,
}

impl fmt::Display for TrackingKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Faults => "faults",
            Self::Scans => "scans",
        })
    }
}

/// Finds writes to pages. Every method may run in several threads at a time.
pub trait Tracking: Send + Sync + fmt::Debug {
    /// The backend.
    fn kind(&self) -> TrackingKind;

    /// Takes charge of whole pages; none of them counts as written when this returns.
    ///
    /// # Errors
    /// A failing system call: not shared memory, or somebody else's already.
    ///
    /// # Safety
    /// The range is mapped, of shared memory, and whoever touches it may be answered with a trap
    /// (see [`Tracking::decode`]). It stays mapped as long as it is tracked.
    unsafe fn attach(&self, address: usize, bytes: usize) -> Result<(), MemoryError>;

    /// Names the pages of an attached range that were written since it was attached or last
    /// scanned, as ranges of addresses in ascending order. Each is closed before it is named: what
    /// is written to it afterwards, a later scan names.
    ///
    /// # Errors
    /// A failing system call; pages may have been named before.
    fn scan(
        &self,
        address: usize,
        bytes: usize,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), MemoryError>;

    /// The trap behind a signal, if it can be this tracker's. Call it in the signal's handler with
    /// the handler's own arguments, and with no others: it reads them.
    fn decode(&self, signal: i32, info: *const siginfo_t, context: *const c_void) -> Option<Trap>;

    /// Answers a trap on an attached page: the access is possible when this returns.
    ///
    /// # Errors
    /// A failing system call.
    fn open(&self, trap: Trap) -> Result<(), MemoryError>;
}

/// A tracker of that kind.
///
/// # Errors
/// [`MemoryError::TrackingUnavailable`] where the kernel does not have it.
pub fn tracking(kind: TrackingKind) -> Result<Box<dyn Tracking>, MemoryError> {
    Ok(match kind {
        TrackingKind::Faults => Box::new(faults::Faults::open()?),
        TrackingKind::Scans => Box::new(scans::Scans::open()?),
    })
}
