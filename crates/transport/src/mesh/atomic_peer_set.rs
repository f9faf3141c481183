//! A set of peers, one bit each, to which any thread adds and which is taken as a whole: those with deferred
//! frames, and those whose link is wanted.
//!
//! Who defers a frame puts it into the peer's outbox under its lock and then the peer into the set; who flushes
//! takes the whole set at once, and then the lock of each outbox of it.
//!
//! Why no frame is forgotten, under any order the memory model allows. Inserting and taking are
//! read-modify-writes of one word, so they have one order, and a bit is read by the first taking after
//! it: no taking overwrites a bit that it has not read, as a load and a store of zero would. Release
//! and acquire put the frame before that taking, and so before the taker's turn at the outbox's lock. The
//! read of [`AtomicPeerSet::take`] may be old, but not older than what happened before it: a thread sees at
//! least what it has inserted itself, and what those did who told it of theirs, or that somebody has taken them
//! since, who sends them next.
//!
//! `loom_tests.rs` checks this file with loom's atomics in the place of `shim`'s.

use super::shim::AtomicU64;
#[cfg(feature = "mutants")]
use crate::mutants;
use std::sync::atomic::Ordering;

const BITS: usize = u64::BITS as usize;

/// Peers by their place in the mesh.
#[derive(Debug)]
pub(crate) struct AtomicPeerSet(Box<[AtomicU64]>);

impl AtomicPeerSet {
    pub(crate) fn new(peers: usize) -> Self {
        Self((0..peers.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect())
    }

    /// The peer at this place is one of them, since before the call.
    pub(crate) fn insert(&self, place: usize) {
        self.0[place / BITS].fetch_or(1 << (place % BITS), Ordering::AcqRel);
    }

    /// Empties the set, and calls `each` with the place of every peer that was in it.
    pub(crate) fn take(&self, mut each: impl FnMut(usize)) {
        for (index, word) in self.0.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = take_all(word);
            while bits != 0 {
                each(index * BITS + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

fn take_all(word: &AtomicU64) -> u64 {
    #[cfg(feature = "mutants")]
    if mutants::on(mutants::DEFERRED_PEER_FORGOTTEN) {
        let bits = word.load(Ordering::Relaxed);
        word.store(0, Ordering::Relaxed);
        return bits;
    }
    word.swap(0, Ordering::AcqRel)
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom", feature = "mutants"))))]
mod tests {
    use super::*;

    #[test]
    fn what_is_inserted_is_taken_once() {
        let peers = AtomicPeerSet::new(130);
        let places = [0, 63, 64, 129];
        for place in [129, 63, 0, 64, 63] {
            peers.insert(place);
        }
        let mut taken = Vec::new();
        peers.take(|place| taken.push(place));
        assert_eq!(taken, places);
        peers.take(|place| panic!("{place} was taken"));
    }
}
