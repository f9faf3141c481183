//! Properties of the layout: addresses and indices agree, and no minipage overlaps another.

use multigrain_memory::{Area, MAX_AREAS, MemoryError, Shape, VIEW_ALIGN, VIEWS_BASE, VIEWS_END};
use multigrain_types::{AreaId, PAGE_BYTES};
use proptest::prelude::*;

fn shapes() -> impl Strategy<Value = Shape> {
    prop_oneof![
        (1_usize..=2048, 2_u32..8)
            .prop_filter_map("half a page", |(bytes, align)| Shape::sub_for(bytes, 1 << align)),
        (1_u32..40).prop_map(|pages| Shape::Pages { pages }),
    ]
}

fn areas() -> impl Strategy<Value = Area> {
    (shapes(), 1_u64..100, 0_usize..1 << 20, 0_u64..1 << 20).prop_map(
        |(shape, pages, chunk, first)| Area {
            id: AreaId(3),
            base: VIEWS_BASE + chunk * VIEW_ALIGN,
            file_offset: first * 4096,
            bytes: pages * 4096,
            shape,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_of_a_minipage_is_located(area in areas(), pick in any::<u32>()) {
        prop_assert_eq!(area.validate(), Ok(()));
        let index = pick % area.minipages();
        let (address, bytes) = (area.address(index), area.minipage_bytes(index));
        prop_assert!(bytes > 0);
        for at in [address, address + bytes / 2, address + bytes - 1] {
            prop_assert_eq!(area.locate(at), Some(index));
        }
        // The place in the page is the same in the view and in the object.
        let (offset, length) = area.file_range(index);
        prop_assert_eq!(length, bytes);
        let in_view = (address - area.base) % area.view_bytes();
        prop_assert_eq!(in_view as u64, offset - area.file_offset);
        prop_assert!(offset + length as u64 <= area.file_offset + area.bytes);
    }

    #[test]
    fn every_address_of_an_area_belongs_to_the_minipage_on_its_vpage(
        area in areas(), pick in any::<usize>(),
    ) {
        let address = area.base + pick % area.span_bytes();
        let index = area.locate(address).unwrap();
        prop_assert!(index < area.minipages());
        let first = area.address(index) / PAGE_BYTES;
        let last = (area.address(index) + area.minipage_bytes(index) - 1) / PAGE_BYTES;
        prop_assert!((first..=last).contains(&(address / PAGE_BYTES)));
    }

    #[test]
    fn minipages_overlap_neither_in_the_object_nor_on_a_vpage(area in areas()) {
        let mut ranges: Vec<_> = (0..area.minipages()).map(|i| area.file_range(i)).collect();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            prop_assert!(pair[0].0 + pair[0].1 as u64 <= pair[1].0);
        }
        let mut vpages: Vec<_> =
            (0..area.minipages()).map(|i| area.address(i) / PAGE_BYTES).collect();
        vpages.sort_unstable();
        vpages.dedup();
        prop_assert_eq!(vpages.len(), area.minipages() as usize);
    }

    #[test]
    fn a_sub_shape_holds_its_allocation_aligned(bytes in 1_usize..=2048, align in 2_u32..=6) {
        let align = 1 << align;
        if let Some(Shape::Sub { slot, per_page }) = Shape::sub_for(bytes, align) {
            prop_assert!(slot as usize >= bytes);
            prop_assert_eq!(slot as usize % align, 0);
            prop_assert_eq!(usize::from(per_page), PAGE_BYTES / bytes.next_multiple_of(align));
            prop_assert!(slot as usize * usize::from(per_page) <= PAGE_BYTES);
        } else {
            prop_assert!(bytes.next_multiple_of(align) > 2048);
        }
    }
}

#[test]
fn sub_shapes_of_common_sizes() {
    let sub = |slot, per_page| Some(Shape::Sub { slot, per_page });
    assert_eq!(Shape::sub_for(1, 4), sub(4, 1024));
    assert_eq!(Shape::sub_for(1, 8), sub(8, 512));
    assert_eq!(Shape::sub_for(64, 8), sub(64, 64));
    assert_eq!(Shape::sub_for(672, 8), sub(680, 6));
    assert_eq!(Shape::sub_for(2048, 8), sub(2048, 2));
    assert_eq!(Shape::sub_for(2049, 8), None);
}

#[test]
fn broken_areas_are_refused() {
    let good = Area {
        id: AreaId(0),
        base: VIEWS_BASE,
        file_offset: 0,
        bytes: 8192,
        shape: Shape::Sub { slot: 64, per_page: 64 },
    };
    assert_eq!(good.validate(), Ok(()));
    let huge = 1 << 44;
    for bad in [
        Area { id: AreaId(u32::try_from(MAX_AREAS).unwrap()), ..good },
        Area { base: VIEWS_BASE + 4096, ..good },
        Area { base: VIEWS_BASE - VIEW_ALIGN, ..good },
        Area { base: VIEWS_END, ..good },
        Area { base: usize::MAX & !(VIEW_ALIGN - 1), ..good },
        Area { bytes: 0, ..good },
        Area { bytes: 100, ..good },
        Area { bytes: !4095, ..good },
        Area { bytes: huge, ..good },
        Area { file_offset: 8, ..good },
        Area { file_offset: !4095, ..good },
        Area { shape: Shape::Sub { slot: 0, per_page: 1 }, ..good },
        Area { shape: Shape::Sub { slot: 64, per_page: 63 }, ..good },
        Area { shape: Shape::Sub { slot: 62, per_page: 66 }, ..good },
        Area { shape: Shape::Sub { slot: 8192, per_page: 0 }, ..good },
        Area { shape: Shape::Pages { pages: 0 }, ..good },
    ] {
        assert!(matches!(bad.validate(), Err(MemoryError::BadArea { .. })), "{bad:?}");
    }
}

#[test]
fn the_last_minipage_of_pages_may_be_short() {
    let area = Area {
        id: AreaId(0),
        base: VIEWS_BASE,
        file_offset: 4096,
        bytes: 5 * 4096,
        shape: Shape::Pages { pages: 2 },
    };
    assert_eq!(area.minipages(), 3);
    assert_eq!(area.file_range(2), (4096 * 5, 4096));
    assert_eq!(area.minipage_bytes(1), 8192);
}
