//! One suite over all trackers: which writes a scan names, and that none is lost.

mod tracked;

use std::sync::atomic::{AtomicBool, Ordering};

use multigrain_memory::{TrackingKind, VIEWS_BASE};
use tracked::*;

const PAGES: usize = 300;

#[test]
fn nothing_counts_as_written_at_first_and_reading_is_no_writing() {
    with_trackers(PAGES, |tracked| {
        assert_eq!(tracked.scan_all(), []);
        assert!((0..PAGES).all(|page| read(address(page)) == 0));
        assert_eq!(tracked.scan_all(), []);
        assert_eq!(take_traps(), 0);
    });
}

#[test]
fn a_scan_names_the_pages_written_since_the_last_in_order() {
    with_trackers(PAGES, |tracked| {
        for page in [299, 7, 8, 9, 100, 0] {
            write(address(page) + 4092, 1);
        }
        assert_eq!(tracked.scan_all(), [0, 7, 8, 9, 100, 299]);
        assert_eq!(tracked.scan_all(), []);
        write(address(8), 2);
        assert_eq!(tracked.scan_all(), [8]);
        assert_eq!((read(address(8)), read(address(8) + 4092)), (2, 1));
    });
}

#[test]
fn a_scan_of_some_pages_leaves_the_others_to_later_scans() {
    with_trackers(PAGES, |tracked| {
        (0..PAGES).step_by(2).for_each(|page| write(address(page), 1));
        assert_eq!(tracked.scan(10..15), [10, 12, 14]);
        assert_eq!(tracked.scan(9..16), []);
        assert_eq!(tracked.scan(0..10).len() + tracked.scan(15..PAGES).len(), PAGES / 2 - 3);
        assert_eq!(tracked.scan_all(), []);
    });
}

#[test]
fn more_runs_than_one_call_has_room_for_are_all_named() {
    with_trackers(PAGES, |tracked| {
        for _ in 0..3 {
            let every: Vec<usize> = (0..PAGES).step_by(2).collect();
            every.iter().for_each(|&page| write(address(page), 1));
            assert_eq!(tracked.scan_all(), every);
        }
    });
}

#[test]
fn only_faults_trap_and_only_once_a_page_and_scan() {
    with_trackers(PAGES, |tracked| {
        let each = u64::from(tracked.tracker().kind() == TrackingKind::Faults);
        for round in 0..4 {
            (0..10).for_each(|page| write(address(page), round));
            assert_eq!(take_traps(), 10 * each);
            (0..10).for_each(|page| write(address(page) + 8, round));
            assert_eq!(take_traps(), 0);
            assert_eq!(tracked.scan_all().len(), 10);
        }
    });
}

#[test]
fn a_write_is_named_though_the_kernel_dropped_the_entry_since() {
    with_trackers(PAGES, |tracked| {
        write(address(5), 1);
        lose_entry(5);
        assert!(tracked.scan_all().contains(&5));
        // Dropped while closed: perhaps named for nothing, but its next write is not lost.
        lose_entry(6);
        write(address(6), 1);
        lose_entry(7);
        assert_eq!(read(address(7)), 0);
        write(address(7), 1);
        let found = tracked.scan_all();
        assert!(found.contains(&6) && found.contains(&7), "{found:?}");
        assert_eq!(tracked.scan_all(), []);
    });
}

#[test]
fn the_runtime_s_own_writes_by_another_view_are_not_named() {
    with_trackers(PAGES, |tracked| {
        let same = duplicate();
        write(same + 4096, 9);
        assert_eq!(read(address(1)), 9);
        assert_eq!(tracked.scan_all(), []);
    });
}

/// A second view of the first pages, which nobody tracks; it stays mapped.
#[expect(unsafe_code, reason = "maps the pages a second time")]
fn duplicate() -> usize {
    let start = std::ptr::with_exposed_provenance_mut(VIEWS_BASE);
    // SAFETY: an old size of 0 duplicates a shared mapping and leaves it as it is.
    let view = unsafe { libc::mremap(start, 0, 4 * 4096, libc::MREMAP_MAYMOVE) };
    assert_ne!(view, libc::MAP_FAILED);
    view.expose_provenance()
}

/// Writers count up without a pause, each on pages of its own, while scans run. A page that a scan
/// does not name has not changed between the scan before and this one.
#[test]
fn no_write_is_lost_while_scans_run() {
    const WRITERS: usize = 3;
    const SCANS: usize = 3000;
    let values = || (0..64).map(|page| read(address(page))).collect::<Vec<u32>>();
    with_trackers(64, |tracked| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let stop = &stop;
                scope.spawn(move || {
                    for round in 1.. {
                        // The fourth part of the pages rests.
                        (writer..64)
                            .step_by(WRITERS + 1)
                            .for_each(|page| write(address(page), round));
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            tracked.scan_all();
            let mut after = values();
            for scan in 0..SCANS {
                let before = values();
                let found = tracked.scan_all();
                let lost = |&page: &usize| before[page] != after[page] && !found.contains(&page);
                assert_eq!((0..64).find(lost), None, "scan {scan}");
                assert!(found.iter().all(|page| page % (WRITERS + 1) != WRITERS));
                after = values();
            }
            stop.store(true, Ordering::Relaxed);
        });
        tracked.scan_all();
        assert_eq!(tracked.scan_all(), []);
    });
}
