//! The arithmetic of areas that a peer may announce: what `validate` lets through, every minipage
//! of it has a place of its own inside, and addresses lead back to it.
//!
//! Input: a choice between wild and likely fields, the fields, then indices.
#![cfg_attr(fuzzing, no_main)]

use multigrain_fuzz::{Input, fuzz_target};
use multigrain_memory::{Area, Shape, VIEW_ALIGN, VIEWS_BASE, VIEWS_END};
use multigrain_types::{AreaId, PAGE_BYTES};

fn area(input: &mut Input<'_>) -> Area {
    let choice = input.byte();
    let (id, base, file_offset, bytes) = (input.word(), input.long(), input.long(), input.long());
    let (slot, per_page, pages) = (input.word(), input.short(), input.word());
    let shape = if choice & 2 == 0 {
        Shape::Pages { pages }
    } else {
        // Few slots agree with their number; most of the time one that does is wanted.
        let agreed = Shape::sub_for(slot as usize % PAGE_BYTES, 4);
        agreed.filter(|_| choice & 4 != 0).unwrap_or(Shape::Sub { slot, per_page })
    };
    let wild = Area { id: AreaId(id), base: base as usize, file_offset, bytes, shape };
    if choice & 1 == 0 {
        return wild;
    }
    let page = PAGE_BYTES as u64;
    let base = VIEWS_BASE + (base as u32 as usize % (1 << 20)) * VIEW_ALIGN;
    let id = AreaId(id % (1 << 20));
    Area { id, base, file_offset: file_offset / page * page, bytes: bytes / page * page, shape }
}

fn check(area: &Area, index: u32) {
    let address = area.address(index);
    let (start, bytes) = area.file_range(index);
    let end = start + bytes as u64;
    assert!(bytes > 0 && start >= area.file_offset && end <= area.file_offset + area.bytes);
    assert_eq!(area.minipage_bytes(index), bytes);
    assert!(address >= area.base && address + bytes <= area.base + area.span_bytes());
    assert!(address + bytes <= VIEWS_END && area.view(index) < area.views());
    assert_eq!(
        (area.locate(address), area.locate(address + bytes - 1)),
        (Some(index), Some(index))
    );
    if index > 0 {
        let (other, length) = area.file_range(index - 1);
        assert!(other + length as u64 <= start || end <= other, "{index} overlaps its neighbour");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let area = area(&mut input);
    if area.validate().is_err() {
        return;
    }
    let minipages = area.minipages();
    assert!(minipages > 0);
    check(&area, 0);
    check(&area, minipages - 1);
    while !input.is_empty() {
        check(&area, input.word() % minipages);
    }
    assert_eq!(area.locate(area.base - 1), None);
    assert_eq!(area.locate(area.base + area.span_bytes()), None);
    // Where a page is not all minipages, its last bytes belong to the vpage's minipage all the same.
    assert!(area.locate(area.base + area.span_bytes() - 1).is_some_and(|last| last < minipages));
});
