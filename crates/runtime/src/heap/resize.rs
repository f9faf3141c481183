//! The rest of malloc's family: alignment, another size, and how much may be used.
#![expect(unsafe_code, reason = "shared memory is copied by pointer")]

use core::num::NonZeroUsize;

use multigrain_memory::VIEW_ALIGN;
use multigrain_protocol::Kind;
use multigrain_types::{Access, PAGE_BYTES};

use super::{Heap, Policy, beside_allocations, consistency_for, not_its_begin, record_at};
use crate::area::AreaRecord;
use crate::driver::Driver;
use crate::error::Error;

impl Heap {
    /// `bytes` of shared memory whose address is a multiple of `align`; 0 bytes are 1.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `align` is no power of two up to 4 MiB; no room.
    pub(crate) fn memalign(
        &self,
        driver: &Driver,
        align: usize,
        bytes: usize,
    ) -> Result<usize, Error> {
        if !align.is_power_of_two() || align > VIEW_ALIGN {
            let line = format!("an alignment of {align}: it is a power of two up to {VIEW_ALIGN}");
            return Err(Error::Invalid(line));
        }
        let policy = Policy::new();
        let (address, _) = if align > PAGE_BYTES {
            // Areas begin at multiples of the largest alignment.
            let consistency = consistency_for(driver, policy)?;
            self.block(driver, bytes.max(1), PAGE_BYTES, consistency)?
        } else {
            self.allocate(driver, (bytes, align), policy)?
        };
        driver.races().note_allocation(address, bytes);
        Ok(address)
    }

    /// An allocation with another size: the same one if it has room and is not twice too large, else
    /// a new one of this node with the same consistency, and of a block with the same grain, to which
    /// the contents have moved.
    ///
    /// # Errors
    /// [`Error::NotShared`] if it is none, or an array; no room: it is as it was then.
    pub(crate) fn realloc(
        &self,
        driver: &Driver,
        address: usize,
        bytes: usize,
    ) -> Result<usize, Error> {
        let bytes = bytes.max(1);
        let (record, usable) = allocation_at(
            driver,
            address,
            "is that of an array, which keeps its size: make another one",
        )?;
        if record.is_named() {
            let line = format!("a named segment keeps its size: {address:#x} is that of one");
            return Err(Error::NotPermitted(line));
        }
        if bytes <= usable && bytes.max(16) >= usable / 2 {
            return Ok(address);
        }
        let policy = Policy { consistency: Some(record.consistency), grain: grain_of(&record) };
        let new = self.malloc_with(driver, bytes, policy)?;
        let from = core::ptr::with_exposed_provenance::<u8>(address);
        let to = core::ptr::with_exposed_provenance_mut::<u8>(new);
        // SAFETY: both are allocations of at least so many bytes, the new one known to nobody else; a
        // trap brings here what is elsewhere.
        unsafe { core::ptr::copy_nonoverlapping(from, to, usable.min(bytes)) };
        if let Err(error) = self.free(driver, address) {
            self.free(driver, new)?;
            let twice = || format!("realloc of {address:#x}, which is free already");
            let is_twice = matches!(error, Error::NotPermitted(_));
            return Err(if is_twice { Error::NotPermitted(twice()) } else { error });
        }
        Ok(new)
    }

    /// Checks that a range lies in one allocation, and that this node may access it so.
    ///
    /// # Errors
    /// [`Error::NotShared`] if it begins in none, [`Error::Invalid`] if it ends beyond it; [`Error::Denied`] in a segment
    /// that this node is not attached to, or only to read where that is not enough.
    pub(crate) fn check_range(
        driver: &Driver,
        address: usize,
        bytes: usize,
        kind: Kind,
    ) -> Result<(), Error> {
        let record = record_at(driver, address);
        match record.as_ref().map(|record| driver.memory().limit(record.area.id)) {
            Some(Access::NoAccess) => {
                return Err(Error::Denied(format!(
                    "address {address:#x} is in a named segment that this node is not attached to: mg_segment_attach \
                     comes first"
                )));
            }
            Some(Access::ReadOnly) if kind == Kind::Write => {
                return Err(Error::Denied(format!(
                    "this node is not attached to write the segment at {address:#x}"
                )));
            }
            _ => {}
        }
        let left = record.and_then(|record| record.bytes_from(address));
        match left {
            None => Err(beside_allocations(driver, address)),
            Some(left) if bytes > left => Err(Error::Invalid(format!(
                "{bytes} bytes from {address:#x} go beyond the end of its allocation, which has {left} there"
            ))),
            Some(_) => Ok(()),
        }
    }

    /// Bytes of an allocation that may be used, as many as were asked for or more.
    ///
    /// # Errors
    /// [`Error::NotShared`] if it is none, or an array.
    pub(crate) fn usable_bytes(driver: &Driver, address: usize) -> Result<usize, Error> {
        let array = "is that of an array, whose elements have the size that it was made with";
        allocation_at(driver, address, array).map(|(_, usable)| usable)
    }
}

/// The area of an allocation, and the bytes that it may use; an array is none, for this reason.
fn allocation_at(
    driver: &Driver,
    address: usize,
    array: &'static str,
) -> Result<(AreaRecord, usize), Error> {
    let record = record_at(driver, address).ok_or(Error::NotShared(address))?;
    if record.items.array && address == record.area.base {
        return Err(Error::OfOtherKind(address, array));
    }
    let usable = record.usable_bytes(address).ok_or_else(|| not_its_begin(address, &record))?;
    Ok((record, usable))
}

/// The grain of a block; None where it is that of its size class.
fn grain_of(record: &AreaRecord) -> Option<usize> {
    let block = record.items.count == 1;
    let bytes = NonZeroUsize::new(record.area.minipage_bytes(0)).filter(|_| block);
    bytes.map(NonZeroUsize::get)
}
