//! `PAGEMAP_SCAN`: which pages of this process were written since the last scan.
//!
//! Role: the kernel interface alone (linux/fs.h, Linux 6.7).
#![expect(unsafe_code, reason = "issues an ioctl on /proc/self/pagemap")]

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use linux_raw_sys::general::{
    PAGE_IS_WRITTEN, PM_SCAN_CHECK_WPASYNC, PM_SCAN_WP_MATCHING, page_region, pm_scan_arg,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

use crate::descriptor::placed;
use crate::layout::index;

/// Regions a call has room for; a call that fills it is followed by another.
const REGIONS: usize = 64;

/// The page tables of this process, to be asked.
#[derive(Debug)]
pub(super) struct Pagemap(OwnedFd);

/// One call. The kernel fills in how far it came.
struct Scan<'a>(&'a mut pm_scan_arg);

// SAFETY: PAGEMAP_SCAN takes a pm_scan_arg and writes to it, and to the regions that it names, which
// are as many as it says; it returns how many of them it wrote.
unsafe impl Ioctl for Scan<'_> {
    type Output = usize;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<pm_scan_arg>(b'f', 16)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut *self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> Result<usize, Errno> {
        usize::try_from(out).map_err(|_| Errno::RANGE)
    }
}

impl Pagemap {
    pub(super) fn open() -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        placed(rustix::fs::open(c"/proc/self/pagemap", flags, Mode::empty())).map(Self)
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Names pages that have no mark of write protection, in ascending runs, and marks them.
    ///
    /// Asked for nothing but that, the kernel takes its fast path. Pages without an entry and
    /// without a mark count as written: they were, before the kernel dropped the entry, or they were
    /// never marked.
    pub(super) fn take_written(
        &self,
        address: usize,
        bytes: usize,
        written: &mut dyn FnMut(Range<usize>),
    ) -> Result<(), Errno> {
        let (mut start, end) = (address as u64, (address + bytes) as u64);
        while start < end {
            let mut regions = [const { MaybeUninit::<page_region>::uninit() }; REGIONS];
            let mut argument = pm_scan_arg {
                size: size_of::<pm_scan_arg>() as u64,
                flags: u64::from(PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC),
                start,
                end,
                walk_end: 0,
                vec: regions.as_mut_ptr().expose_provenance() as u64,
                vec_len: REGIONS as u64,
                max_pages: 0,
                category_inverted: 0,
                category_mask: 0,
                category_anyof_mask: PAGE_IS_WRITTEN.into(),
                return_mask: PAGE_IS_WRITTEN.into(),
            };
            // SAFETY: a descriptor of pagemap; the regions outlive the call.
            let count = match unsafe { ioctl(&self.0, Scan(&mut argument)) } {
                Err(Errno::INTR | Errno::AGAIN) => continue,
                result => result?,
            };
            for region in &regions[..count.min(REGIONS)] {
                // SAFETY: the kernel has filled in so many.
                let region = unsafe { region.assume_init_ref() };
                written(index(region.start)..index(region.end));
            }
            if argument.walk_end <= start {
                return Err(Errno::RANGE);
            }
            start = argument.walk_end;
        }
        Ok(())
    }
}
