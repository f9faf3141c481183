//! A segment: an object, the policy by which it is shared, the areas that its bytes are divided into, and their
//! addresses.
//!
//! Role: owns what is mapped of one object, its privileged view too, and unmaps it when it is dropped. Of the
//! object's origin it knows one thing: adopted bytes keep their addresses, and their areas lie there, in one
//! view; the areas of all other objects lie among the views of the node.
//!
//! Invariant: what of a segment is mapped is in its list of areas.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::RawFd;
use std::sync::{Mutex, PoisonError};

use multigrain_types::{AreaId, PAGE_BYTES, SegmentPolicy};
use rustix::io::Errno;
use rustix::mm::ProtFlags;

use crate::allocation_reserve;
use crate::atomic_table::ZeroTable;
use crate::error::MemoryError;
use crate::guard::Guard;
use crate::layout::Area;
use crate::object::{Object, Over, advise_mapping, open, seal, taken_or, unlock, unmap};
use crate::privileged::PrivilegedView;
use crate::shortage::address_limit;

#[derive(Debug)]
pub(crate) struct Segment {
    privileged: PrivilegedView,
    place: AreaAddresses,
    areas: Mutex<Vec<Area>>,
    policy: SegmentPolicy,
    object: Object,
}

/// Where the areas of a segment lie.
#[derive(Debug)]
enum AreaAddresses {
    /// Among the views, each where it says.
    Views,
    /// Where the program has the object's bytes.
    Adopted {
        addresses: Range<usize>,
        /// Area id + 1 for every page; 0 = none.
        pages: ZeroTable<AtomicU32>,
    },
}

impl Segment {
    /// The segment of an object, with its privileged view at `privileged`.
    pub(crate) fn new(
        object: Object,
        policy: SegmentPolicy,
        privileged: usize,
    ) -> Result<Self, MemoryError> {
        let privileged = PrivilegedView::map(&object, privileged)?;
        let place = match object.adopted() {
            None => AreaAddresses::Views,
            Some(addresses) => {
                let pages = ZeroTable::new(addresses.len() / PAGE_BYTES)?;
                AreaAddresses::Adopted { addresses, pages }
            }
        };
        Ok(Self { privileged, place, areas: Mutex::default(), policy, object })
    }

    /// How it is shared.
    pub(crate) fn policy(&self) -> SegmentPolicy {
        self.policy
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    /// Bytes of its object.
    pub(crate) fn bytes(&self) -> u64 {
        self.object.bytes()
    }

    /// The addresses of an adopted object.
    pub(crate) fn adopted(&self) -> Option<&Range<usize>> {
        match &self.place {
            AreaAddresses::Views => None,
            AreaAddresses::Adopted { addresses, .. } => Some(addresses),
        }
    }

    /// The area at an address of an adopted object.
    pub(crate) fn area_at(&self, address: usize) -> Option<AreaId> {
        let AreaAddresses::Adopted { addresses, pages } = &self.place else { return None };
        let page = address.checked_sub(addresses.start)? / PAGE_BYTES;
        pages.get(page)?.load(Ordering::Acquire).checked_sub(1).map(AreaId)
    }

    /// Maps the views of an area under a guard; where its first byte lies in the privileged view.
    pub(crate) fn map(
        &self,
        area: &Area,
        guard: &dyn Guard,
        fresh: bool,
    ) -> Result<*mut u8, MemoryError> {
        match &self.place {
            AreaAddresses::Views => area.validate()?,
            AreaAddresses::Adopted { addresses, .. } => area.validate_in_place(addresses)?,
        }
        if area.file_offset + area.bytes > self.object.bytes() {
            return Err(area.bad("it lies in the memory object"));
        }
        let mut areas = self.areas.lock().unwrap_or_else(PoisonError::into_inner);
        let span = area.span_bytes();
        if let AreaAddresses::Adopted { .. } = &self.place
            && areas.iter().any(|other| other.overlaps(area))
        {
            return Err(MemoryError::AddressTaken { address: area.base, end: area.base + span });
        }
        self.object.reserve(area.file_offset, area.bytes)?;
        self.map_views(area, guard.first_protection(fresh))?;
        let attached =
            advise_mapping(area.base, span).and_then(|()| guard.attach(area.base, span, fresh));
        if let Err(error) = attached {
            self.unmap_views(area, span)?;
            return Err(error);
        }
        if let AreaAddresses::Adopted { addresses, pages } = &self.place {
            let first = (area.base - addresses.start) / PAGE_BYTES;
            for page in first..first + span / PAGE_BYTES {
                pages.get(page).inspect(|page| page.store(area.id.0 + 1, Ordering::Release));
            }
        }
        areas.push(*area);
        Ok(self.privileged.at(area.file_offset))
    }

    /// The descriptor its object keeps open, if it needs one.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.object.descriptor()
    }

    /// Whether any of its addresses beside the views is among those.
    pub(crate) fn keeps(&self, any: impl Fn(&Range<usize>) -> bool) -> bool {
        any(&self.privileged.addresses())
            || self.object.original().is_some_and(|original| any(&original))
            || self.adopted().is_some_and(any)
    }

    /// Unlocks the views and the privileged view.
    pub(crate) fn unlock(&self) {
        let areas = self.areas.lock().unwrap_or_else(PoisonError::into_inner);
        let views = areas.iter().map(|area| area.base..area.base + area.span_bytes());
        views.chain([self.privileged.addresses()]).for_each(|addresses| unlock(&addresses));
    }

    /// Takes all access to all views away.
    pub(crate) fn seal(&self) -> Result<(), MemoryError> {
        for area in self.areas.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            seal(area.base, area.span_bytes())?;
        }
        Ok(())
    }

    /// Unmaps the views of an area. Its bytes stay as they are.
    pub(crate) fn unmap(&self, area: &Area) -> Result<(), MemoryError> {
        let mut areas = self.areas.lock().unwrap_or_else(PoisonError::into_inner);
        self.unmap_views(area, area.span_bytes())?;
        if let AreaAddresses::Adopted { addresses, pages } = &self.place {
            let first = (area.base - addresses.start) / PAGE_BYTES;
            for page in first..first + area.span_bytes() / PAGE_BYTES {
                pages.get(page).inspect(|page| page.store(0, Ordering::Release));
            }
        }
        areas.retain(|other| other.id != area.id);
        Ok(())
    }

    fn map_views(&self, area: &Area, protection: ProtFlags) -> Result<(), MemoryError> {
        let bytes = area.view_bytes();
        if !allocation_reserve::is_kept()
            && let Some(limit) = address_limit(allocation_reserve::BYTES)
        {
            return Err(MemoryError::AddressLimit { id: area.id, views: area.views(), limit });
        }
        let (first, over) = match &self.place {
            AreaAddresses::Views => (ProtFlags::empty(), Over::Nothing),
            AreaAddresses::Adopted { .. } => (protection, Over::Itself),
        };
        for view in 0..usize::from(area.views()) {
            let address = area.base + view * bytes;
            let mapped = self.object.map(address, bytes, area.file_offset, first, over);
            let Err(errno) = mapped else { continue };
            let (id, views) = (area.id, area.views());
            let error = match errno {
                Errno::NOMEM => match address_limit(bytes) {
                    Some(limit) => MemoryError::AddressLimit { id, views, limit },
                    None => MemoryError::TooManyViews { id, views },
                },
                errno => taken_or("mmap", address, bytes, errno),
            };
            if view > 0 {
                self.unmap_views(area, view * bytes)?;
            }
            return Err(error);
        }
        let AreaAddresses::Views = &self.place else { return Ok(()) };
        let (address, bytes) = (area.base, area.span_bytes());
        open(address, bytes, protection).or_else(|errno| {
            self.unmap_views(area, bytes)?;
            Err(MemoryError::System { call: "mprotect", address, bytes, errno })
        })
    }

    /// Takes the first bytes of an area's views back. The program keeps what it had before, open.
    fn unmap_views(&self, area: &Area, bytes: usize) -> Result<(), MemoryError> {
        let AreaAddresses::Adopted { .. } = &self.place else { return unmap(area.base, bytes) };
        let (address, open) = (area.base, ProtFlags::READ | ProtFlags::WRITE);
        let opened = self.object.map(address, bytes, area.file_offset, open, Over::Itself);
        opened.map_err(|errno| MemoryError::System { call: "mmap", address, bytes, errno })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        for area in self.areas.get_mut().unwrap_or_else(PoisonError::into_inner).clone() {
            let unmapped = self.unmap_views(&area, area.span_bytes());
            debug_assert_eq!(unmapped, Ok(()));
        }
    }
}
