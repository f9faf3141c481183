//! Critical sections of a thread: whether it is in one, and whether it only polls under a contended lock.
//!
//! Role: what a thread faults on in a critical section is likely to be migratory (ADR 47); and a thread that
//! only polls ends the window of its lock early (ADR 41). Minipages on which the thread faulted in the section
//! since the token came are *watched*: if the contents of all are as they were when the lock was last released,
//! the section was *idle*. After [`IDLE`] of them in a row other nodes get the lock before the thread gets it
//! again. It may be that the thread only reads what others write: it has had some turns then.
//!
//! State of the thread, without destructor: usable in a trap.

use core::cell::Cell;

use multigrain_types::MinipageId;

/// Idle sections in a row that a window may have.
const IDLE: u8 = 4;
/// Minipages that are watched: a section that needs more is taken to be a busy one.
const MOST: usize = 4;
/// Writes that trap in a section from which on it is long: what it is likely to write is opened ahead (ADR 46).
const LONG: u8 = 8;

/// A thread's critical sections; most is about those under the contended lock that it used last.
#[derive(Clone, Copy, Debug)]
struct Section {
    /// Locks that the thread has, and units of semaphores that it has taken and not given back: both since it
    /// passed a barrier.
    locks: u8,
    units: u8,
    /// How often it has acquired anything.
    acquisitions: u32,
    /// Writes that trapped since the thread took a lock last, or gave one back.
    writes: u8,
    /// The thread has the contended lock.
    within: bool,
    /// Each with its checksum when the lock was given back last.
    watched: [Option<(MinipageId, Option<u64>)>; MOST],
    /// More were needed.
    overflow: bool,
    /// Idle sections in a row.
    idle: u8,
}

impl Section {
    const NONE: Self = Self {
        locks: 0,
        units: 0,
        acquisitions: 0,
        writes: 0,
        within: false,
        watched: [None; MOST],
        overflow: false,
        idle: 0,
    };

    fn begin(&mut self, token_came: bool) {
        if token_came {
            let Self { locks, units, acquisitions, writes, .. } = *self;
            *self = Self { locks, units, acquisitions, writes, ..Self::NONE };
        }
        self.within = true;
    }

    fn needs(&mut self, minipage: MinipageId) {
        if !self.within {
            return;
        }
        let mut places = self.watched.iter_mut();
        let place = places.find(|place| place.is_none_or(|(watched, _)| watched == minipage));
        match place {
            // It may have been written elsewhere in between.
            Some(place) => *place = Some((minipage, None)),
            None => self.overflow = true,
        }
    }

    fn end(&mut self, checksum: impl Fn(MinipageId) -> Option<u64>) -> bool {
        self.within = false;
        let mut idle = self.watched[0].is_some() && !self.overflow;
        for (minipage, before) in self.watched.iter_mut().flatten() {
            let now = checksum(*minipage);
            idle &= now.is_some() && *before == now;
            *before = now;
        }
        self.idle = if idle { self.idle.saturating_add(1) } else { 0 };
        self.idle >= IDLE
    }
}

thread_local! {
    static SECTION: Cell<Section> = const { Cell::new(Section::NONE) };
}

fn with<R>(act: impl FnOnce(&mut Section) -> R) -> R {
    SECTION.with(|cell| {
        let mut section = cell.get();
        let result = act(&mut section);
        cell.set(section);
        result
    })
}

/// This thread has taken a lock.
pub(crate) fn lock() {
    with(|section| (section.locks, section.writes) = (section.locks.saturating_add(1), 0));
}

/// It is about to give one back.
pub(crate) fn unlock() {
    with(|section| (section.locks, section.writes) = (section.locks.saturating_sub(1), 0));
}

/// It has taken a unit of a semaphore.
pub(crate) fn take_unit() {
    with(|section| section.units = section.units.saturating_add(1));
}

/// It is about to give units.
pub(crate) fn give_unit() {
    with(|section| section.units = section.units.saturating_sub(1));
}

/// It passes a barrier.
pub(crate) fn pass_barrier() {
    with(|section| (section.locks, section.units) = (0, 0));
}

/// The critical section that a thread writes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectionLength {
    /// It holds no lock.
    None,
    /// One that is likely to be over before it writes much more.
    Short,
    /// One in which it has written much.
    Long,
}

/// A write of it has trapped: in what section.
pub(crate) fn writes() -> SectionLength {
    with(|section| {
        section.writes = section.writes.saturating_add(1);
        match (section.locks > 0, section.writes < LONG) {
            (false, _) => SectionLength::None,
            (true, true) => SectionLength::Short,
            (true, false) => SectionLength::Long,
        }
    })
}

/// Whether it has a lock, or a semaphore's unit: it may be in a critical section.
pub(crate) fn is_critical() -> bool {
    let section = SECTION.with(Cell::get);
    section.locks > 0 || section.units > 0
}

/// This thread acquires: what others wrote before is taken from its node.
pub(crate) fn acquire() {
    with(|section| section.acquisitions = section.acquisitions.wrapping_add(1));
}

/// How often it has, modulo 2^32.
pub(crate) fn acquisitions() -> u32 {
    SECTION.with(Cell::get).acquisitions
}

/// Whether the last section under the contended lock changed nothing.
pub(crate) fn was_idle() -> bool {
    SECTION.with(Cell::get).idle > 0
}

/// This thread has taken a contended lock; `token_came`: it had to wait for it.
pub(crate) fn begin(token_came: bool) {
    with(|section| section.begin(token_came));
}

/// It has trapped at a minipage.
pub(crate) fn needs(minipage: MinipageId) {
    with(|section| section.needs(minipage));
}

/// It is about to give the lock back: whether it only polls. `checksum`: of a minipage as it is; none if that is not
/// worth the time.
pub(crate) fn end(checksum: impl Fn(MinipageId) -> Option<u64>) -> bool {
    with(|section| section.end(checksum))
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;
    use multigrain_types::AreaId;

    fn minipage(index: u32) -> MinipageId {
        MinipageId::new(AreaId(1), index)
    }

    /// Sections after the token came; each has these contents of its one minipage, on which the first faults.
    fn sections(contents: &[u64]) -> Vec<bool> {
        let mut section = Section::NONE;
        section.begin(true);
        section.needs(minipage(0));
        let mut polls = Vec::new();
        for &now in contents {
            polls.push(section.end(|_| Some(now)));
            section.begin(false);
        }
        polls
    }

    #[test]
    fn a_thread_polls_that_changes_nothing_in_four_sections() {
        assert_eq!(sections(&[7; 6]), [false, false, false, false, true, true]);
        assert_eq!(sections(&[7, 7, 7, 8, 8, 8, 8, 8]).iter().filter(|polls| **polls).count(), 1);
        assert!(!sections(&[1, 2, 3, 4, 5, 6, 7, 8]).contains(&true));
        assert!(!sections(&[7; 600])[4..].contains(&false), "it polls for as long as it likes");
    }

    #[test]
    fn a_section_that_needs_other_minipages_than_before_is_no_poll() {
        let mut section = Section::NONE;
        section.begin(true);
        for index in 0..8 {
            section.needs(minipage(index));
            assert!(!section.end(|_| Some(7)));
            section.begin(false);
        }
        assert!(!section.end(|_| Some(7)), "it needed more than are watched");
    }

    #[test]
    fn a_section_is_long_from_its_eighth_write_on_and_each_lock_begins_anew() {
        let all = |count: usize| -> Vec<SectionLength> { (0..count).map(|_| writes()).collect() };
        assert_eq!(all(20), [SectionLength::None; 20]);
        lock();
        assert_eq!(all(7), [SectionLength::Short; 7]);
        assert_eq!(all(2), [SectionLength::Long; 2]);
        lock();
        assert_eq!(all(1), [SectionLength::Short]);
        unlock();
        assert_eq!(all(8)[6..], [SectionLength::Short, SectionLength::Long]);
        pass_barrier();
        assert_eq!(all(1), [SectionLength::None]);
    }

    #[test]
    fn nothing_is_known_of_a_section_without_faults() {
        let mut section = Section::NONE;
        for _ in 0..8 {
            section.begin(false);
            assert!(!section.end(|_| unreachable!()));
        }
    }

    #[test]
    fn faults_outside_of_sections_do_not_count_and_a_token_that_comes_begins_anew() {
        let mut section = Section::NONE;
        section.needs(minipage(0));
        assert!(section.watched[0].is_none());
        section.begin(true);
        section.needs(minipage(0));
        (0..5).for_each(|_| _ = section.end(|_| Some(7)));
        assert!(section.idle >= IDLE);
        section.begin(true);
        assert!(!section.end(|_| Some(7)));
    }
}
