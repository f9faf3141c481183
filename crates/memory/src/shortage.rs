//! What ENOMEM means: the kernel says it for several limits, and for addresses where nothing is mapped. What the user is then told,
//! as of vm.max_map_count: `error.rs`.
//!
//! Runs in signal context too: what /proc says is read into a buffer on the stack, and nothing is allocated.
#![expect(unsafe_code, reason = "asks the kernel about mappings")]

use std::os::fd::IntoRawFd;

use multigrain_types::PAGE_BYTES;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};
use rustix::mm::{MsyncFlags, msync};
use rustix::process::{Resource, getrlimit};

/// The bytes of addresses that `ulimit -v` allows, if a mapping of `bytes` more found no room because of it.
pub(crate) fn address_limit(bytes: usize) -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let exceeds = |used: u64| used.saturating_add(bytes as u64) > limit;
    used_addresses().is_none_or(exceeds).then_some(limit)
}

/// The bytes of addresses that this process has mapped; None where /proc does not say.
fn used_addresses() -> Option<u64> {
    let file = open(c"/proc/self/statm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0_u8; 32];
    let length = read(&file, &mut text);
    // SAFETY: it is nobody's any more. Not the C library's close, in which a thread may be cancelled.
    unsafe { rustix::io::close(file.into_raw_fd()) };
    let length = length.ok()?;
    let digits = text.get(..length)?.split(|byte| !byte.is_ascii_digit()).next()?;
    let pages: u64 = core::str::from_utf8(digits).ok()?.parse().ok()?;
    pages.checked_mul(PAGE_BYTES as u64)
}

/// Whether any of these pages is not mapped.
pub(crate) fn is_unmapped(address: usize, bytes: usize) -> bool {
    let start = core::ptr::with_exposed_provenance_mut(address);
    // SAFETY: this starts nothing, and changes nothing.
    let known = unsafe { msync(start, bytes, MsyncFlags::ASYNC) };
    known == Err(Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    #[test]
    #[cfg_attr(miri, ignore = "Miri maps no addresses without access")]
    fn what_a_process_has_mapped_grows_with_its_mappings_and_they_are_known() {
        let bytes = 1 << 34;
        let before = used_addresses().unwrap();
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let start =
            unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, ProtFlags::empty(), flags) };
        let start = start.unwrap();
        let used = used_addresses().unwrap();
        assert!(used >= before / 2 + bytes as u64, "{before} {used}");
        let address = start.expose_provenance();
        assert!(!is_unmapped(address, bytes));
        // SAFETY: the last page of the mapping above.
        unsafe { munmap(start.wrapping_byte_add(bytes - PAGE_BYTES), PAGE_BYTES) }.unwrap();
        assert!(is_unmapped(address, bytes) && !is_unmapped(address, bytes - PAGE_BYTES));
        // SAFETY: the rest of it.
        unsafe { munmap(start, bytes - PAGE_BYTES) }.unwrap();
    }
}
