//! Limits of areas: what threads may have of one, whatever its minipages' states are.
#![allow(clippy::unwrap_used, reason = "this is test code")]

mod harness;

use harness::*;
use multigrain_memory::{MemoryError, Shape};
use multigrain_types::{Access, AreaId};

const BYTES: u64 = 16 * PAGE;
const ID: AreaId = AreaId(0);

#[test]
fn what_a_limit_has_taken_comes_back_by_a_trap_when_it_is_raised() {
    for shape in [Shape::Pages { pages: 1 }, Shape::Sub { slot: 1024, per_page: 4 }] {
        with_guards(BYTES, |node| {
            let area = area(0, 0, 0, 4, shape);
            node.map(area, false);
            for index in 0..4 {
                node.set(minipage(&area, index), Access::ReadWrite);
                write(area.address(index), 7 + index);
            }
            take_log();
            node.memory.limit_area(ID, Access::NoAccess).unwrap();
            assert_eq!(node.memory.limit(ID), Access::NoAccess);
            node.memory.limit_area(ID, Access::ReadOnly).unwrap();
            assert_eq!(read(area.address(2)), 9);
            let log = take_log();
            assert_eq!((log.real, log.spurious), (0, 1), "it was taken away");
            node.memory.limit_area(ID, Access::ReadWrite).unwrap();
            write(area.address(2), 10);
            let log = take_log();
            assert_eq!((log.real, log.spurious), (0, 1), "it could be read alone");
            assert_eq!((read(area.address(2)), read(area.address(3))), (10, 10));
        });
    }
}

#[test]
fn what_is_opened_beyond_a_limit_stays_closed() {
    with_guards(BYTES, |node| {
        let area = area(0, 0, 0, 4, Shape::Pages { pages: 1 });
        node.map(area, false);
        node.memory.limit_area(ID, Access::NoAccess).unwrap();
        node.set(minipage(&area, 1), Access::ReadWrite);
        node.set(minipage(&area, 1), Access::ReadOnly);
        node.memory.limit_area(ID, Access::ReadWrite).unwrap();
        assert_eq!(read(area.address(1)), 0);
        let log = take_log();
        assert_eq!((log.real, log.spurious), (0, 1), "only its state was open");
        assert_eq!(node.memory.limit(AreaId(3)), Access::NoAccess, "there is none");
        let none = node.memory.limit_area(AreaId(3), Access::ReadOnly);
        assert!(matches!(none, Err(MemoryError::UnknownArea { .. })), "{none:?}");
    });
}
