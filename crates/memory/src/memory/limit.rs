//! Limits of areas: what threads of this node may have of an area, whatever the protocol grants.
//!
//! Role: a program attaches to a segment and detaches from it while the node goes on to keep minipages of it.
//! A limit is below the protocol, which knows nothing of it: a minipage that it opens beyond the limit stays
//! closed, and page tables that lag behind a limit that was raised are put right as threads trap
//! ([`Memory::reprotect`]).
//!
//! Invariant: no entry of a page table allows more than the limit of its area.

use multigrain_types::{Access, AreaId};

use super::Memory;
use crate::areas::Mapped;
use crate::error::MemoryError;
use crate::guard::Vpages;

impl Memory {
    /// What threads of this node may have of an area at most: `ReadWrite` unless [`Memory::limit_area`] was called,
    /// and nothing of an area that is not there. For signal context too.
    #[must_use]
    #[inline]
    pub fn limit(&self, id: AreaId) -> Access {
        self.areas.limit(id)
    }

    /// Limits what threads of this node may have of an area, which is not fresh here. The caller holds the locks of all its
    /// minipages, or no thread knows the area yet. What is more than that is taken away when this
    /// returns; what is less, threads trap on, and [`Memory::reprotect`] gives it to them.
    ///
    /// # Errors
    /// The area is not mapped, or a failing system call.
    pub fn limit_area(&self, id: AreaId, limit: Access) -> Result<(), MemoryError> {
        let Mapped { area, fresh, privileged, .. } = self.mapped(id)?;
        let before = self.areas.limit(id);
        self.areas.set_limit(id, limit);
        if limit >= before {
            return Ok(());
        }
        let bytes = area.view_bytes();
        let view = |view| Vpages { address: area.base + view * bytes, bytes, privileged, fresh };
        let mut views = (0..usize::from(area.views())).map(view);
        views.try_for_each(|vpages| self.guard.reprotect(vpages, Access::NoAccess))
    }
}
