//! Many minipages and many threads: the limits of each guard, and races. `multigrain bench memory` measures times.

mod harness;

use std::fs::read_to_string;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use harness::*;
use multigrain_memory::{GuardChoice, MemoryError, Shape};
use multigrain_types::{Access, MinipageId};

const MILLION: u32 = 1_000_000;

fn kernel_mappings() -> usize {
    read_to_string("/proc/self/maps").expect("/proc is mounted").lines().count()
}

#[test]
fn a_million_minipages_of_64_bytes_work_with_the_kernels_default_limits() {
    let Some(node) = Node::start(GuardChoice::Uffd, 128 << 20) else { return };
    let area = area(0, 0, 0, 15_625, Shape::sub_for(64, 8).unwrap());
    assert_eq!(area.minipages(), MILLION);
    let start = Instant::now();
    node.map(area, true);
    let mapped = start.elapsed();
    node.memory.populate(area.id, 0..15_625).unwrap();
    let populated = start.elapsed() - mapped;
    for index in 0..MILLION {
        write(area.address(index), index);
    }
    let touched = start.elapsed() - mapped - populated;
    assert_eq!(take_log(), Log::default());
    for index in (0..MILLION).step_by(4) {
        node.set(minipage(&area, index), Access::NoAccess);
    }
    for index in (2..MILLION).step_by(4) {
        node.set(minipage(&area, index), Access::ReadOnly);
    }
    let changed = start.elapsed() - mapped - populated - touched;
    assert!(kernel_mappings() < 1000, "{} mappings", kernel_mappings());
    for index in (0..MILLION).step_by(50_000) {
        assert_eq!(read(area.address(index)), index);
        write(area.address(index + 2), 1);
    }
    assert_eq!(take_log().real, 40);
    println!(
        "1,000,000 minipages, 64 views: map {mapped:.1?}, populate {populated:.1?}, touch all \
         {touched:.1?}, 500,000 restrictions {changed:.1?}, {} kernel mappings",
        kernel_mappings()
    );
}

#[test]
fn too_many_minipages_under_mprotect_give_an_error_that_names_the_way_out() {
    let limit: u32 = read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if limit > 300_000 {
        println!("skipped: vm.max_map_count is {limit}");
        return;
    }
    let pages = u64::from(limit) + 5_000;
    let node = Node::start(GuardChoice::Mprotect, pages * PAGE).unwrap();
    let area = area(0, 0, 0, pages, Shape::Pages { pages: 1 });
    node.map(area, true);
    let refused = (0..area.minipages()).step_by(2).find_map(|index| {
        node.memory.protect(minipage(&area, index), Access::ReadWrite, Access::ReadOnly).err()
    });
    // First of all make room again, for whatever else needs a mapping.
    drop(node);
    let error = refused.expect("no error at the limit");
    assert!(matches!(error, MemoryError::TooManyMinipages { .. }), "{error}");
    let line = error.to_string();
    assert!(line.contains("vm.max_map_count") && line.contains("--guard uffd"), "{line}");
}

/// Two reads of a word some time apart, for a write in between to show.
fn twice(node: &Node, target: MinipageId) -> (u32, u32) {
    let seen = privileged_word(node.memory, target);
    for _ in 0..200 {
        std::hint::spin_loop();
    }
    (seen, privileged_word(node.memory, target))
}

#[test]
fn a_racing_writer_never_writes_after_a_restriction_returned() {
    with_guards(1 << 20, |node| {
        let shapes = [Shape::Pages { pages: 1 }, Shape::Sub { slot: 1024, per_page: 4 }];
        for (id, shape) in (0..).zip(shapes) {
            let area = area(id, id as usize, u64::from(id), 1, shape);
            node.map(area, true);
            node.memory.populate(area.id, 0..1).unwrap();
            let target = minipage(&area, area.minipages() - 1);
            let done = AtomicBool::new(false);
            let (written, moved) = std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut value = 0;
                    while !done.load(Ordering::Relaxed) {
                        value += 1;
                        write(area.address(target.index()), value);
                    }
                    value
                });
                let moved = restrict_again_and_again(node, target);
                done.store(true, Ordering::Relaxed);
                (writer.join().unwrap(), moved)
            });
            assert_eq!(privileged_word(node.memory, target), written);
            assert!(moved > 50, "the writer got through {moved} times only");
        }
    });
}

/// Takes access from a writer of growing values; how often it had written in between.
fn restrict_again_and_again(node: &Node, target: MinipageId) -> u32 {
    let (mut moved, mut before) = (0, 0);
    for round in 0..4000 {
        let to = if round % 2 == 0 { Access::ReadOnly } else { Access::NoAccess };
        let (seen, later) = node.set_then(target, to, || twice(node, target));
        assert_eq!(seen, later, "written after {to:?}");
        assert!(seen >= before, "lost a write");
        moved += u32::from(seen > before);
        before = seen;
        // Let the writer in, or restrict it while it is still on its way.
        let micros = if round % 8 == 0 { 1000 } else { round % 50 };
        let patience = Instant::now() + Duration::from_micros(micros);
        while privileged_word(node.memory, target) == seen && Instant::now() < patience {}
    }
    moved
}

#[test]
fn first_touches_of_fresh_pages_race_with_restrictions_and_lose_nothing() {
    for to in [Access::NoAccess, Access::ReadOnly] {
        with_guards(32 << 20, |node| {
            let area = area(0, 0, 0, 8192, Shape::Pages { pages: 1 });
            node.map(area, true);
            let at = AtomicU32::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for index in 0..area.minipages() {
                        at.store(index, Ordering::Relaxed);
                        write(area.address(index), index + 1);
                    }
                });
                let mut next = 0;
                while next < area.minipages() {
                    // One page ahead of the writer, or the very page it is at.
                    next = next.max(at.load(Ordering::Relaxed) + next % 2);
                    let target = minipage(&area, next.min(area.minipages() - 1));
                    let (seen, later) = node.set_then(target, to, || twice(node, target));
                    assert_eq!(seen, later, "written after {to:?}");
                    next += 1;
                }
            });
            for index in 0..area.minipages() {
                assert_eq!(privileged_word(node.memory, minipage(&area, index)), index + 1);
            }
        });
    }
}

#[test]
fn threads_on_different_minipages_do_not_disturb_each_other() {
    with_guards(8 << 20, |node| {
        let area = area(0, 0, 0, 64, Shape::sub_for(256, 8).unwrap());
        node.map(area, false);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 1..50 {
                        for index in (thread..area.minipages()).step_by(4) {
                            let address = area.address(index);
                            write(address, read(address) + 1);
                            assert_eq!(read(address), round);
                            node.set(minipage(&area, index), Access::NoAccess);
                        }
                    }
                    assert_eq!(take_log().spurious, 0);
                });
            }
        });
    });
}

#[test]
fn areas_come_while_others_are_translated() {
    const AREAS: u32 = 300;
    with_guards(8 << 20, |node| {
        let shape = Shape::sub_for(512, 8).unwrap();
        let nth = |id: u32| area(id, id as usize, 0, 16, shape);
        node.map(nth(0), true);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for id in 1..=AREAS {
                    node.memory.map_area(nth(id), false).unwrap();
                }
            });
            for id in 1..=AREAS {
                let comes = minipage(&nth(id), 99);
                loop {
                    let found = node.memory.translate(nth(0).address(77));
                    assert_eq!(found, Some(minipage(&nth(0), 77)));
                    match node.memory.translate(nth(id).address(99)) {
                        None => std::thread::yield_now(),
                        found => break assert_eq!(found, Some(comes)),
                    }
                }
            }
        });
    });
}
