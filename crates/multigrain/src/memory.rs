//! Allocation.

#![expect(unsafe_code, reason = "makes handles of fresh memory")]

use core::ptr::NonNull;

use crate::Result;
use crate::array::SharedArray;
use crate::job::Job;
use crate::shareable::Shareable;
use crate::shared::Shared;
use crate::slice::SharedSlice;

/// How a block is cut into minipages, the units that travel between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grain {
    /// One minipage up to 64 KiB, and minipages of one page beyond.
    #[default]
    Auto,
    /// Minipages of so many bytes, rounded up to whole pages.
    Bytes(usize),
    /// One minipage, however large.
    Whole,
}

/// Best alignment of every allocation, bytes.
const ALIGNMENT: usize = 8;

impl Job {
    /// A value of its own minipage. This node can write it at once, without a fault.
    ///
    /// # Errors
    /// No room.
    pub fn alloc<T: Shareable>(&self, value: T) -> Result<Shared<T>> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        let place = pointer::<T>(self.runtime().malloc(size_of::<T>())?);
        // SAFETY: fresh memory of the size of `T`, aligned to 8, known to nobody else.
        unsafe { place.write(value) };
        // SAFETY: a live value now.
        Ok(unsafe { Shared::from_ptr(place) })
    }

    /// A contiguous block of `len` values. Memory never used before is zero.
    ///
    /// # Errors
    /// No room, or no values.
    pub fn alloc_slice<T: Shareable>(&self, len: usize, grain: Grain) -> Result<SharedSlice<T>> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        let bytes = len.saturating_mul(size_of::<T>());
        let address = match grain {
            Grain::Auto => self.runtime().malloc(bytes),
            Grain::Bytes(grain) => self.runtime().malloc_grain(bytes, grain),
            Grain::Whole => self.runtime().malloc_grain(bytes, bytes),
        };
        // SAFETY: fresh memory of `len` values, aligned to 8; any bytes are values.
        Ok(unsafe { SharedSlice::from_ptr(pointer(address?), len) })
    }

    /// `len` elements, each a minipage of its own, or each so many as the chunking level says.
    /// Memory never used before is zero.
    ///
    /// # Errors
    /// No room, or no elements.
    pub fn alloc_array<T: Shareable>(&self, len: usize) -> Result<SharedArray<T>> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        let address = self.runtime().malloc_array(len, size_of::<T>())?;
        // SAFETY: a fresh array of `len` elements; any bytes are values.
        Ok(unsafe { SharedArray::from_ptr(pointer(address), len) })
    }

    /// Sets the chunking level of later small allocations of this node: so many neighbours share a
    /// minipage (Millipage 4.4). 1 is off.
    ///
    /// # Errors
    /// For 0.
    pub fn set_chunking(&self, level: u32) -> Result<()> {
        self.runtime().set_chunking(level)
    }
}

/// The pointer of an address the runtime gave.
pub(crate) fn pointer<T>(address: usize) -> NonNull<T> {
    NonNull::new(core::ptr::with_exposed_provenance_mut(address))
        .expect("shared memory is not at address 0")
}
