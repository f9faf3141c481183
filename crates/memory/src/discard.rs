//! Memory that nobody reads: messages about a retired area may still arrive, and their contents go here instead of
//! into the area that has its place now.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::atomic_table::ZeroTable;
use crate::error::MemoryError;

/// Room for one minipage at a time, whose bytes nobody reads.
#[derive(Debug, Default)]
pub(crate) struct Discard {
    /// An exposed address.
    place: AtomicUsize,
    /// The rooms so far, each larger than the one before, which may be in use.
    rooms: Mutex<Vec<(usize, ZeroTable<AtomicU32>)>>,
}

impl Discard {
    /// Makes room for minipages of so many bytes.
    pub(crate) fn make_room(&self, bytes: usize) -> Result<(), MemoryError> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if rooms.last().is_none_or(|(largest, _)| *largest < bytes) {
            let bytes = bytes.next_power_of_two();
            let room = ZeroTable::<AtomicU32>::new(bytes.div_ceil(size_of::<AtomicU32>()))?;
            self.place.store(room.start().expose_provenance(), Ordering::SeqCst);
            rooms.push((bytes, room));
        }
        Ok(())
    }

    /// The largest room; its place is exposed.
    #[inline]
    pub(crate) fn place(&self) -> usize {
        self.place.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_the_largest_minipage_is_room_for_all() {
        let discard = Discard::default();
        discard.make_room(64).unwrap();
        let first = discard.place();
        discard.make_room(50).unwrap();
        assert_eq!(discard.place(), first);
        discard.make_room(1 << 20).unwrap();
        assert_ne!(discard.place(), first);
    }
}
