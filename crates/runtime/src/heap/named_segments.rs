//! Memory of named segments: an area each, made as asked, and given back when the segment goes.

use multigrain_memory::Shape;
use multigrain_types::PAGE_BYTES;

use super::{Heap, Policy, bounded, consistency_for, directory};
use crate::area::{AreaRecord, Items, NamedSharing};
use crate::driver::Driver;
use crate::error::Error;

impl Heap {
    /// An area for a segment of `bytes`, which is not 0; never one that was used before.
    ///
    /// # Errors
    /// A grain of zero bytes, or no room.
    pub(crate) fn named_block(
        &self,
        driver: &Driver,
        bytes: usize,
        policy: Policy,
        sharing: NamedSharing,
    ) -> Result<AreaRecord, Error> {
        let consistency = consistency_for(driver, policy)?;
        let grain = bounded(policy.grain.unwrap_or(PAGE_BYTES), consistency);
        let pages = u32::try_from(grain.min(bytes).div_ceil(PAGE_BYTES))
            .map_err(|_| Error::Limit(format!("a minipage of {grain} bytes is too large")))?;
        let shape = Shape::Pages { pages };
        let items = Items { bytes: bytes as u64, count: 1, chunk: 1, array: false };
        let record = self.with_room(driver, || {
            directory::new_segment(driver, shape, items, consistency, sharing)
        })?;
        let live = self.inventory(driver).enter_area(driver.counters(), record);
        driver.tables().enter_live(record.area.id, &live);
        driver.races().note_allocation(record.area.base, bytes);
        Ok(record)
    }

    /// Whether a segment may have minipages of that grain.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub(crate) fn check_grain(driver: &Driver, policy: Policy) -> Result<(), Error> {
        let (grain, most) = (policy.grain.unwrap_or(PAGE_BYTES), driver.memory().shared_bytes());
        if grain as u64 <= most {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "a segment in minipages of {grain} bytes: at most {most}, the job's shared size (multigrain run --shared); \
             from its own size on it is one minipage, and 0 is a page"
        )))
    }

    /// Gives the area of a segment back, to which nobody is attached and nobody can attach.
    ///
    /// # Errors
    /// It was given back before.
    pub(crate) fn free_segment(&self, driver: &Driver, record: &AreaRecord) -> Result<(), Error> {
        self.free_of(driver, record.area.base, record)
    }
}
