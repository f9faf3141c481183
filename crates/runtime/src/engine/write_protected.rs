//! Runs of minipages that are closed for writes already, before the protocol reaches each of them.

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_memory::{Memory, MemoryError};
use multigrain_types::MinipageId;

/// How often any minipage of this node was opened for writes.
#[derive(Debug, Default)]
pub(super) struct Openings(AtomicU64);

impl Openings {
    /// A minipage has been opened; its lock is held.
    pub(super) fn count(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// Runs of minipages whose threads cannot write any more, though their states say so.
pub(super) struct Closed {
    runs: Vec<(MinipageId, u32)>,
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
        memory: &Memory,
        openings: &Openings,
    ) -> Result<Self, MemoryError> {
        // Before they are closed, on every processor: what is opened after it counts as opened since.
        let opened = openings.0.load(Ordering::Acquire);
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
            if memory.restrict_run(first, count)? {
                closed.push((first, count));
            }
        }
        Ok(Self { runs: closed, opened })
    }

    /// Whether no thread of this node can write the minipage since then. Opening one counts when
    /// it is open and before it gives up the lock, which the caller holds now; so whatever was opened
    /// after it was closed has been counted.
    pub(super) fn still(&self, minipage: MinipageId, openings: &Openings) -> bool {
        self.contains(minipage) && self.opened == openings.0.load(Ordering::Relaxed)
    }

    fn contains(&self, minipage: MinipageId) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= minipage);
        self.runs[..after].last().is_some_and(|(first, count)| {
            first.area() == minipage.area() && minipage.index() - first.index() < *count
        })
    }
}
