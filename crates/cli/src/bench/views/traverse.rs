//! An array in minipages over many views, and the loop that reads it.
#![expect(unsafe_code, reason = "maps views of a memory object and reads them by pointer")]

use crate::bench::clock::timed;
use anyhow::{Context, Result};
use core::ffi::c_void;
use core::hint::black_box;
use core::ptr::null_mut;
use multigrain_types::PAGE_BYTES;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Traversals of each kind: so many, or as many as fit the time.
const TRAVERSALS: usize = 7;
/// Small arrays are read several times a sample, to make it so long.
const SAMPLE_BYTES: usize = 4 << 20;

/// An array of bytes, mapped as `views` views that lie one after the other.
pub(super) struct Array {
    base: *mut c_void,
    bytes: usize,
    /// Where each view's minipage begins within a page, and the page's end.
    cuts: Vec<usize>,
}

/// Best times of one traversal, milliseconds: all that disturbs a loop makes it slower.
pub(super) struct Times {
    /// One view, one run of bytes.
    pub(super) plain: f64,
    /// One view, in pieces.
    pub(super) pieces: f64,
    /// Each piece in a view of its own.
    pub(super) views: f64,
}

impl Array {
    /// Maps it and fills in all page table entries.
    pub(super) fn new(bytes: usize, views: usize) -> Result<Self> {
        let file = memfd_create(c"multigrain-views", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, bytes as u64)?;
        let span = bytes * views;
        // SAFETY: the kernel picks the address, so no memory in use is replaced.
        let base = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(null_mut(), span, ProtFlags::empty(), flags)
        };
        let base = base.with_context(|| format!("no address space for {span} bytes"))?;
        let array = Self { base, bytes, cuts: cuts(views) };
        for view in 0..views {
            let place = base.wrapping_byte_add(view * bytes);
            let (protection, flags) =
                (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
            // SAFETY: within the addresses reserved above, which nothing uses yet.
            unsafe { mmap(place, bytes, protection, flags, &file, 0) }
                .with_context(|| format!("view {view} of {views}"))?;
            // The first view allocates the pages, the others only map them.
            let fill =
                if view == 0 { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
            // SAFETY: advice on a mapping of ours that changes no byte.
            unsafe { madvise(place, bytes, fill) }?;
        }
        Ok(array)
    }

    /// Traverses in turn: in one run, in pieces, through the views.
    pub(super) fn times(&self) -> Times {
        let repeats = (SAMPLE_BYTES / self.bytes).max(1);
        let mut all = [const { Vec::new() }; 3];
        for round in 0..=TRAVERSALS {
            let one = [
                self.traverse(&[0, PAGE_BYTES], 0, repeats),
                self.traverse(&self.cuts, 0, repeats),
                self.traverse(&self.cuts, self.bytes, repeats),
            ];
            // The first round warms up.
            if round > 0 {
                all.iter_mut().zip(one).for_each(|(times, time)| times.push(time));
            }
        }
        let [plain, pieces, views] =
            all.map(|times: Vec<f64>| times.into_iter().fold(f64::INFINITY, f64::min));
        Times { plain, pieces, views }
    }

    /// Reads every byte once, `repeats` times over; milliseconds of one time. The piece from
    /// `cuts[v]` to `cuts[v + 1]` of each page is read through the view at `v * stride`.
    fn traverse(&self, cuts: &[usize], stride: usize, repeats: usize) -> f64 {
        let nanos = timed(|| {
            for _ in 0..repeats {
                black_box(self.sum(black_box(cuts), stride));
            }
        });
        #[expect(clippy::cast_precision_loss, reason = "a few repeats")]
        let millis = nanos / 1e6 / repeats as f64;
        millis
    }

    fn sum(&self, cuts: &[usize], stride: usize) -> u64 {
        let start = self.base.cast::<u8>().cast_const();
        let mut sum = 0_u64;
        for page in (0..self.bytes).step_by(PAGE_BYTES) {
            let mut view = start.wrapping_add(page);
            for piece in cuts.windows(2) {
                for offset in piece[0]..piece[1] {
                    // SAFETY: page + offset is below `bytes`, and every view has that many.
                    sum += u64::from(unsafe { view.wrapping_add(offset).read_volatile() });
                }
                view = view.wrapping_add(stride);
            }
        }
        sum
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        let span = self.bytes * (self.cuts.len() - 1);
        // SAFETY: these mappings were made in new() and nobody else knows of them.
        let unmapped = unsafe { munmap(self.base, span) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

/// A page in so many minipages as equal as whole bytes allow.
fn cuts(views: usize) -> Vec<usize> {
    (0..=views).map(|view| view * PAGE_BYTES / views).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minipages_of_a_page_cover_it_and_differ_by_a_byte_at_most() {
        for views in [1, 8, 1024, 1664] {
            let cuts = cuts(views);
            assert_eq!((cuts[0], cuts[views]), (0, PAGE_BYTES));
            let sizes: Vec<usize> = cuts.windows(2).map(|piece| piece[1] - piece[0]).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1, "{views}: {least} to {most}");
        }
    }

    #[test]
    fn every_view_shows_the_same_bytes() {
        let array = Array::new(2 * PAGE_BYTES, 3).unwrap();
        let first = array.base.cast::<u8>();
        // SAFETY: byte 3000 lies in the array.
        unsafe { first.wrapping_add(3000).write_volatile(5) };
        assert_eq!(array.sum(&array.cuts, array.bytes), 5);
        assert_eq!(array.sum(&[0, PAGE_BYTES], 0), 5);
    }
}
