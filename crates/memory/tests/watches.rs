//! Watched minipages: open, and named when they were written.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod harness;

use harness::*;
use multigrain_memory::{Area, Config, GuardChoice, Memory, MemoryError, Shape};
use multigrain_types::{Access, AreaId};

const SHARED: u64 = 64 << 20;

/// An area of 30 pages, in minipages of one page and of three.
fn with_areas(fresh: bool, test: impl Fn(&Node, &Area)) {
    let Some(node) = Node::start_watching(SHARED) else { return };
    for (id, pages) in (0..).zip([1, 3]) {
        let area = area(id, id as usize * 4, u64::from(id) * 30, 30, Shape::Pages { pages });
        node.map(area, fresh);
        node.memory.watch_area(area.id).unwrap();
        test(&node, &area);
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
fn what_is_written_to_watched_minipages_is_named_once_and_never_traps() {
    with_areas(true, |node, area| {
        write(last_word(area, 7), 5);
        for index in 2..area.minipages() {
            node.memory.watch(minipage(area, index), Access::ReadWrite).unwrap();
        }
        assert_eq!(written(node), [], "written before");
        for index in [4, 9, 3] {
            write(last_word(area, index), index);
        }
        assert_eq!((written(node), written(node)), (vec![3, 4, 9], vec![]));
        write(last_word(area, 9), 1);
        assert_eq!(read(last_word(area, 7)), 5);
        assert_eq!((written(node), take_log()), (vec![9], Log::default()));
        node.memory.unmap_area(area.id).unwrap();
        assert_eq!(written(node), []);
    });
}

#[test]
fn a_copy_that_becomes_a_home_is_opened_and_watched_and_closed_again_if_it_leaves() {
    with_areas(false, |node, area| {
        let minipage = minipage(area, 5);
        assert_eq!(read(last_word(area, 5)), 0);
        assert_eq!(take_log().real, 1);
        node.memory.watch(minipage, Access::ReadOnly).unwrap();
        write(last_word(area, 5), 6);
        assert_eq!((written(node), take_log()), (vec![5], Log::default()));
        node.memory.protect(minipage, Access::ReadWrite, Access::ReadOnly).unwrap();
        assert_eq!(take_log(), Log::default());
        write(last_word(area, 5), 7);
        assert_eq!(take_log().real, 1, "it traps as any other");
        node.memory.unmap_area(area.id).unwrap();
    });
}

#[test]
fn no_write_is_lost_while_threads_write() {
    with_areas(true, |node, area| {
        let rounds = 2000;
        let all = 0..area.minipages();
        all.clone().for_each(|index| {
            node.memory.watch(minipage(area, index), Access::ReadWrite).unwrap();
        });
        let seen = std::sync::Mutex::new(vec![0; all.len()]);
        let look = || {
            let mut seen = seen.lock().unwrap();
            for index in written(node) {
                seen[index as usize] = read(last_word(area, index));
            }
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 1..=rounds {
                    all.clone().for_each(|index| write(last_word(area, index), round));
                }
            });
            while !writer.is_finished() {
                look();
            }
        });
        look();
        assert_eq!(*seen.lock().unwrap(), vec![rounds; all.len()]);
        node.memory.unmap_area(area.id).unwrap();
    });
}

#[test]
fn memory_without_watches_names_nothing_and_the_guard_uffd_has_none() {
    let Some(node) = Node::start(GuardChoice::Mprotect, SHARED) else { return };
    let area = area(0, 0, 0, 4, Shape::Pages { pages: 1 });
    node.map(area, true);
    node.memory.watch_area(AreaId(0)).unwrap();
    write(area.base, 1);
    assert_eq!((written(&node), node.memory.watches()), (vec![], false));
    drop(node);
    without_node(|| {
        let config = Config { shared_bytes: SHARED, guard: GuardChoice::Uffd };
        let Ok(memory) = Memory::new(&config) else { return };
        let error = memory.with_watches().unwrap_err();
        assert_eq!(error, MemoryError::WatchedByTwo);
        assert!(error.to_string().contains("use --guard mprotect"));
    });
}
