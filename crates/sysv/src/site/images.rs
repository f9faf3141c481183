//! Images of processes: what has a userfaultfd of its own. A fork makes another one; an exec ends one, though the process lives on.

use std::sync::Arc;

use multigrain_types::PAGE_BYTES;

use super::kernel::Kernel;

/// Which image of this site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ImageKey(pub(super) u64);

/// A fault of an image: the page's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Fault {
    pub(super) address: usize,
    pub(super) writes: bool,
    /// Nothing was mapped there; otherwise it was write-protected.
    pub(super) is_missing: bool,
}

/// Faults that go through pages one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Scan {
    /// Where the next fault is then.
    next: usize,
    /// Pages that the last one got.
    pages: usize,
}

impl Scan {
    /// Most pages of a fault.
    const MOST: usize = 32;

    /// How many pages a fault is to get, from its own on: twice as many as the last one if it is the one behind, up to `left`.
    pub(super) fn fault(&mut self, address: usize, left: usize) -> usize {
        let pages = if address == self.next { (2 * self.pages).min(Self::MOST) } else { 1 };
        self.pages = pages;
        let pages = pages.min(left).max(1);
        self.next = address + pages * PAGE_BYTES;
        pages
    }
}

/// An image that has segments, or had.
#[derive(Debug)]
pub(super) struct Image<K: Kernel> {
    pub(super) userfault: Arc<K::Guard>,
    /// Signalled when there are pending faults, or the image is gone.
    pub(super) eventfd: Arc<K::Eventfd>,
    /// The process and the number it has given this image; none of a child that has not called yet.
    pub(super) process: Option<(i32, i64)>,
    /// The fork that it came from; 0 if it came from none, or from one that nobody announced.
    pub(super) fork: i64,
    /// The number of the fork that comes next; 0 if none was announced.
    pub(super) next_fork: i64,
    /// Faults that were read and are not served.
    pub(super) pending: Vec<Fault>,
    /// Its scans: to read, and to write.
    pub(super) scans: [Scan; 2],
    /// An address that is none of a segment: what is asked of it says whether the image lives.
    pub(super) probe: usize,
}

/// In the lowest gigabyte, where no memory object of ours is mapped.
const PROBE: usize = 0x10_0000;

impl<K: Kernel> Image<K> {
    pub(super) fn new(
        userfault: K::Guard,
        eventfd: K::Eventfd,
        process: Option<(i32, i64)>,
        fork: i64,
    ) -> Self {
        Self {
            userfault: Arc::new(userfault),
            eventfd: Arc::new(eventfd),
            process,
            fork,
            next_fork: 0,
            pending: Vec::new(),
            scans: [Scan::default(); 2],
            probe: PROBE,
        }
    }

    /// Wakes who serves it.
    pub(super) fn notify(&self, kernel: &mut K) {
        kernel.notify(&self.eventfd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_doubles_what_a_fault_gets_and_one_fault_elsewhere_ends_it() {
        let mut scan = Scan::default();
        let at = |page: usize| 0x10_0000 + page * PAGE_BYTES;
        let got: Vec<_> = [0, 1, 3, 7, 15].map(|page| scan.fault(at(page), 1_000)).into();
        assert_eq!(got, [1, 2, 4, 8, 16]);
        assert_eq!([scan.fault(at(31), 1_000), scan.fault(at(63), 1_000)], [32, 32]);
        assert_eq!(scan.fault(at(95), 5), 5, "the segment ends");
        assert_eq!([scan.fault(at(50), 9), scan.fault(at(50), 9)], [1, 1]);
    }
}
