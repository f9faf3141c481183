//! The job has no room left: what nodes keep of memory that is free goes back to the directory, of this node first, then of
//! the others, one after the other.

use multigrain_types::{AreaId, NodeId};

use super::{Heap, directory};
use crate::area::AreaRecord;
use crate::driver::Driver;
use crate::error::Error;
use crate::frames::{Asker, Request};

/// Areas in an answer.
const MOST: usize = 1000;

/// Which nodes have been asked during an allocation that found no room.
pub(super) struct Shortage {
    asked: u16,
}

impl Shortage {
    pub(super) fn new() -> Self {
        Self { asked: 0 }
    }

    /// Has the next node give back what it keeps; false if all have.
    pub(super) fn relieve(&mut self, heap: &Heap, driver: &Driver) -> bool {
        let (me, nodes) = (driver.me().0, driver.nodes());
        if self.asked >= nodes {
            return false;
        }
        let node = (me + self.asked) % nodes;
        self.asked += 1;
        if node == me {
            let spare = heap.spare_areas(driver, usize::MAX);
            spare.into_iter().for_each(|id| directory::return_area(driver, id));
            return true;
        }
        // An answer without bytes is that of a node that keeps nothing.
        while let Ok(spare) = driver.request_for_bytes(NodeId(node), Request::AreaSpare, 0, &[]) {
            for id in spare.as_chunks().0 {
                directory::return_area(driver, AreaId(u32::from_le_bytes(*id)));
            }
        }
        true
    }
}

impl Heap {
    /// Makes an area; if there is no room, again each time that a node has given back what it keeps.
    pub(super) fn with_room(
        &self,
        driver: &Driver,
        make: impl Fn() -> Result<AreaRecord, Error>,
    ) -> Result<AreaRecord, Error> {
        let mut shortage = Shortage::new();
        loop {
            match make() {
                Err(Error::NoMemory(_)) if shortage.relieve(self, driver) => {}
                made => return made,
            }
        }
    }

    /// A node finds no room: it is told what this one keeps of free memory, and returns it.
    pub(crate) fn serve_spare(&self, driver: &Driver, asker: Asker) {
        let spare = self.spare_areas(driver, MOST);
        let ids: Vec<u8> = spare.into_iter().flat_map(|id| id.0.to_le_bytes()).collect();
        driver.answer_with(asker, &ids);
    }
}
