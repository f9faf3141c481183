//! One suite over all guards and all kinds of objects: which accesses trap, and what holds after a change of protection.
#![expect(unsafe_code, reason = "forks, and drops entries behind the guard's back")]

mod harness;

use harness::*;
use multigrain_memory::{Area, Config, GuardChoice, Memory, MemoryError, SegmentId, Shape, Trap};
use multigrain_types::{Access, AreaId, PAGE_BYTES};

const SHARED: u64 = 64 << 20;
const SHAPES: [Shape; 4] = [
    Shape::Pages { pages: 1 },
    Shape::Pages { pages: 3 },
    Shape::Sub { slot: 64, per_page: 64 },
    Shape::Sub { slot: 1364, per_page: 3 },
];

/// Every shape on an area of 8 pages, for each guard and each kind of object.
fn with_shapes(fresh: bool, test: impl Fn(&Node, &Area)) {
    with_objects(SHARED, |node| {
        for (id, shape) in (0..).zip(SHAPES).filter(|&(_, shape)| node.allows(shape)) {
            let area = node.area(id, id as usize * 4, u64::from(id) * 8, 8, shape);
            node.map(area, fresh);
            test(node, &area);
        }
    });
}

fn first_and_last(area: &Area) -> [u32; 2] {
    [0, area.minipages() - 1]
}

fn trap(address: usize, write: bool) -> Option<Trap> {
    Some(Trap { address, write })
}

#[test]
fn a_minipage_that_is_not_fresh_traps_with_its_address_and_the_write_bit() {
    with_shapes(false, |_, area| {
        for index in 0..area.minipages().min(100) {
            let address = area.address(index) + area.minipage_bytes(index) / 8 * 4;
            if index % 2 == 0 {
                assert_eq!(read(address), 0);
                let log = take_log();
                assert_eq!((log.real, log.spurious, log.last), (1, 0, trap(address, false)));
            }
            write(address, index);
            let log = take_log();
            assert_eq!((log.real, log.spurious, log.last), (1, 0, trap(address, true)));
            assert_eq!(read(address), index);
            assert_eq!(take_log(), Log::default());
        }
    });
}

#[test]
fn every_allowed_transition_allows_what_it_says_and_no_more() {
    use Access::{NoAccess, ReadOnly, ReadWrite};
    with_shapes(false, |node, area| {
        for index in first_and_last(area) {
            let (id, address) = (minipage(area, index), area.address(index));
            let last = address + area.minipage_bytes(index) - 4;
            for path in [
                [ReadOnly, NoAccess, ReadWrite, NoAccess],
                [ReadWrite, ReadOnly, ReadWrite, ReadOnly],
                [NoAccess, ReadOnly, ReadWrite, NoAccess],
                [ReadWrite, ReadOnly, NoAccess, ReadOnly],
                [ReadOnly, ReadWrite, NoAccess, ReadWrite],
            ] {
                for to in path {
                    node.set(id, to);
                    for place in [address, last] {
                        read(place);
                        let traps = u64::from(to == NoAccess);
                        assert_eq!(take_log().real, traps, "read after {to:?} of {area:?}");
                        node.set(id, to);
                        write(place, 5);
                        let traps = u64::from(to != ReadWrite);
                        assert_eq!(take_log().real, traps, "write after {to:?} of {area:?}");
                        node.set(id, to);
                    }
                    assert_eq!(take_log(), Log::default());
                }
            }
            node.set(id, NoAccess);
        }
    });
}

#[test]
fn a_change_of_one_minipage_leaves_its_neighbours_alone() {
    with_shapes(true, |node, area| {
        node.memory.populate(area.id, 0..8).unwrap();
        node.set(minipage(area, 1), Access::NoAccess);
        for index in (0..area.minipages()).filter(|&index| index != 1) {
            write(area.address(index), index);
        }
        assert_eq!(take_log(), Log::default());
        assert_eq!(read(area.address(1)), 0);
        assert_eq!(take_log().real, 1);
    });
}

#[test]
fn fresh_page_shapes_never_trap_and_need_no_populating() {
    with_objects(SHARED, |node| {
        for (id, pages) in [(0, 1), (1, 3), (2, 16)] {
            let area =
                node.area(id, 8 * id as usize, u64::from(id) * 2048, 2048, Shape::Pages { pages });
            node.map(area, true);
            for page in 0..2048 {
                let address = area.base + page * PAGE_BYTES;
                if page % 2 == 0 {
                    assert_eq!(read(address), 0);
                }
                write(address + 8, 1);
            }
            let log = take_log();
            assert_eq!(log.real, 0);
            assert!(log.spurious == 0 || node.is_allocated_at_once(), "{log:?}");
        }
    });
}

#[test]
fn a_minipage_is_a_hole_until_somebody_writes_it_where_the_kernel_can_tell() {
    let told = core::cell::Cell::new(false);
    with_objects(SHARED, |node| {
        let area = node.area(0, 0, 16, 8, Shape::Pages { pages: 2 });
        node.map(area, true);
        let holes = || [0, 1, 2, 3].map(|index| node.memory.is_hole(minipage(&area, index)));
        let can_tell = node.memory.is_hole(minipage(&area, 0));
        assert_eq!(holes(), [can_tell; 4]);
        write(area.address(1) + PAGE_BYTES, 5);
        // Of blocks that are allocated before they are written the kernel may say less, and never more.
        let others = holes()[0];
        assert_eq!(holes(), [others, false, others, others]);
        assert!(can_tell || !others);
        told.set(told.get() || others);
        let log = take_log();
        assert!(log == Log::default() || node.is_allocated_at_once(), "{log:?}");
    });
    assert!(told.get(), "of none of these objects");
}

#[test]
fn fresh_sub_shapes_never_trap_once_populated() {
    with_shapes(true, |node, area| {
        for pages in [0..3, 3..3, 3..8, 2..5] {
            node.memory.populate(area.id, pages).unwrap();
        }
        for index in 0..area.minipages() {
            assert_eq!(read(area.address(index)), 0);
            write(area.address(index), index);
        }
        assert_eq!(take_log(), Log::default());
    });
}

#[test]
fn fresh_pages_never_touched_trap_after_they_were_invalidated() {
    with_shapes(true, |node, area| {
        for index in first_and_last(area) {
            let address = area.address(index) + area.minipage_bytes(index) - 4;
            node.set(minipage(area, index), Access::NoAccess);
            read(address);
            assert_eq!(take_log().last, trap(address, false));
            node.set(minipage(area, index), Access::NoAccess);
            write(address, 1);
            let log = take_log();
            assert_eq!((log.real, log.last), (1, trap(address, true)));
        }
    });
}

#[test]
fn fresh_pages_never_touched_trap_on_writes_after_they_were_downgraded() {
    with_shapes(true, |node, area| {
        for index in first_and_last(area) {
            let address = area.address(index) + area.minipage_bytes(index) - 4;
            node.set(minipage(area, index), Access::ReadOnly);
            read(address);
            assert_eq!(take_log().real, 0);
            write(address, 1);
            let log = take_log();
            assert_eq!((log.real, log.last), (1, trap(address, true)));
        }
        // And without the read before it.
        node.set(minipage(area, 1), Access::ReadOnly);
        write(area.address(1), 1);
        assert_eq!(take_log().real, 1);
    });
}

#[test]
fn reprotect_cures_a_trap_that_the_state_allows() {
    with_shapes(false, |node, area| {
        for (state, index) in [(Access::ReadOnly, 0), (Access::ReadWrite, 1)] {
            let address = area.address(index);
            node.set(minipage(area, index), state);
            write_or_read(address, state);
            take_log();
            let spurious = u64::from(node.is_uffd());
            for _ in 0..3 {
                lose_entry(address);
                write_or_read(address, state);
                let log = take_log();
                assert_eq!((log.real, log.spurious), (0, spurious));
                node.memory.reprotect(minipage(area, index), state).unwrap();
                write_or_read(address, state);
                assert_eq!(take_log(), Log::default());
            }
            node.memory.reprotect(minipage(area, index), Access::ReadOnly).unwrap();
            write(address, 9);
            assert_eq!(take_log().last, trap(address, true));
            node.set(minipage(area, index), Access::NoAccess);
            node.memory.reprotect(minipage(area, index), Access::NoAccess).unwrap();
            read(address);
            assert_eq!(take_log().real, 1);
        }
    });
}

fn write_or_read(address: usize, state: Access) {
    if state == Access::ReadWrite {
        write(address, 3);
    } else {
        read(address);
    }
}

#[test]
fn views_and_the_privileged_view_show_the_same_bytes() {
    with_shapes(false, |node, area| {
        for index in first_and_last(area) {
            write(area.address(index), 77 + index);
            assert_eq!(privileged_word(node.memory, minipage(area, index)), 77 + index);
            let (bytes, length) = node.memory.privileged(minipage(area, index));
            assert_eq!(length, area.minipage_bytes(index));
            // SAFETY: the last four bytes of a minipage in the privileged view.
            let last = unsafe { bytes.add(length - 4) };
            // SAFETY: as above; aligned, for slots are multiples of four.
            unsafe { last.cast::<u32>().write_volatile(index) };
            assert_eq!(read(area.address(index) + length - 4), index);
        }
    });
}

#[test]
fn the_rest_of_a_vpage_belongs_to_its_minipage() {
    with_shapes(false, |node, area| {
        let last_page = area.address(1) & !(PAGE_BYTES - 1);
        assert_eq!(node.memory.translate(last_page + 4095), Some(minipage(area, 1)));
        let after = area.base + area.span_bytes();
        assert!(node.memory.translate(after).is_none_or(|next| next.area() != area.id));
        assert!(node.memory.translate(area.base - 1).is_none_or(|last| last.area() != area.id));
    });
}

#[test]
fn a_range_translates_to_every_minipage_it_touches() {
    with_shapes(false, |node, area| {
        let all: Vec<_> = node.memory.translate_range(area.base, usize::MAX).collect();
        match area.shape {
            Shape::Sub { .. } => assert_eq!(all, [minipage(area, 0)]),
            Shape::Pages { .. } => assert_eq!(all.len(), area.minipages() as usize),
        }
        assert_eq!(node.memory.translate_range(area.base, 0).len(), 0);
        let before = node.memory.translate_range(area.base - 1, 9);
        assert!(before.len() <= 1 && before.clone().all(|last| last.area() != area.id));
        let two = node.memory.translate_range(area.address(1) - 1, 2);
        assert_eq!(two.len(), if area.views() == 1 { 2 } else { 1 });
    });
}

#[test]
fn an_area_has_an_id_and_addresses_of_its_own() {
    with_shapes(true, |node, area| {
        assert_eq!(node.memory.map_area(*area, true), Err(MemoryError::AreaExists { id: area.id }));
        let same_place = Area { id: AreaId(15), ..*area };
        for _ in 0..2 {
            let taken = node.memory.map_area(same_place, true);
            assert!(matches!(taken, Err(MemoryError::AddressTaken { .. })), "{taken:?}");
        }
        let unknown = Err(MemoryError::UnknownArea { id: AreaId(15) });
        assert_eq!(node.memory.reprotect(minipage(&same_place, 0), Access::NoAccess), unknown);
        assert_eq!(node.memory.translate(area.base), Some(minipage(area, 0)));
        assert_eq!(node.memory.segment_of(area.id), Some(SegmentId::FIRST));
    });
}

#[test]
fn what_is_out_of_range_is_an_error() {
    with_objects(SHARED, |node| {
        let shape = Shape::Pages { pages: 1 };
        let beyond = node.area(0, 0, SHARED / PAGE - 1, 2, shape);
        assert!(matches!(node.memory.map_area(beyond, true), Err(MemoryError::BadArea { .. })));
        let second = Memory::new(&Config::new(1, GuardChoice::Auto));
        assert!(matches!(second, Err(MemoryError::AddressTaken { .. })));
        let too_large = Area { id: AreaId(1 << 24), ..beyond };
        assert!(matches!(node.memory.map_area(too_large, true), Err(MemoryError::BadArea { .. })));
        let fresh = node.area(0, 0, 0, 4, shape);
        node.map(fresh, true);
        node.map(node.area(1, 1, 4, 4, shape), false);
        let leaves = node.memory.populate(fresh.id, 3..5);
        assert!(matches!(leaves, Err(MemoryError::PageRange { .. })));
        let not_fresh = node.memory.populate(AreaId(1), 0..1);
        assert_eq!(not_fresh, Err(MemoryError::NotFresh { id: AreaId(1) }));
        let minipage = minipage(&fresh, 4);
        let unknown = node.memory.reprotect(minipage, Access::ReadOnly);
        assert_eq!(unknown, Err(MemoryError::UnknownMinipage { minipage, count: 4 }));
    });
}

#[test]
fn pages_locked_in_memory_can_be_invalidated() {
    with_objects(SHARED, |node| {
        let area = node.area(0, 0, 0, 2, Shape::Pages { pages: 1 });
        node.map(area, true);
        write(area.base, 6);
        // SAFETY: locks a mapped page of this process.
        if unsafe { libc::mlock(pointer(area.base).cast(), PAGE_BYTES) } != 0 {
            println!("skipped: this user may not lock memory");
            return;
        }
        node.set(minipage(&area, 0), Access::NoAccess);
        assert_eq!(read(area.base), 6);
        assert_eq!(take_log().real, 1);
    });
}

#[test]
fn a_forked_child_does_not_see_the_views() {
    with_shapes(true, |node, area| {
        node.memory.populate(area.id, 0..8).unwrap();
        // SAFETY: the child only reads one word and exits: nothing another thread may hold.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the child has its own signal table.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            read(area.address(0));
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV);
    });
}

#[test]
fn a_run_of_minipages_loses_write_access_at_once_and_its_neighbours_do_not() {
    use Access::ReadWrite;
    const CLOSES: (Access, Access) = (ReadWrite, Access::ReadOnly);
    with_shapes(false, |node, area| {
        let all = 0..area.minipages().min(8);
        for index in all.clone() {
            node.set(minipage(area, index), ReadWrite);
            write(area.address(index), index);
        }
        take_log();
        let closed = node.memory.restrict_run(minipage(area, 0), 2, CLOSES).unwrap();
        assert_eq!(closed, matches!(area.shape, Shape::Pages { .. }), "{area:?}");
        for index in all {
            let last = area.address(index) + area.minipage_bytes(index) - 4;
            write(last, 7);
            // The states still say ReadWrite, so the trap finds the page tables lagging.
            let traps = u64::from(closed && index < 2);
            let log = take_log();
            assert_eq!((log.real, log.spurious), (0, traps), "minipage {index} of {area:?}");
        }
    });
    with_objects(SHARED, |node| {
        let area = node.area(0, 0, 0, 2, Shape::Pages { pages: 1 });
        node.map(area, false);
        assert!(
            node.memory.restrict_run(minipage(&area, 1), 2, CLOSES).is_err(),
            "it leaves the area"
        );
    });
}

#[test]
fn a_run_of_read_copies_loses_all_access_at_once_and_one_of_it_may_be_opened_meanwhile() {
    use Access::{NoAccess, ReadOnly, ReadWrite};
    with_shapes(false, |node, area| {
        let all = 0..area.minipages().min(8);
        for index in all.clone() {
            node.set(minipage(area, index), ReadOnly);
        }
        take_log();
        let run = minipage(area, 0);
        let closed = node.memory.restrict_run(run, 2, (ReadOnly, NoAccess)).unwrap();
        assert_eq!(closed, matches!(area.shape, Shape::Pages { .. }), "{area:?}");
        // Its state still says that it may be read: a thread that writes opens it from there.
        node.set(run, ReadWrite);
        for index in all {
            write_or_read(area.address(index), if index == 0 { ReadWrite } else { ReadOnly });
            let log = take_log();
            let most = u64::from(closed && index < 2);
            assert_eq!(log.real, 0, "minipage {index} of {area:?}");
            assert!(log.spurious <= most, "minipage {index} of {area:?}");
            assert!(index != 1 || log.spurious == most, "minipage {index} of {area:?}");
        }
        assert_eq!(privileged_word(node.memory, run), 3);
    });
}

#[test]
fn a_retired_area_has_no_addresses_and_its_bytes_are_nobodys() {
    with_paths(SHARED, |node| {
        for (id, shape) in (0..).step_by(2).zip(SHAPES) {
            let area = node.area(id, 4, 8, 8, shape);
            node.map(area, true);
            node.memory.populate(area.id, 0..8).expect("it is fresh");
            let last = area.minipages() - 1;
            write(area.address(last), 7);
            let (place, bytes) = node.memory.privileged(minipage(&area, last));
            assert_eq!(privileged_word(node.memory, minipage(&area, last)), 7);
            // SAFETY: locks pages of this process; where it may not, nothing is locked.
            let _ = unsafe { libc::mlock(place.cast(), bytes) };
            assert!(node.memory.discard_area(area.id).is_err(), "it is in use");

            node.memory.retire_area(area.id).expect("it is mapped");
            assert!(node.memory.retire_area(area.id).is_err(), "once");
            assert_eq!((node.memory.translate(area.base), node.memory.area(area.id)), (None, None));
            assert!(node.memory.is_retired(area.address(last)));
            // The protocol may still go on about it; nothing happens.
            for (from, to) in
                [(Access::ReadWrite, Access::NoAccess), (Access::NoAccess, Access::ReadWrite)]
            {
                assert_eq!(node.memory.protect(minipage(&area, last), from, to), Ok(()));
                assert_eq!(node.memory.reprotect(minipage(&area, last), to), Ok(()));
            }
            let (discard, same_bytes) = node.memory.privileged(minipage(&area, last));
            assert_eq!(same_bytes, bytes);
            // SAFETY: there is room for a minipage.
            unsafe { discard.write_bytes(9, bytes) };
            node.memory.discard_area(area.id).expect("it is retired");

            // Another shape in the same place, mapped by whoever is not its first holder.
            let next = node.area(id + 1, 4, 8, 8, Shape::Pages { pages: 2 });
            node.map(next, false);
            assert!(!node.memory.is_retired(area.base));
            assert_eq!(read(next.base + 8 * PAGE_BYTES - 4), 0);
            assert_eq!(take_log().real, 1, "guarded as ever");
            node.memory.retire_area(next.id).expect("it is mapped");
            node.memory.discard_area(next.id).expect("it is retired");
        }
    });
}
