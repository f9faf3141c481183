//! Watches: minipages that stay open while the kernel finds out who writes them.
//!
//! Role: the tracker ([`crate::Tracking`]) of scans beside the guard of protections. It attaches to the
//! views of whole areas and knows, of each area, between which minipages any was ever watched, for a
//! scan costs time by its length. It must not know who writes, or what for.
#![expect(unsafe_code, reason = "attaches the tracker to views that the caller has mapped")]

use core::ops::Range;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use multigrain_types::AreaId;

use crate::error::MemoryError;
use crate::layout::Area;
use crate::track::{Tracking, TrackingKind, tracking};

#[derive(Debug)]
pub(crate) struct Watches {
    tracker: Box<dyn Tracking>,
    /// Minipages between which all lie that were watched.
    areas: Mutex<BTreeMap<AreaId, Range<u32>>>,
}

impl Watches {
    pub(crate) fn open() -> Result<Self, MemoryError> {
        Ok(Self { tracker: tracking(TrackingKind::Scans)?, areas: Mutex::default() })
    }

    /// Takes charge of an area that was just mapped; nothing of it is watched yet.
    pub(crate) fn attach(&self, area: &Area) -> Result<(), MemoryError> {
        // SAFETY: the views are mapped, and this tracker never answers with a trap.
        unsafe { self.tracker.attach(area.base, area.span_bytes()) }
    }

    pub(crate) fn detach(&self, id: AreaId) {
        self.areas().remove(&id);
    }

    /// A minipage of these addresses counts as not written from now on.
    pub(crate) fn watch(
        &self,
        (id, index): (AreaId, u32),
        address: usize,
        bytes: usize,
    ) -> Result<(), MemoryError> {
        let mut areas = self.areas();
        let watched = areas.entry(id).or_insert(index..index + 1);
        *watched = watched.start.min(index)..watched.end.max(index + 1);
        drop(areas);
        self.tracker.scan(address, bytes, &mut |_| ())
    }

    /// Names addresses that were written, by range, among the minipages ever watched.
    pub(crate) fn written(
        &self,
        address_of: impl Fn(AreaId, &Range<u32>) -> Option<Range<usize>>,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), MemoryError> {
        let areas = self.areas().clone();
        for (id, minipages) in areas {
            if let Some(Range { start, end }) = address_of(id, &minipages) {
                self.tracker.scan(start, end - start, written)?;
            }
        }
        Ok(())
    }

    fn areas(&self) -> MutexGuard<'_, BTreeMap<AreaId, Range<u32>>> {
        self.areas.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
