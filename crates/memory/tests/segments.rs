//! Several segments in the memory of one node.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod harness;

use harness::*;
use multigrain_memory::{
    Area, GuardChoice, MAX_SEGMENTS, Memory, MemoryError, Object, SegmentId, Shape,
};
use multigrain_types::{Access, AreaId, Consistency, PAGE_BYTES, Placement, SegmentPolicy};

const BYTES: u64 = 16 * PAGE;
const PAGES: Shape = Shape::Pages { pages: 1 };

/// The area of a whole adopted segment.
fn in_place(id: u32, address: usize) -> Area {
    Area { base: address, ..area(id, 0, 0, 16, PAGES) }
}

#[test]
fn each_segment_keeps_its_own_policy_wherever_its_bytes_come_from() {
    with_guards(BYTES, |node| {
        let lazy = SegmentPolicy {
            consistency: Consistency::LazyRelease,
            placement: Some(Placement::Spread),
            chunk: 4,
        };
        let file = node.memory.add_segment(Origin::File.object(BYTES), lazy).unwrap();
        let place = private_memory(BYTES);
        let adopted = node.memory.add_segment(adopt(place, BYTES), POLICY).unwrap();
        assert_eq!(node.memory.policy(SegmentId::FIRST), SegmentPolicy::default());
        assert_eq!((node.memory.policy(file), node.memory.policy(adopted)), (lazy, POLICY));
        node.unmap_when_done(place, BYTES);
    });
}

#[test]
fn each_address_belongs_to_the_minipage_of_its_own_segment() {
    with_guards(BYTES, |node| {
        let first = area(0, 0, 0, 16, PAGES);
        node.map(first, true);
        // Adopted in any order of addresses, and beside others.
        let start = private_memory(6 * BYTES);
        let places = [3, 0, 4, 1].map(|place| start + place * 16 * PAGE_BYTES);
        for (nth, place) in (1..).zip(places) {
            write(place + PAGE_BYTES, nth);
            let id = node.memory.add_segment(adopt(place, BYTES), POLICY).unwrap();
            assert_eq!(node.memory.translate(place), None, "not before it has an area");
            node.map_of(id, in_place(nth, place), true);
            assert_eq!(node.memory.segment_of(AreaId(nth)), Some(id));
        }
        let file = node.memory.add_segment(Origin::File.object(BYTES), POLICY).unwrap();
        let views = area(5, 1, 0, 16, Shape::Sub { slot: 1024, per_page: 4 });
        node.map_of(file, views, true);
        let segments: Vec<_> =
            (0..6).map(|area| node.memory.segment_of(AreaId(area)).unwrap()).collect();
        assert!(segments.is_sorted() && segments[0] == SegmentId::FIRST && segments[5] == file);
        for (nth, place) in (1..).zip(places) {
            let area = in_place(nth, place);
            let found: Vec<_> = node.memory.translate_range(place, usize::MAX).collect();
            assert_eq!((found[0], found.len()), (minipage(&area, 0), 16));
            assert_eq!(node.memory.translate(place + 16 * PAGE_BYTES - 1), Some(found[15]));
            assert_eq!(read(place + PAGE_BYTES), nth, "its bytes are those it had");
            node.set(minipage(&area, 1), Access::ReadOnly);
            write(place + PAGE_BYTES, nth + 10);
            assert_eq!(privileged_word(node.memory, minipage(&area, 1)), nth + 10);
            assert_eq!(take_log().real, 1);
        }
        for gap in [2, 5] {
            assert_eq!(node.memory.translate(start + gap * 16 * PAGE_BYTES), None);
        }
        write(views.address(3), 7);
        assert_eq!((privileged_word(node.memory, minipage(&first, 0)), read(first.base)), (0, 0));
        assert_eq!(privileged_word(node.memory, minipage(&views, 3)), 7);
        node.unmap_when_done(start, 6 * BYTES);
    });
}

#[test]
fn what_was_adopted_keeps_its_bytes_when_the_memory_goes() {
    for guard in [GuardChoice::Uffd, GuardChoice::Mprotect] {
        without_node(|| {
            let Ok(memory) = Memory::without_segments(guard) else { return };
            let address = private_memory(BYTES);
            write(address + 4092, 5);
            let id = memory.add_segment(adopt(address, BYTES), POLICY).unwrap();
            memory.map_area_of(id, in_place(0, address), false).unwrap();
            drop(memory);
            assert_eq!((read(address), read(address + 4092)), (0, 5));
            write(address + 8192, 6);
            assert_eq!(read(address + 8192), 6);
            unmap(address, BYTES);
        });
    }
}

#[test]
fn an_adopted_segment_has_areas_in_its_place_only_and_each_address_once() {
    with_guards(BYTES, |node| {
        let start = private_memory(2 * BYTES);
        let id = node.memory.add_segment(adopt(start, BYTES), POLICY).unwrap();
        let good = in_place(1, start);
        for bad in [
            Area { base: start + PAGE_BYTES, ..good },
            Area { shape: Shape::Sub { slot: 2048, per_page: 2 }, ..good },
            Area { bytes: BYTES + PAGE, ..good },
            Area { base: start + PAGE_BYTES, file_offset: PAGE, ..good },
            Area { file_offset: u64::MAX - 4095, ..good },
            area(1, 0, 0, 16, PAGES),
        ] {
            let mapped = node.memory.map_area_of(id, bad, true);
            assert!(matches!(mapped, Err(MemoryError::BadArea { .. })), "{bad:?}: {mapped:?}");
        }
        let half = Area { bytes: BYTES / 2, ..good };
        node.map_of(id, half, true);
        let across = Area {
            id: AreaId(2),
            base: start + 7 * PAGE_BYTES,
            file_offset: 7 * PAGE,
            bytes: 2 * PAGE,
            shape: PAGES,
        };
        let taken = node.memory.map_area_of(id, across, true);
        assert!(matches!(taken, Err(MemoryError::AddressTaken { .. })), "{taken:?}");
        // The same addresses once more, as a second segment.
        let again = node.memory.add_segment(adopt(start + 16 * PAGE_BYTES, BYTES), POLICY).unwrap();
        assert_ne!(again, id);
        let overlap = adopt(start + 16 * PAGE_BYTES, BYTES);
        let taken = node.memory.add_segment(overlap, POLICY);
        assert!(matches!(taken, Err(MemoryError::AddressTaken { .. })), "{taken:?}");
        node.unmap_when_done(start, 2 * BYTES);
    });
}

#[test]
fn objects_are_whole_pages_and_segments_have_a_limit() {
    assert!(matches!(Object::named_file(shm_file(5000)), Err(MemoryError::NotWholePages { .. })));
    assert!(matches!(Object::named_file(shm_file(0)), Err(MemoryError::NotWholePages { .. })));
    let address = private_memory(BYTES);
    for (address, bytes) in [(address + 8, 4096), (address, 4000), (address, 0)] {
        // SAFETY: private memory of this test, which is refused.
        #[expect(unsafe_code, reason = "adopts memory")]
        let adopted = unsafe { Object::adopt(address, bytes) };
        assert!(matches!(adopted, Err(MemoryError::NotWholePages { .. })), "{adopted:?}");
    }
    unmap(address, BYTES);
    assert!(matches!(Object::system_v(-1), Err(MemoryError::System { call: "shmctl", .. })));
    without_node(|| {
        let memory = Memory::without_segments(GuardChoice::Mprotect).unwrap();
        let unknown = memory.map_area(area(0, 0, 0, 1, PAGES), true);
        assert_eq!(unknown, Err(MemoryError::UnknownSegment { id: SegmentId::FIRST }));
        for _ in 0..MAX_SEGMENTS {
            memory.add_segment(Object::memfd(1).unwrap(), POLICY).unwrap();
        }
        let more = memory.add_segment(Object::memfd(1).unwrap(), POLICY);
        assert_eq!(more, Err(MemoryError::TooManySegments { limit: MAX_SEGMENTS }));
    });
}

#[test]
fn the_guard_uffd_refuses_what_the_kernel_does_not_guard() {
    without_node(|| {
        let Ok(memory) = Memory::without_segments(GuardChoice::Uffd) else { return };
        let id = memory.add_segment(Origin::SystemV.object(BYTES), POLICY).unwrap();
        let refused = memory.map_area_of(id, area(0, 0, 0, 16, PAGES), true);
        let Err(error @ MemoryError::NotGuarded { .. }) = refused else { panic!("{refused:?}") };
        assert!(error.to_string().contains("--guard mprotect"), "{error}");
        assert_eq!((memory.areas(), memory.area(AreaId(0))), (0, None));
    });
}
