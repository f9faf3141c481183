//! A fixed table of atomics in lazily committed memory.
//!
//! Role: lock-free look-up tables that are far larger than what is used of them. Readers need no
//! lock and no allocation, so they may run in signal context.
#![expect(unsafe_code, reason = "maps anonymous memory and hands out references into it")]

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::MemoryError;
use crate::object;

/// Miri knows no lazy commitment.
const FLAGS: MapFlags =
    if cfg!(miri) { MapFlags::PRIVATE } else { MapFlags::PRIVATE.union(MapFlags::NORESERVE) };

/// It gets its protection later, see [`object::open`].
const CLOSED: ProtFlags =
    if cfg!(miri) { ProtFlags::READ.union(ProtFlags::WRITE) } else { ProtFlags::empty() };

/// Types that are valid when all their bytes are zero and are shared by atomics only.
///
/// # Safety
/// All-zero bytes are a valid value, the type needs no drop, and its alignment is at most a page.
pub(crate) unsafe trait ZeroValid: Sync {}

// SAFETY: an atomic integer is valid for every bit pattern and has no drop.
unsafe impl ZeroValid for AtomicU32 {}

/// `len` zeroed values; pages are committed when first written.
#[derive(Debug)]
pub(crate) struct ZeroTable<T: ZeroValid> {
    start: NonNull<T>,
    len: usize,
    owns: PhantomData<T>,
}

impl<T: ZeroValid> ZeroTable<T> {
    pub(crate) fn new(len: usize) -> Result<Self, MemoryError> {
        let bytes = len * size_of::<T>();
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let mapped = unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, CLOSED, FLAGS) };
        let system = |errno| match errno {
            Errno::NOMEM => MemoryError::NoAddresses { bytes },
            errno => MemoryError::System { call: "mmap", address: 0, bytes, errno },
        };
        let start = mapped.map_err(system)?;
        if !cfg!(miri) {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            object::open(start.expose_provenance(), bytes, protection).map_err(system)?;
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| system(Errno::INVAL))?;
        Ok(Self { start, len, owns: PhantomData })
    }

    /// The first of them.
    pub(crate) fn start(&self) -> *mut T {
        self.start.as_ptr()
    }

    /// The value at `index`; None past the end.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        if index >= self.len {
            return None;
        }
        // SAFETY: index < len, and the mapping holds len values.
        let place = unsafe { self.start.add(index) };
        // SAFETY: the mapping lives as long as self, is aligned to a page, holds valid values
        // (ZeroValid) and is only ever shared, never borrowed mutably.
        Some(unsafe { place.as_ref() })
    }
}

impl<T: ZeroValid> Drop for ZeroTable<T> {
    fn drop(&mut self) {
        let bytes = self.len * size_of::<T>();
        // SAFETY: this mapping was made in new() and no reference outlives self.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), bytes) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

// SAFETY: the table owns its mapping, and T is Sync: it is shared by reference only.
unsafe impl<T: ZeroValid> Send for ZeroTable<T> {}
// SAFETY: as above; get() gives shared references to a Sync type.
unsafe impl<T: ZeroValid> Sync for ZeroTable<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;

    #[test]
    fn a_table_starts_zeroed_and_ends_at_its_length() {
        let table: ZeroTable<AtomicU32> = ZeroTable::new(1 << 22).unwrap();
        let last = table.get((1 << 22) - 1).unwrap();
        assert_eq!(last.swap(7, Ordering::Relaxed), 0);
        assert!(table.get(1 << 22).is_none());
    }
}
