//! Access paths (ParADE 4): a page is updated by one while threads are kept from it on the other; what a path needs, and
//! what it leaves.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod harness;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use harness::*;
use multigrain_memory::{
    AccessPath, Area, Config, GuardChoice, GuardKind, Memory, MemoryError, Object, Shape,
};
use multigrain_types::{Access, PAGE_BYTES};

/// Threads that go for one page at once.
const THREADS: usize = 6;

/// In each round a page is taken away, and its next contents come by the first trap; all threads read all of it meanwhile.
/// How many words were not the round's, and how many threads met a page that another thread's trap was for.
fn race(node: &Node, area: &Area, index: u32, rounds: u32, how: fn(u32) -> Update) -> [u32; 2] {
    let (target, address) = (minipage(area, index), area.address(index));
    let (met, old, raced) = (Barrier::new(THREADS + 1), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (met, old, raced) = (&met, &old, &raced);
            scope.spawn(move || {
                for round in 1..=rounds {
                    met.wait();
                    take_log();
                    // Some come when the update is under way.
                    (0..thread).for_each(|_| std::thread::yield_now());
                    let words = (0..area.minipage_bytes(index)).step_by(4);
                    let others = words.filter(|at| read(address + at) != round).count();
                    old.fetch_add(u32::try_from(others).unwrap(), Ordering::Relaxed);
                    raced.fetch_add(u32::from(take_log().spurious > 0), Ordering::Relaxed);
                    met.wait();
                }
            });
        }
        for round in 1..=rounds {
            node.set(target, Access::NoAccess);
            how(round).begin();
            met.wait();
            met.wait();
        }
    });
    Update::No.begin();
    [old.into_inner(), raced.into_inner()]
}

#[test]
fn paper_parade_s2_threads_that_race_for_a_page_never_read_it_torn_or_old() {
    with_paths(1 << 20, |node| {
        let shapes = [
            Shape::Pages { pages: 1 },
            Shape::Pages { pages: 3 },
            Shape::sub_for(1024, 8).unwrap(),
        ];
        for (id, shape) in (0..).zip(shapes) {
            let area = node.area(id, id as usize, u64::from(id) * 6, 6, shape);
            node.map(area, false);
            let [old, raced] = race(node, &area, 1, 300, Update::ThenOpened);
            assert_eq!(old, 0, "{shape:?} under {}", node.memory.guard());
            assert!(raced > 0, "no thread met another one's update");
        }
    });
}

#[test]
fn paper_parade_s2_a_page_that_is_opened_for_its_own_update_is_read_torn_or_old() {
    with_paths(1 << 20, |node| {
        let area = node.area(0, 0, 0, 6, Shape::Pages { pages: 1 });
        node.map(area, false);
        let seen = (0..20).any(|_| race(node, &area, 1, 100, Update::OnceOpened)[0] > 0);
        assert!(seen, "the race above would not be noticed");
    });
}

#[test]
fn areas_of_any_size_come_and_go_in_one_place_and_begin_with_zeros() {
    const PAGES: u64 = 512;
    with_paths(PAGES * PAGE, |node| {
        let shapes = [
            Shape::Pages { pages: 1 },
            Shape::Pages { pages: 512 },
            Shape::sub_for(64, 64).unwrap(),
        ];
        for (id, shape) in (0..).zip(shapes) {
            for (id, fresh) in [(2 * id, true), (2 * id + 1, false)] {
                let area = node.area(id, 0, 0, PAGES, shape);
                node.map(area, fresh);
                if fresh && shape.views() > 1 {
                    node.memory.populate(area.id, 0..512).unwrap();
                }
                let last = area.minipages() - 1;
                for index in BTreeSet::from([0, last / 2, last]) {
                    let last = area.address(index) + area.minipage_bytes(index) - 4;
                    assert_eq!((read(area.address(index)), read(last)), (0, 0), "{area:?}");
                    write(area.address(index), 7);
                    write(last, 8);
                }
                node.memory.retire_area(area.id).unwrap();
                node.memory.discard_area(area.id).unwrap();
            }
        }
    });
}

#[test]
fn what_the_kernel_guards_on_no_path_is_refused_in_one_line_and_auto_takes_the_other_guard() {
    without_node(|| {
        let sysv = |guard| Config { path: AccessPath::SystemV, ..Config::new(PAGE, guard) };
        let memory = Memory::new(&sysv(GuardChoice::Auto)).unwrap();
        assert_eq!(memory.guard(), GuardKind::Mprotect);
        drop(memory);
        match Memory::new(&sysv(GuardChoice::Uffd)) {
            Err(error @ MemoryError::PathNotGuarded { .. }) => {
                let line = error.to_string();
                assert!(line.contains("--path sysv") && line.ends_with("--guard mprotect with it"));
                assert!(!line.contains('\n'));
            }
            other => {
                assert!(matches!(other, Err(MemoryError::GuardUnavailable { .. })), "{other:?}")
            }
        }
    });
}

/// System V segments of `bytes` of this process that the kernel lists and has not marked for
/// removal. Tests beside this one, in this process, make segments of other sizes.
fn segments_left(bytes: u64) -> usize {
    let list = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let own = std::process::id().to_string();
    let mine = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let removed = u32::from_str_radix(fields.get(2).unwrap_or(&"0"), 8).unwrap_or(0) & 0o1000;
        let alike = fields.get(3) == Some(&&*bytes.to_string());
        alike && fields.get(4) == Some(&&*own) && removed == 0
    };
    list.lines().skip(1).filter(mine).count()
}

#[test]
#[expect(unsafe_code, reason = "a segment with a name, as a program makes it")]
fn a_path_leaves_no_name_while_it_is_used() {
    let bytes = (1 << 30) + 3 * PAGE;
    let directory = std::env::temp_dir().join(format!("multigrain-path-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let file = Object::unnamed_file(&directory, bytes).unwrap();
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    std::fs::remove_dir(&directory).unwrap();
    // A segment with a name is seen.
    let size = usize::try_from(bytes).unwrap();
    // SAFETY: takes numbers.
    let named = unsafe { libc::shmget(libc::IPC_PRIVATE, size, 0o600) };
    let seen = segments_left(bytes);
    // SAFETY: removes the segment that has just been made.
    unsafe { libc::shmctl(named, libc::IPC_RMID, core::ptr::null_mut()) };
    assert_eq!(seen, 1);
    let segment = Object::own_system_v(bytes).unwrap();
    assert_eq!(segments_left(bytes), 0);
    assert_eq!((file.bytes(), segment.bytes()), (bytes, bytes));
}

#[test]
fn a_size_that_no_path_has_is_refused() {
    for path in AccessPath::ALL {
        for bytes in [0, u64::MAX] {
            let refused = Object::of_path(path, bytes);
            assert!(matches!(refused, Err(MemoryError::SharedSize { .. })), "{path} {refused:?}");
        }
        assert_eq!(Object::of_path(path, 1).unwrap().bytes(), PAGE);
    }
}

#[test]
fn a_directory_where_no_file_can_be_made_is_named_with_what_to_do() {
    for directory in ["/nonexistent", "/proc", "/etc/passwd"] {
        let refused = Object::unnamed_file(directory.as_ref(), PAGE);
        let Err(error @ MemoryError::NoPath { call: "open", .. }) = refused else {
            panic!("{directory}: {refused:?}");
        };
        let line = error.to_string();
        assert!(line.starts_with("no 4096 shared bytes by --path file (open: "), "{line}");
        assert!(line.contains("TMPDIR") && line.ends_with("--path memfd"), "{line}");
    }
}

#[test]
fn all_that_a_path_has_mapped_is_kept_from_the_program_from_children_and_from_dumps() {
    // As many as no other test has mapped meanwhile.
    const BYTES: usize = (1 << 30) + (1 << 22);
    with_paths(BYTES as u64, |node| {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut found = 0;
        let mut range = 0..0;
        for line in maps.lines() {
            let mut words = line.split(' ');
            let first = words.next().and_then(|word| word.split_once('-'));
            let parse = |text| usize::from_str_radix(text, 16).ok();
            if let Some((Some(start), Some(end))) = first.map(|(a, b)| (parse(a), parse(b))) {
                // Of private ones none is the path's.
                let is_shared = words.next().is_some_and(|rights| rights.ends_with('s'));
                range = if is_shared { start..end } else { 0..0 };
            }
            let Some(flags) = line.strip_prefix("VmFlags:") else { continue };
            if range.len() == BYTES {
                found += 1;
                assert!(node.memory.keeps(&(range.start..range.start + PAGE_BYTES)), "{range:x?}");
                assert!(flags.contains(" dc") && flags.contains(" dd"), "{range:x?}: {flags}");
            }
        }
        assert!(found > 0);
    });
}
