//! Which items of an area of this node are allocated: a bit each, changed by any thread without a lock.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

/// One item that a thread keeps; an area has fewer than so many items.
const LOAN: u64 = 1 << 40;

/// The allocated items of one area.
#[derive(Debug)]
pub(crate) struct LiveItems {
    bits: Box<[AtomicU64]>,
    /// How many are allocated, and in units of [`LOAN`] how many are free that a thread keeps for itself: in one
    /// word, for an item goes from one to the other while others look.
    counts: AtomicU64,
    /// Bytes that each is counted with.
    bytes: AtomicU64,
    /// How many areas there are of its kind: of one slab.
    areas: Arc<AtomicUsize>,
}

impl LiveItems {
    /// An area of `items` items of `bytes` bytes each, all free.
    pub(crate) fn new((items, bytes): (u64, u64), areas: Arc<AtomicUsize>) -> Self {
        let words = usize::try_from(items.div_ceil(64)).unwrap_or(0);
        Self {
            bits: (0..words).map(|_| AtomicU64::new(0)).collect(),
            counts: AtomicU64::new(0),
            bytes: AtomicU64::new(bytes),
            areas,
        }
    }

    fn word(&self, index: u32) -> Option<(&AtomicU64, u64)> {
        Some((self.bits.get(index as usize / 64)?, 1 << (index % 64)))
    }

    /// An item that nobody else has is allocated.
    pub(crate) fn allocate(&self, index: u32) {
        self.counts.fetch_add(1, Ordering::AcqRel);
        if let Some((word, bit)) = self.word(index) {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// An item is free: whether it was the last one. `None` if it was free already.
    pub(crate) fn free(&self, index: u32) -> Option<bool> {
        let (word, bit) = self.word(index)?;
        let was = word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        was.then(|| self.counts.fetch_sub(1, Ordering::AcqRel) % LOAN == 1)
    }

    /// Whether no item is allocated, and no thread keeps one.
    pub(crate) fn is_unused(&self) -> bool {
        self.counts.load(Ordering::Acquire) == 0
    }

    /// Whether no item is allocated.
    pub(crate) fn is_empty(&self) -> bool {
        self.counts.load(Ordering::Acquire).is_multiple_of(LOAN)
    }

    /// A thread keeps an item, before it is free; or a free one.
    pub(crate) fn lend(&self) {
        self.counts.fetch_add(LOAN, Ordering::AcqRel);
    }

    /// A thread keeps an item no more, after it is allocated; or gives it back.
    pub(crate) fn end_loan(&self) {
        self.counts.fetch_sub(LOAN, Ordering::AcqRel);
    }

    /// Bytes that each item is counted with.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// An area of one item is used again by another allocation.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// How many areas there are of its kind.
    pub(crate) fn areas(&self) -> &Arc<AtomicUsize> {
        &self.areas
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    #[test]
    fn an_item_is_free_once_and_the_last_one_is_known() {
        let live = LiveItems::new((70, 8), Arc::default());
        live.allocate(3);
        live.allocate(69);
        assert_eq!((live.free(69), live.free(69), live.free(4)), (Some(false), None, None));
        live.lend();
        assert_eq!((live.free(3), live.free(3), live.free(70)), (Some(true), None, None));
        assert!(live.is_empty() && !live.is_unused());
        live.end_loan();
        assert!(live.is_unused());
    }

    #[test]
    fn an_item_that_goes_from_allocated_to_kept_and_back_is_in_use_all_the_time() {
        let live = LiveItems::new((1, 8), Arc::default());
        live.allocate(0);
        let ended = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for _ in 0..1_000_000 {
                    live.lend();
                    assert_eq!(live.free(0), Some(true));
                    live.allocate(0);
                    live.end_loan();
                }
                ended.store(true, Ordering::Release);
            });
            while !ended.load(Ordering::Acquire) {
                assert!(!live.is_unused());
            }
        });
    }
}
