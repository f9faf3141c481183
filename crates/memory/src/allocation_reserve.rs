//! Addresses kept back under a limit of them (`ulimit -v`): views take what there is, and then this library's own
//! next allocation would end the process. The allocator is given the reserve, and no area is mapped until it is kept again.
#![expect(unsafe_code, reason = "maps what nobody uses, and takes it back")]

use core::ptr::{null_mut, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What the allocator maps at once, several times over.
pub(crate) const BYTES: usize = 16 << 20;

/// Where it lies; 0 where none is kept.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Whether the reserve is kept, which it is from the first call on while there is room.
pub fn is_kept() -> bool {
    if KEPT.load(Ordering::Acquire) != 0 {
        return true;
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the kernel picks the address, so no memory in use is replaced.
    let mapped = unsafe { mmap_anonymous(null_mut(), BYTES, ProtFlags::empty(), flags) };
    let Ok(start) = mapped else { return false };
    let (none, own) = (0, start.expose_provenance());
    if KEPT.compare_exchange(none, own, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: mapped above, and nobody knows of it.
        let _ = unsafe { munmap(start, BYTES) };
    }
    true
}

/// The allocator has found no addresses: it may have these. False if none are kept.
pub fn give() -> bool {
    let start = KEPT.swap(0, Ordering::AcqRel);
    // SAFETY: mapped by `is_kept`, and nobody uses it.
    start != 0 && unsafe { munmap(with_exposed_provenance_mut(start), BYTES) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no addresses without access")]
    fn the_reserve_is_given_once_and_kept_again() {
        assert!(is_kept() && is_kept());
        assert!(give() && !give());
        assert!(is_kept() && give());
    }
}
