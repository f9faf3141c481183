//! Areas that other processes have mapped as well ([`Export`]): their threads take the place of this process's own,
//! which have no access to these areas then.

use multigrain_types::{Access, MinipageId};

use super::Memory;
use crate::areas::Mapped;
use crate::error::MemoryError;
use crate::export::Export;
use crate::segment::Segment;

impl Memory {
    /// From now on asks `exports` before an access changes. Only the first call counts.
    pub fn export_with(&self, exports: Box<dyn Export>) {
        let _ = self.exports.set(exports);
    }

    /// Tells who exports the area; false if nobody does.
    #[inline]
    pub(super) fn exports_change(
        &self,
        first: MinipageId,
        count: u32,
        from_to: [Access; 2],
    ) -> Result<bool, MemoryError> {
        match self.exports.get() {
            None => Ok(false),
            Some(exports) => self.exported_change(&**exports, first, count, from_to),
        }
    }

    /// Whether a minipage has never been written, by what the kernel knows: its object has no page there, its bytes are zero, and
    /// this look at them makes none. False where the kernel cannot tell. The caller has the minipage's lock.
    #[must_use]
    pub fn is_hole(&self, minipage: MinipageId) -> bool {
        let Some(Mapped { area, segment, .. }) = self.areas.get(minipage.area()) else {
            return false;
        };
        let (start, bytes) = area.range(minipage.index());
        let object = self.segments.get(segment).map(Segment::object);
        object.is_some_and(|object| object.is_hole(area.file_offset + start as u64, bytes as u64))
    }

    #[cold]
    fn exported_change(
        &self,
        exports: &dyn Export,
        first: MinipageId,
        count: u32,
        from_to: [Access; 2],
    ) -> Result<bool, MemoryError> {
        let Some(area) = self.area(first.area()) else { return Ok(false) };
        let (start, _) = area.range(first.index());
        let (last, bytes) = area.range(first.index() + count.max(1) - 1);
        let (contents, _) = self.privileged(first);
        exports.change(first.area(), start as u64..(last + bytes) as u64, contents, from_to)
    }
}
