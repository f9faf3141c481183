//! Runs of minipages that are closed already, for writes or for all, before the protocol reaches each of them.

use core::sync::atomic::{AtomicU64, Ordering};

use multigrain_memory::MemoryError;
use multigrain_protocol::Tables as _;
use multigrain_types::{Access, MinipageId};

use crate::minipage_run::{Run, runs_of};
use crate::state_tables::SharedTables;

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
    /// Closes those of these minipages, which are in order, that lie next to each other. Under their locks, and only where all
    /// have the access that is taken from them: one may have been opened to write since they were listed. If it was opened
    /// ahead and has not been written, its own step makes a read copy of it first (`protocol/src/hlrc/copy`), for which
    /// `mprotect` opens it to read; if it counted as closed for all, that would be all, and old contents could be read.
    ///
    /// # Errors
    /// What `restrict` says, which changes the protection of a run if it is one view's.
    pub(super) fn close(
        minipages: &[MinipageId],
        change: (Access, Access),
        (tables, openings): (&SharedTables, &Openings),
        restrict: impl Fn(Run, (Access, Access)) -> Result<bool, MemoryError>,
    ) -> Result<Self, MemoryError> {
        #[cfg(feature = "mutants")]
        let unseen = super::mutants::closes_unseen(change.1);
        // Before they are closed, on every processor: what is opened after it counts as opened since.
        let opened = openings.against(change.1).load(Ordering::Acquire);
        let mut closed = Vec::new();
        // One alone costs the same later, under its lock.
        for run in runs_of(minipages.iter().copied()).filter(|run| run.count() > 1) {
            let mut states = &tables.lock_run(run);
            let is_open = |minipage| states.minipage(minipage).access() == change.0;
            let are_open = run.minipages().all(is_open);
            #[cfg(feature = "mutants")]
            let are_open = are_open || unseen;
            if are_open && restrict(run, change)? {
                closed.push((run.first(), run.count()));
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
    use core::cell::RefCell;

    use multigrain_memory::{Area, Shape, VIEWS_BASE};
    use multigrain_protocol::Cell as _;
    use multigrain_protocol::coherence::Holder;
    use multigrain_types::{AreaId, Consistency, NodeId, Placement};

    use super::*;
    use crate::area::{AreaRecord, Items, Origin};

    #[test]
    fn a_run_is_left_alone_where_one_has_another_access_by_now() {
        let tables = SharedTables::new(NodeId(0), 2);
        let (id, shape) = (AreaId(3), Shape::Pages { pages: 1 });
        let area = Area { id, base: VIEWS_BASE, file_offset: 0, bytes: 16 * 4096, shape };
        let items = Items { bytes: 16 * 4096, count: 1, chunk: 1, array: false };
        let (consistency, origin) = (Consistency::Sequential, Origin::Heap);
        let record = AreaRecord { area, owner: NodeId(0), items, consistency, origin };
        assert!(tables.add(record, Placement::First));
        let at = |index| MinipageId::new(id, index);
        for index in 0..16 {
            let holder = if index == 2 { Holder::default() } else { Holder::owner() };
            *tables.lock(at(index)).holder() = holder;
        }
        let change = (Access::ReadWrite, Access::ReadOnly);
        let restricted = RefCell::new(Vec::new());
        let restrict = |run: Run, _| {
            restricted.borrow_mut().push(run);
            Ok(true)
        };
        let openings = Openings::default();
        let minipages: Vec<_> = (0..5).chain(7..9).chain([11]).map(at).collect();
        let closed = Closed::close(&minipages, change, (&tables, &openings), restrict).unwrap();
        assert_eq!(*restricted.borrow(), [Run::new(at(7), 2).unwrap()]);
        assert!(closed.still(Run::one(at(8)), change, &openings));
        assert!(!closed.still(Run::one(at(0)), change, &openings), "it is closed by itself");
    }

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
