//! Allocation.

#![expect(unsafe_code, reason = "makes handles of fresh memory")]

use multigrain_runtime::{Error, Policy};

use crate::Result;
use crate::array::SharedArray;
use crate::job::Job;
use crate::pointer::pointer;
use crate::shareable::Shareable;
use crate::shared::Shared;
use crate::slice::SharedSlice;

/// How a block is cut into minipages, the units that travel between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grain {
    /// The natural grain of the job's consistency, see [`Policy`]: if that is sequential, one
    /// minipage up to a page, and minipages of one page beyond.
    #[default]
    Auto,
    /// Minipages of so many bytes, rounded up to whole pages.
    Bytes(usize),
    /// One minipage, however large.
    Whole,
}

/// Best alignment of every allocation, bytes.
const ALIGNMENT: usize = 16;

impl Job {
    /// A value of its own minipage (if the job is sequential). This node can write it at once,
    /// without a fault.
    ///
    /// # Errors
    /// No room.
    pub fn alloc<T: Shareable>(&self, value: T) -> Result<Shared<'_, T>> {
        self.alloc_with(value, Policy::new())
    }

    /// A value where a policy wants it. Other nodes see it when the rules of its consistency
    /// ([release consistency](crate#release-consistency)) let them see any write.
    ///
    /// # Errors
    /// No room, or a grain of 0.
    pub fn alloc_with<T: Shareable>(&self, value: T, policy: Policy) -> Result<Shared<'_, T>> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        let place = pointer::<T>(self.runtime().malloc_with(size_of::<T>(), policy)?);
        // SAFETY: fresh memory of the size of `T`, aligned to 16 if `T` may be, known to nobody else.
        unsafe { place.write(value) };
        // SAFETY: a live value now.
        Ok(unsafe { Shared::from_ptr(self, place) })
    }

    /// A contiguous block of `len` values. Memory never used before is zero.
    ///
    /// # Errors
    /// No room, or no values.
    pub fn alloc_slice<T: Shareable>(
        &self,
        len: usize,
        grain: Grain,
    ) -> Result<SharedSlice<'_, T>> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        let bytes = bytes_of::<T>(len)?;
        let address = match grain {
            Grain::Auto => self.runtime().malloc(bytes),
            Grain::Bytes(grain) => self.runtime().malloc_grain(bytes, grain),
            Grain::Whole => self.runtime().malloc_grain(bytes, bytes),
        };
        // SAFETY: fresh memory of `len` values, aligned to 16 if they may be; any bytes are values.
        Ok(unsafe { SharedSlice::from_ptr(self, pointer(address?), len) })
    }

    /// A contiguous block of `len` values as a policy wants it. Memory never used before is zero.
    ///
    /// # Errors
    /// No room, no values, or a grain of 0.
    pub fn alloc_slice_with<T: Shareable>(
        &self,
        len: usize,
        policy: Policy,
    ) -> Result<SharedSlice<'_, T>> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        let address = self.runtime().malloc_with(bytes_of::<T>(len)?, policy)?;
        // SAFETY: fresh memory of `len` values, aligned to 16 if they may be; any bytes are values.
        Ok(unsafe { SharedSlice::from_ptr(self, pointer(address), len) })
    }

    /// `len` elements, each a minipage of its own, or each so many as the chunking level says (if
    /// the job is sequential). Memory never used before is zero.
    ///
    /// # Errors
    /// No room, or no elements.
    pub fn alloc_array<T: Shareable>(&self, len: usize) -> Result<SharedArray<'_, T>> {
        self.alloc_array_with(len, Policy::new())
    }

    /// `len` elements, so many to a minipage as a policy says. Memory never used before is zero.
    ///
    /// # Errors
    /// No room, no elements, or a grain of 0.
    pub fn alloc_array_with<T: Shareable>(
        &self,
        len: usize,
        policy: Policy,
    ) -> Result<SharedArray<'_, T>> {
        const { assert!(size_of::<T>() > 0 && align_of::<T>() <= ALIGNMENT) };
        let address = self.runtime().malloc_array_with(len, size_of::<T>(), policy)?;
        // SAFETY: a fresh array of `len` elements; any bytes are values.
        Ok(unsafe { SharedArray::from_ptr(self, pointer(address), len) })
    }

    /// Sets the chunking level of later small sequential allocations of this node: so many
    /// neighbours share a minipage (Millipage 4.4). 1 is off.
    ///
    /// # Errors
    /// For 0, and beyond 65,536.
    pub fn set_chunking(&self, level: u32) -> Result<()> {
        self.runtime().set_chunking(level)
    }
}

/// Bytes of so many values, at least one.
fn bytes_of<T>(len: usize) -> Result<usize> {
    match len {
        0 => Err(Error::Invalid("a block of no values".into())),
        _ => Ok(len.saturating_mul(size_of::<T>())),
    }
}
