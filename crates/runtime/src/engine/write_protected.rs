//! Runs of minipages that are closed already, for writes or for all, before the protocol reaches each of them.

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_memory::{Memory, MemoryError};
use multigrain_types::{Access, MinipageId};

/// How often any minipage of this node was opened: for writes, and for any access.
#[derive(Debug, Default)]
pub(super) struct Openings {
    to_write: AtomicU64,
    at_all: AtomicU64,
}

impl Openings {
    /// A minipage has been opened; its lock is held.
    pub(super) fn count(&self, access: Access) {
        if access == Access::ReadWrite {
            self.to_write.fetch_add(1, Ordering::Release);
        }
        if access != Access::NoAccess {
            self.at_all.fetch_add(1, Ordering::Release);
        }
    }

    /// Of those that a change to `to` ends.
    fn against(&self, to: Access) -> &AtomicU64 {
        if to == Access::NoAccess { &self.at_all } else { &self.to_write }
    }
}

/// Runs of minipages whose threads have less access than their states say.
pub(super) struct Closed {
    runs: Vec<(MinipageId, u32)>,
    /// What their states say, and what there is.
    change: (Access, Access),
    /// [`Openings`] before they were closed.
    opened: u64,
}

impl Closed {
    /// Closes those of these minipages, which are in order, that lie next to each other.
    ///
    /// # Errors
    /// What the guard says.
    pub(super) fn close(
        minipages: &[MinipageId],
        change: (Access, Access),
        memory: &Memory,
        openings: &Openings,
    ) -> Result<Self, MemoryError> {
        // Before they are closed, on every processor: what is opened after it counts as opened since.
        let opened = openings.against(change.1).load(Ordering::Acquire);
        let mut runs: Vec<(MinipageId, u32)> = Vec::new();
        for &minipage in minipages {
            match runs.last_mut() {
                Some((first, count)) if first.0 + u64::from(*count) == minipage.0 => *count += 1,
                Some(_) | None => runs.push((minipage, 1)),
            }
        }
        // One alone costs the same later, under its lock.
        runs.retain(|(_, count)| *count > 1);
        let mut closed = Vec::with_capacity(runs.len());
        for (first, count) in runs {
            if memory.restrict_run(first, count, change)? {
                closed.push((first, count));
            }
        }
        Ok(Self { runs: closed, change, opened })
    }

    /// Whether this change of protection has been made, and still is. Opening one counts when
    /// it is open and before it gives up the lock, which the caller holds now; so whatever was opened
    /// after it was closed has been counted.
    pub(super) fn still(
        &self,
        minipage: MinipageId,
        change: (Access, Access),
        openings: &Openings,
    ) -> bool {
        let opened = openings.against(self.change.1).load(Ordering::Relaxed);
        self.change == change && self.contains(minipage) && self.opened == opened
    }

    fn contains(&self, minipage: MinipageId) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= minipage);
        self.runs[..after].last().is_some_and(|(first, count)| {
            first.area() == minipage.area() && minipage.index() - first.index() < *count
        })
    }
}
