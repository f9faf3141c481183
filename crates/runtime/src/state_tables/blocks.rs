//! States of one kind for the minipages of an area, allocated in blocks at first use.

#![expect(
    unsafe_code,
    reason = "states are borrowed under a shard's lock, which the compiler cannot see"
)]

use core::cell::UnsafeCell;
use core::fmt;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Minipages per block of states: few, for of minipages that are far apart each has a block of its own.
pub(super) const BLOCK: u32 = 32;

/// Blocks whose places are looked at together, or not at all: as many as fill a page of memory.
const GROUP: usize = 512;

type Block<T> = [UnsafeCell<T>; BLOCK as usize];

/// Blocks of states of one kind. What nobody uses is neither written nor read, so it costs address space alone.
pub(super) struct Blocks<T> {
    blocks: Box<[AtomicPtr<Block<T>>]>,
    /// Whether a block of a group ever came into being; empty, and so nothing to allocate, where one group is all.
    touched: Box<[AtomicBool]>,
}

impl<T> Blocks<T> {
    pub(super) fn new(minipages: u32) -> Self {
        let count = minipages.div_ceil(BLOCK) as usize;
        let groups = if count > GROUP { count.div_ceil(GROUP) } else { 0 };
        let blocks = Box::new_zeroed_slice(count);
        // SAFETY: an atomic pointer of zero bytes is a null pointer.
        let blocks = unsafe { blocks.assume_init() };
        Self { blocks, touched: (0..groups).map(|_| AtomicBool::new(false)).collect() }
    }

    /// Whether a block of this group may have come into being.
    fn is_touched(&self, group: usize) -> bool {
        self.touched.get(group).is_none_or(|touched| touched.load(Ordering::Acquire))
    }

    /// The places of all blocks that may have come into being.
    fn touched(&self) -> impl Iterator<Item = &AtomicPtr<Block<T>>> {
        let groups = self.blocks.chunks(GROUP).enumerate();
        groups.filter(|&(group, _)| self.is_touched(group)).flat_map(|(_, places)| places)
    }

    /// The state of a minipage; its block comes into being with first states.
    pub(super) fn get(&self, index: u32, first: impl Fn() -> T) -> &UnsafeCell<T> {
        let (block, index) = ((index / BLOCK) as usize, (index % BLOCK) as usize);
        let place = &self.blocks[block];
        let mut row = place.load(Ordering::Acquire);
        if row.is_null() {
            if let Some(touched) = self.touched.get(block / GROUP) {
                touched.store(true, Ordering::Release);
            }
            let new: Box<Block<T>> = Box::new(core::array::from_fn(|_| UnsafeCell::new(first())));
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

    /// Puts states into a block of which there are none yet.
    ///
    /// # Panics
    /// If there are.
    pub(super) fn put(&mut self, block: u32, states: [T; BLOCK as usize]) {
        if let Some(touched) = self.touched.get_mut(block as usize / GROUP) {
            *touched.get_mut() = true;
        }
        let place = self.blocks[block as usize].get_mut();
        assert!(place.is_null(), "block {block} is there already");
        *place = Box::into_raw(Box::new(states.map(UnsafeCell::new)));
    }

    /// The blocks that have come into being, each with its number.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u32, &Block<T>)> {
        let groups = (0u32..).step_by(GROUP).zip(self.blocks.chunks(GROUP)).enumerate();
        let touched = groups.filter(|&(group, _)| self.is_touched(group));
        touched.flat_map(|(_, (first, places))| (first..).zip(places)).filter_map(
            |(block, place)| {
                let row = place.load(Ordering::Acquire);
                // SAFETY: as in `get`.
                (!row.is_null()).then(|| (block, unsafe { &*row }))
            },
        )
    }

    /// Whether the block that a minipage is in has come into being.
    pub(super) fn is_used(&self, index: u32) -> bool {
        let block = (index / BLOCK) as usize;
        let place = self.blocks.get(block).filter(|_| self.is_touched(block / GROUP));
        place.is_some_and(|place| !place.load(Ordering::Relaxed).is_null())
    }

    /// Forgets blocks of which all states are as at first: they come into being again like that. Whether
    /// none is left.
    ///
    /// # Safety
    /// The caller holds the locks of all minipages.
    pub(super) unsafe fn forget(&self, is_first: impl Fn(&T) -> bool) -> bool {
        let mut none = true;
        for place in self.touched() {
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
        for place in self.touched() {
            let row = place.swap(null_mut(), Ordering::Acquire);
            if !row.is_null() {
                // SAFETY: it was made by `get`, and nobody has it any more.
                drop(unsafe { Box::from_raw(row) });
            }
        }
    }
}

impl<T> fmt::Debug for Blocks<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} blocks", self.blocks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_blocks_in_groups_those_that_came_into_being_are_found() {
        let group = u32::try_from(GROUP).unwrap() * BLOCK;
        let blocks: Blocks<u8> = Blocks::new(4 * group);
        // SAFETY: no other thread has the blocks.
        unsafe { *blocks.get(2 * group + 40, || 7).get() = 8 };
        let used = |blocks: &Blocks<u8>| {
            let all = (0..4 * group).step_by(BLOCK as usize);
            all.filter(|&index| blocks.is_used(index)).collect::<Vec<u32>>()
        };
        assert_eq!(used(&blocks), [2 * group + 32]);
        assert_eq!(blocks.touched().count(), GROUP, "the others are not looked at");
        // SAFETY: as above.
        assert!(!unsafe { blocks.forget(|state| *state == 7) });
        // SAFETY: as above.
        assert!(unsafe { blocks.forget(|state| *state == 7 || *state == 8) });
        assert!(used(&blocks).is_empty());
    }

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
