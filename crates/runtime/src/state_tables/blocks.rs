//! States of one kind for the minipages of an area, allocated in blocks at first use.

#![expect(
    unsafe_code,
    reason = "states are borrowed under a shard's lock, which the compiler cannot see"
)]

use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Minipages per block of states: few, for of minipages that are far apart each has a block of its own.
pub(super) const BLOCK: u32 = 32;

type Row<T> = [UnsafeCell<T>; BLOCK as usize];

/// Blocks of states of one kind. What nobody uses is not even written, so it costs address space alone.
pub(super) struct Blocks<T>(Box<[AtomicPtr<Row<T>>]>);

impl<T> Blocks<T> {
    pub(super) fn new(minipages: u32) -> Self {
        let blocks = Box::new_zeroed_slice(minipages.div_ceil(BLOCK) as usize);
        // SAFETY: an atomic pointer of zero bytes is a null pointer.
        Self(unsafe { blocks.assume_init() })
    }

    /// The state of a minipage; its block comes into being with first states.
    pub(super) fn get(&self, index: u32, first: impl Fn() -> T) -> &UnsafeCell<T> {
        let (block, index) = ((index / BLOCK) as usize, (index % BLOCK) as usize);
        let place = &self.0[block];
        let mut row = place.load(Ordering::Acquire);
        if row.is_null() {
            let new: Box<Row<T>> = Box::new(core::array::from_fn(|_| UnsafeCell::new(first())));
            let new = Box::into_raw(new);
            row = match place.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: it was made just above, and nobody else knows of it.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        // SAFETY: a block lives until `forget` or the end; `forget`'s caller holds the locks of all
        // minipages, and whoever looks at a state that of its own.
        unsafe { &(&*row)[index] }
    }

    /// Whether the block that a minipage is in has come into being.
    pub(super) fn is_used(&self, index: u32) -> bool {
        let block = self.0.get((index / BLOCK) as usize);
        block.is_some_and(|block| !block.load(Ordering::Relaxed).is_null())
    }

    /// Forgets blocks of which all states are as at first: they come into being again like that. Whether
    /// none is left.
    ///
    /// # Safety
    /// The caller holds the locks of all minipages.
    pub(super) unsafe fn forget(&self, is_first: impl Fn(&T) -> bool) -> bool {
        let mut none = true;
        for place in &self.0 {
            let row = place.load(Ordering::Acquire);
            if row.is_null() {
                continue;
            }
            // SAFETY: no other thread looks at a state, as the caller says.
            let states = unsafe { &*row };
            // SAFETY: as above.
            if states.iter().all(|state| is_first(unsafe { &*state.get() })) {
                place.store(null_mut(), Ordering::Release);
                // SAFETY: it was made by `get`, and nobody has it any more.
                drop(unsafe { Box::from_raw(row) });
            } else {
                none = false;
            }
        }
        none
    }
}

impl<T> Drop for Blocks<T> {
    fn drop(&mut self) {
        for place in &mut self.0 {
            let row = core::mem::replace(place.get_mut(), null_mut());
            if !row.is_null() {
                // SAFETY: it was made by `get`, and nobody has it any more.
                drop(unsafe { Box::from_raw(row) });
            }
        }
    }
}

impl<T> fmt::Debug for Blocks<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} blocks", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_that_are_as_at_first_are_forgotten() {
        let blocks: Blocks<u8> = Blocks::new(100);
        assert!(!blocks.is_used(0) && !blocks.is_used(1000));
        for index in [0, 31, 32, 99] {
            // SAFETY: no other thread has the blocks.
            assert_eq!(unsafe { *blocks.get(index, || 7).get() }, 7);
        }
        // SAFETY: as above.
        unsafe { *blocks.get(32, || 7).get() = 8 };
        // SAFETY: as above.
        assert!(!unsafe { blocks.forget(|state| *state == 7) });
        assert_eq!([0, 33, 64, 99].map(|index| blocks.is_used(index)), [false, true, false, false]);
        // SAFETY: as above.
        assert!(unsafe { blocks.forget(|state| *state == 7 || *state == 8) });
    }
}
