//! Runs of minipages that are closed already, for writes or for all, before the protocol reaches each of them.

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_memory::{Memory, MemoryError};
use multigrain_types::{Access, MinipageId};

use crate::minipage_run::Run;

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

    /// Whether this change of protection of all of a run has been made, and still is. Opening one counts when
    /// it is open and before it gives up the lock, which the caller holds now; so whatever was opened
    /// after it was closed has been counted.
    pub(super) fn still(&self, run: Run, change: (Access, Access), openings: &Openings) -> bool {
        let opened = openings.against(self.change.1).load(Ordering::Relaxed);
        self.change == change && self.contains(run) && self.opened == opened
    }

    /// Whether all of a run were closed: neighbours were closed together.
    fn contains(&self, run: Run) -> bool {
        let after = self.runs.partition_point(|(first, _)| *first <= run.first());
        self.runs[..after].last().is_some_and(|(first, count)| {
            first.area() == run.first().area() && run.end() - first.index() <= *count
        })
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;
    use multigrain_types::AreaId;

    #[test]
    fn a_run_is_closed_if_all_of_it_is_and_none_has_been_opened_since() {
        let at = |area, index| MinipageId::new(AreaId(area), index);
        let change = (Access::ReadWrite, Access::ReadOnly);
        let openings = Openings::default();
        let closed = Closed { runs: vec![(at(1, 4), 4), (at(2, 0), 2)], change, opened: 0 };
        let is_closed =
            |first, count| closed.still(Run::new(first, count).unwrap(), change, &openings);
        assert!(is_closed(at(1, 4), 4) && is_closed(at(1, 7), 1) && is_closed(at(2, 1), 1));
        assert!(!is_closed(at(1, 3), 2) && !is_closed(at(1, 7), 2) && !is_closed(at(1, 8), 1));
        assert!(!is_closed(at(2, 0), 3) && !is_closed(at(0, 0), 1) && !is_closed(at(3, 0), 1));
        let other = (Access::ReadOnly, Access::NoAccess);
        assert!(!closed.still(Run::one(at(1, 4)), other, &openings));
        openings.count(Access::ReadOnly);
        assert!(is_closed(at(1, 4), 4), "opened to read");
        openings.count(Access::ReadWrite);
        assert!(!is_closed(at(1, 4), 4));
    }
}
