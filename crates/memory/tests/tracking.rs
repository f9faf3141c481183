//! Tracked minipages: open, and reported when they were written; no write is lost.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod harness;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::*;
use multigrain_memory::{AccessPath, Area, Config, GuardChoice, Memory, MemoryError, Shape};
use multigrain_types::{Access, AreaId};

const SHARED: u64 = 64 << 20;
const PAGES: u64 = 300;

/// An area of 300 pages, in minipages of one page and of three. None of it is tracked yet.
fn with_areas(fresh: bool, test: impl Fn(&Node, &Area)) {
    for (path, pages) in AccessPath::ALL.into_iter().flat_map(|path| [(path, 1), (path, 3)]) {
        let Some(node) = Node::start_tracking(path, SHARED) else { return };
        let area = area(0, 0, 0, PAGES, Shape::Pages { pages });
        node.map(area, fresh);
        node.memory.track_area(area.id).unwrap();
        test(&node, &area);
    }
}

fn track(node: &Node, area: &Area, from: u32) {
    for index in from..area.minipages() {
        node.memory.track(minipage(area, index), Access::ReadWrite).unwrap();
    }
}

fn written(node: &Node) -> Vec<u32> {
    let mut named = Vec::new();
    node.memory.written(&mut |minipage| named.push(minipage.index())).unwrap();
    named.dedup();
    named
}

fn last_word(area: &Area, index: u32) -> usize {
    area.address(index) + area.minipage_bytes(index) - 4
}

#[test]
fn what_is_written_to_tracked_minipages_is_named_once_in_order_and_never_traps() {
    with_areas(true, |node, area| {
        write(last_word(area, 7), 5);
        track(node, area, 2);
        assert_eq!(written(node), [], "written before");
        for index in [40, 9, 3, 10] {
            write(last_word(area, index), index);
        }
        assert_eq!((written(node), written(node)), (vec![3, 9, 10, 40], vec![]));
        write(last_word(area, 9), 1);
        assert_eq!(read(last_word(area, 7)), 5);
        assert_eq!((written(node), take_log()), (vec![9], Log::default()));
    });
}

#[test]
fn reading_is_no_writing_and_what_the_runtime_writes_is_not_named() {
    with_areas(true, |node, area| {
        track(node, area, 0);
        assert!((0..area.minipages()).all(|index| read(area.address(index)) == 0));
        assert_eq!(written(node), []);
        let (bytes, _) = node.memory.privileged(minipage(area, 1));
        write(bytes.addr(), 9);
        assert_eq!(read(area.address(1)), 9);
        assert_eq!(written(node), []);
    });
}

#[test]
fn more_runs_than_one_call_has_room_for_are_all_named() {
    with_areas(true, |node, area| {
        track(node, area, 0);
        for round in 1..4 {
            let every: Vec<u32> = (0..area.minipages()).step_by(2).collect();
            every.iter().for_each(|&index| write(last_word(area, index), round));
            assert_eq!(written(node), every);
        }
    });
}

#[test]
fn a_write_is_named_though_the_kernel_dropped_the_entry_since() {
    with_areas(true, |node, area| {
        track(node, area, 0);
        write(area.address(5), 1);
        lose_entry(area.address(5));
        assert!(written(node).contains(&5));
        // Dropped while closed: perhaps named for nothing, but its next write is not lost.
        lose_entry(area.address(6));
        write(area.address(6), 1);
        lose_entry(area.address(7));
        assert_eq!(read(area.address(7)), 0);
        write(area.address(7), 1);
        let found = written(node);
        assert!(found.contains(&6) && found.contains(&7), "{found:?}");
        assert_eq!(written(node), []);
    });
}

#[test]
fn a_copy_that_becomes_a_home_is_opened_and_tracked_and_closed_again_if_it_leaves() {
    with_areas(false, |node, area| {
        let minipage = minipage(area, 5);
        assert_eq!(read(last_word(area, 5)), 0);
        assert_eq!(take_log().real, 1);
        node.memory.track(minipage, Access::ReadOnly).unwrap();
        write(last_word(area, 5), 6);
        assert_eq!((written(node), take_log()), (vec![5], Log::default()));
        node.memory.protect(minipage, Access::ReadWrite, Access::ReadOnly).unwrap();
        assert_eq!(take_log(), Log::default());
        write(last_word(area, 5), 7);
        assert_eq!(take_log().real, 1, "it traps as any other");
    });
}

/// Ends the writers, however the scans end.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writers count up without a pause, each in minipages of its own, while scans run. A minipage that
/// a scan does not name has not changed between the scan before and this one.
#[test]
fn no_write_is_lost_while_scans_run() {
    const WRITERS: u32 = 3;
    const TRACKED: u32 = 64;
    const SCANS: usize = 1500;
    /// Scans that have to name something before enough was seen.
    const BUSY: usize = 200;
    with_areas(true, |node, area| {
        track(node, area, 0);
        let values = || (0..TRACKED).map(|index| read(area.address(index))).collect::<Vec<u32>>();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let stop = &stop;
                scope.spawn(move || {
                    for round in 1.. {
                        // The fourth part of the minipages rests.
                        (writer..TRACKED)
                            .step_by(WRITERS as usize + 1)
                            .for_each(|index| write(area.address(index), round));
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            let _end = Stop(&stop);
            written(node);
            let mut after = values();
            let (mut scan, mut busy, end) = (0, 0, Instant::now() + Duration::from_secs(60));
            while scan < SCANS || busy < BUSY {
                assert!(Instant::now() < end, "{busy} of {scan} scans named something");
                let before = values();
                let found = written(node);
                (scan, busy) = (scan + 1, busy + usize::from(!found.is_empty()));
                let lost = |&index: &u32| {
                    before[index as usize] != after[index as usize] && !found.contains(&index)
                };
                assert_eq!((0..TRACKED).find(lost), None, "scan {scan}");
                assert!(found.iter().all(|index| index % (WRITERS + 1) != WRITERS));
                after = values();
            }
        });
        written(node);
        assert_eq!((written(node), take_log()), (vec![], Log::default()));
    });
}

#[test]
fn memory_that_does_not_track_names_nothing_and_the_guard_uffd_cannot() {
    let Some(node) = Node::start(GuardChoice::Mprotect, SHARED) else { return };
    let area = area(0, 0, 0, 4, Shape::Pages { pages: 1 });
    node.map(area, true);
    node.memory.track_area(AreaId(0)).unwrap();
    write(area.base, 1);
    assert_eq!((written(&node), node.memory.tracks()), (vec![], false));
    drop(node);
    without_node(|| {
        let config = Config::new(SHARED, GuardChoice::Uffd);
        let Ok(memory) = Memory::new(&config) else { return };
        let error = memory.with_tracking().unwrap_err();
        assert_eq!(error, MemoryError::TrackedAndGuarded);
        assert!(error.to_string().contains("use --guard mprotect"));
    });
}
