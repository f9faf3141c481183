//! Tracking: how writes to pages that several nodes may write are found.
//!
//! | way | the first write to a page since it was closed | who reports it |
//! |---|---|---|
//! | [`TrackingKind::Faults`] | traps, as the guard's traps do | the trap |
//! | [`TrackingKind::Scans`] | the kernel opens the page, nobody is told | a scan, which closes it again |
//!
//! Role: the tracker of scans, beside the guard of protections. It is told of the views of whole areas
//! and knows, of each area, between which minipages any was ever tracked, since a scan's time grows with its
//! length. A scan does *not* give what a page held before the write: a twin has to be made by other
//! means, and only a trap comes early enough. So scans serve where no twin is needed: at a home, to
//! tell whether a page was written at all. It must not know who writes, or what for.
//!
//! Invariant: a write is reported by the first scan after it, or by the next one if it was made during
//! that scan; none is lost. A scan may report a page that was not written, where the kernel had
//! dropped its entry.

use core::fmt;
use core::ops::Range;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use multigrain_types::AreaId;

use crate::error::MemoryError;
use crate::layout::Area;

mod pagemap;
mod scans;

/// A way to find writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrackingKind {
    /// A page is closed until it is written: the guard's traps tell.
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

/// Finds writes to tracked minipages, which stay open.
#[derive(Debug)]
pub(crate) struct Tracker {
    scans: scans::Scans,
    /// Minipages between which all lie that were tracked.
    areas: Mutex<BTreeMap<AreaId, Range<u32>>>,
}

impl Tracker {
    pub(crate) fn open() -> Result<Self, MemoryError> {
        Ok(Self { scans: scans::Scans::open()?, areas: Mutex::default() })
    }

    /// The descriptors it keeps open.
    pub(crate) fn descriptors(&self) -> [RawFd; 2] {
        self.scans.descriptors()
    }

    /// Takes charge of an area that was just mapped; nothing of it is tracked yet.
    pub(crate) fn attach(&self, area: &Area) -> Result<(), MemoryError> {
        self.scans.attach(area.base, area.span_bytes())
    }

    /// A minipage of these addresses counts as not written from now on.
    pub(crate) fn track(
        &self,
        (id, index): (AreaId, u32),
        address: usize,
        bytes: usize,
    ) -> Result<(), MemoryError> {
        let mut areas = self.areas();
        let tracked = areas.entry(id).or_insert(index..index + 1);
        *tracked = tracked.start.min(index)..tracked.end.max(index + 1);
        drop(areas);
        self.scans.scan(address, bytes, &mut |_| ())
    }

    /// Names addresses that were written, by range, among the minipages ever tracked.
    pub(crate) fn written(
        &self,
        address_of: impl Fn(AreaId, &Range<u32>) -> Option<Range<usize>>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), MemoryError> {
        let areas = self.areas().clone();
        for (id, minipages) in areas {
            if let Some(Range { start, end }) = address_of(id, &minipages) {
                self.scans.scan(start, end - start, written)?;
            }
        }
        Ok(())
    }

    fn areas(&self) -> MutexGuard<'_, BTreeMap<AreaId, Range<u32>>> {
        self.areas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
