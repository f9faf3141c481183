//! Images of processes: what has a userfaultfd of its own. A fork makes another one; an exec ends one, though the process lives on.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::userfault::Userfault;

/// Which image of this site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImageKey(pub(super) u64);

/// A fault of an image: the page's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) address: usize,
    pub(super) writes: bool,
}

/// An image that has segments, or had.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) userfault: Arc<Userfault>,
    /// Rings when there are pending faults, or the image is gone.
    pub(super) bell: Arc<OwnedFd>,
    /// The process and the number it has given this image; none of a child that has not called yet.
    pub(super) process: Option<(i32, i64)>,
    /// The fork that it came from; 0 if it came from none, or from one that nobody announced.
    pub(super) fork: i64,
    /// The number of the fork that comes next; 0 if none was announced.
    pub(super) next_fork: i64,
    /// Faults that were read and are not served.
    pub(super) pending: Vec<Fault>,
    /// An address that is none of a segment: what is asked of it says whether the image lives.
    pub(super) probe: usize,
}

/// In the lowest gigabyte, where no memory object of ours is mapped.
const PROBE: usize = 0x10_0000;

impl Image {
    pub(super) fn new(
        userfault: Userfault,
        bell: OwnedFd,
        process: Option<(i32, i64)>,
        fork: i64,
    ) -> Self {
        Self {
            userfault: Arc::new(userfault),
            bell: Arc::new(bell),
            process,
            fork,
            next_fork: 0,
            pending: Vec::new(),
            probe: PROBE,
        }
    }

    /// Wakes who serves it.
    pub(super) fn ring(&self) {
        // A bell that cannot take another ring rings already.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }
}
