//! The event queue: what is due, by virtual time, then by the order in which it was entered.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bits of a key that name the slot; the rest of its low half numbers the entries.
const SLOT_BITS: u32 = 24;

/// Events by time. Keys are kept apart from the events, so that the heap moves 16 bytes an entry.
#[derive(Debug)]
pub(super) struct Queue<E> {
    /// Time in the high half; number, then slot, in the low half.
    heap: BinaryHeap<Reverse<u128>>,
    slots: Vec<E>,
    free: Vec<usize>,
    entered: u64,
}

impl<E: Copy> Queue<E> {
    pub(super) fn new() -> Self {
        Self { heap: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), entered: 0 }
    }

    pub(super) fn push(&mut self, at_ns: u64, event: E) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = event;
                slot
            }
            None => {
                self.slots.push(event);
                self.slots.len() - 1
            }
        };
        assert!(slot < 1 << SLOT_BITS, "more events are due than the queue can number");
        assert!(self.entered < 1 << (64 - SLOT_BITS), "the queue has run out of numbers");
        let low = self.entered << SLOT_BITS | slot as u64;
        self.entered += 1;
        self.heap.push(Reverse(u128::from(at_ns) << 64 | u128::from(low)));
    }

    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        let Reverse(key) = self.heap.pop()?;
        let slot = usize::try_from(key & ((1 << SLOT_BITS) - 1)).unwrap_or(usize::MAX);
        self.free.push(slot);
        Some((u64::try_from(key >> 64).unwrap_or(u64::MAX), self.slots[slot]))
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_those_of_one_time_in_the_order_entered() {
        let mut queue = Queue::new();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b')] {
            queue.push(at, name);
        }
        assert_eq!(queue.pop(), Some((1, 'a')));
        queue.push(5, 'e');
        let rest: String = core::iter::from_fn(|| queue.pop()).map(|(_, name)| name).collect();
        assert_eq!(rest, "bcde");
    }
}
