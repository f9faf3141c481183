//! Which items of an area of this node are allocated: a bit each, changed by any thread without a lock.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

/// The bits of 64 items that follow each other, on a line of its own: threads take neighbours.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Word(AtomicU64);

/// What is known of a slab without the inventory's lock, under which it changes.
#[derive(Debug, Default)]
pub(crate) struct SlabCounts {
    /// How many areas it has.
    pub(crate) areas: AtomicUsize,
    /// Items of these areas that the inventory has.
    pub(crate) free: AtomicUsize,
}

/// The allocated items of one area.
#[derive(Debug)]
pub(crate) struct LiveItems {
    bits: Box<[Word]>,
    /// Items of a slab that are not in its inventory: they are allocated, or a thread keeps them for itself. Threads that
    /// allocate and free what they keep do not meet here.
    out: AtomicU64,
    /// Bytes that each is counted with.
    bytes: AtomicU64,
    /// Of its slab.
    slab: Arc<SlabCounts>,
}

impl LiveItems {
    /// An area of `items` items of `bytes` bytes each, all free.
    pub(crate) fn new((items, bytes): (u64, u64), slab: Arc<SlabCounts>) -> Self {
        let words = usize::try_from(items.div_ceil(64)).unwrap_or(0);
        Self {
            bits: (0..words).map(|_| Word::default()).collect(),
            out: AtomicU64::new(0),
            bytes: AtomicU64::new(bytes),
            slab,
        }
    }

    fn word(&self, index: u32) -> Option<(&AtomicU64, u64)> {
        Some((&self.bits.get(index as usize / 64)?.0, 1 << (index % 64)))
    }

    /// An item that nobody else has is allocated.
    pub(crate) fn allocate(&self, index: u32) {
        if let Some((word, bit)) = self.word(index) {
            word.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// An item is free: whether it may have been the last one. `None` if it was free already. Of two threads that free the last
    /// two at the same time, one is told, and [`Self::is_empty`] tells it so: all are in one order.
    pub(crate) fn free(&self, index: u32) -> Option<bool> {
        let (word, bit) = self.word(index)?;
        let was = word.fetch_and(!bit, Ordering::SeqCst);
        (was & bit != 0).then_some(was == bit)
    }

    /// Whether all items are in the inventory.
    pub(crate) fn is_unused(&self) -> bool {
        self.out.load(Ordering::Acquire) == 0
    }

    /// Whether no item is allocated.
    pub(crate) fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| word.0.load(Ordering::SeqCst) == 0)
    }

    /// An item leaves the inventory.
    pub(crate) fn take_out(&self) {
        self.out.fetch_add(1, Ordering::AcqRel);
    }

    /// An item is in the inventory again.
    pub(crate) fn put_back(&self) {
        self.out.fetch_sub(1, Ordering::AcqRel);
    }

    /// Bytes that each item is counted with.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// An area of one item is used again by another allocation.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// What its slab has; nothing if it is of none.
    pub(crate) fn slab(&self) -> &Arc<SlabCounts> {
        &self.slab
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn an_item_is_free_once_and_the_last_one_is_known() {
        let live = LiveItems::new((70, 8), Arc::default());
        [3, 5, 69].into_iter().for_each(|index| live.allocate(index));
        assert_eq!((live.free(3), live.free(3), live.free(4)), (Some(false), None, None));
        assert_eq!((live.free(5), live.is_empty()), (Some(true), false));
        assert_eq!((live.free(69), live.free(70)), (Some(true), None));
        assert!(live.is_empty());
    }

    #[test]
    fn one_of_two_threads_that_free_the_last_items_learns_that_none_is_left() {
        for _ in 0..2_000 {
            let live = LiveItems::new((128, 8), Arc::default());
            [0, 127].into_iter().for_each(|index| live.allocate(index));
            let start = Barrier::new(2);
            let last = |index| {
                start.wait();
                live.free(index).unwrap() && live.is_empty()
            };
            let told = std::thread::scope(|threads| {
                let other = threads.spawn(|| last(0));
                let here = last(127);
                here | other.join().unwrap()
            });
            assert!(told);
        }
    }
}
