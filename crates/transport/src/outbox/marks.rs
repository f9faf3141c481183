//! Which peers have deferred frames: one bit a peer.
//!
//! Who defers a frame puts it into the peer's outbox under its lock and then marks the peer; who flushes
//! takes all marks at once, and then the lock of each outbox that was marked.
//!
//! Why no frame is forgotten, under any order the memory model allows. Marking and taking are
//! read-modify-writes of one word, so they have one order, and a mark is read by the first taking after
//! it: no taking overwrites a mark that it has not read, as a load and a store of zero would. Release
//! and acquire put the frame before that taking, and so before the taker's turn at the outbox's lock. The
//! read of [`Marks::take`] may be old, but not older than what happened before it: a thread sees at
//! least its own marks, and those of whoever told it of them, or that somebody has taken them
//! since, who sends them next.
//!
//! `loom_tests.rs` checks this file with loom's atomics in the place of `shim`'s.

use super::shim::AtomicU64;
#[cfg(feature = "mutants")]
use crate::mutants;
use std::sync::atomic::Ordering;

const BITS: usize = u64::BITS as usize;

/// Marks of peers by their place in the mesh.
#[derive(Debug)]
pub(crate) struct Marks(Box<[AtomicU64]>);

impl Marks {
    pub(crate) fn new(peers: usize) -> Self {
        Self((0..peers.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect())
    }

    /// There is a deferred frame for the peer at this place, since before the call.
    pub(crate) fn mark(&self, place: usize) {
        self.0[place / BITS].fetch_or(1 << (place % BITS), Ordering::AcqRel);
    }

    /// Calls `send` with the place of every peer that was marked, which it is no more.
    pub(crate) fn take(&self, mut send: impl FnMut(usize)) {
        for (index, word) in self.0.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut marked = take_all(word);
            while marked != 0 {
                send(index * BITS + marked.trailing_zeros() as usize);
                marked &= marked - 1;
            }
        }
    }
}

fn take_all(word: &AtomicU64) -> u64 {
    #[cfg(feature = "mutants")]
    if mutants::on(mutants::DEFERRED_MARK_OVERWRITTEN) {
        let marked = word.load(Ordering::Relaxed);
        word.store(0, Ordering::Relaxed);
        return marked;
    }
    word.swap(0, Ordering::AcqRel)
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom", feature = "mutants"))))]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_taken_once() {
        let marks = Marks::new(130);
        let places = [0, 63, 64, 129];
        for place in [129, 63, 0, 64, 63] {
            marks.mark(place);
        }
        let mut taken = Vec::new();
        marks.take(|place| taken.push(place));
        assert_eq!(taken, places);
        marks.take(|place| panic!("{place} was taken"));
    }
}
