//! Posts of semaphores that signals' handlers leave to a thread of the runtime's own, for they may need a lock that the
//! interrupted thread has, or the allocator that it is in: those of C programs where the thread was [`crate::Inside`] of this
//! library, whose allocator is its own; in Rust, where it is the program's, all that say that they come from a handler.
//!
//! Role: a queue for many threads and their handlers, bounded, without locks and allocations (after D. Vyukov). A handler that
//! interrupts one that puts something in puts its own behind it.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rustix::thread::futex;

use crate::error::Error;
use crate::shim::{Mutex, lock};

/// Posts that wait, at most.
const MOST: usize = 1024;

/// An entry of the queue.
#[derive(Debug)]
struct Entry {
    /// Whose turn it is: that of the post of this number, or, plus 1, of who takes it out.
    turn: AtomicUsize,
    id: AtomicU64,
    count: AtomicU32,
}

/// The posts that wait.
#[derive(Debug)]
pub(crate) struct DeferredPosts {
    entries: Box<[Entry]>,
    /// The number of the next post.
    next: AtomicUsize,
    /// Of the next one to be taken out.
    first: Mutex<usize>,
    /// Changes with each; a futex.
    rescan: AtomicU32,
    /// Whether the helper is there; a futex.
    is_kept: AtomicU32,
}

impl Default for DeferredPosts {
    fn default() -> Self {
        let entry = |turn| Entry {
            turn: AtomicUsize::new(turn),
            id: AtomicU64::new(0),
            count: AtomicU32::new(0),
        };
        Self {
            entries: (0..MOST).map(entry).collect(),
            next: AtomicUsize::new(0),
            first: Mutex::default(),
            rescan: AtomicU32::new(0),
            is_kept: AtomicU32::new(0),
        }
    }
}

impl DeferredPosts {
    /// So many units for a semaphore. Callable in a handler.
    ///
    /// # Errors
    /// [`Error::Limit`]: too many wait.
    pub(crate) fn put(&self, id: u64, count: u32) -> Result<(), Error> {
        loop {
            let number = self.next.load(Ordering::Relaxed);
            let entry = &self.entries[number % MOST];
            let turn = entry.turn.load(Ordering::Acquire);
            if turn == number {
                let (order, failed) = (Ordering::Relaxed, Ordering::Relaxed);
                if self.next.compare_exchange(number, number + 1, order, failed).is_ok() {
                    entry.id.store(id, Ordering::Relaxed);
                    entry.count.store(count, Ordering::Relaxed);
                    entry.turn.store(number + 1, Ordering::Release);
                    break;
                }
            } else if turn < number {
                // Nothing is allocated for this text.
                return Err(Error::Limit(String::new()));
            }
        }
        self.rescan.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.rescan, futex::Flags::PRIVATE, 1);
        Ok(())
    }

    /// The next one.
    fn take(&self) -> Option<(u64, u32)> {
        let mut first = lock(&self.first);
        let entry = &self.entries[*first % MOST];
        if entry.turn.load(Ordering::Acquire) != *first + 1 {
            return None;
        }
        let post = (entry.id.load(Ordering::Relaxed), entry.count.load(Ordering::Relaxed));
        entry.turn.store(*first + MOST, Ordering::Release);
        *first += 1;
        Some(post)
    }

    /// Makes those that wait.
    pub(crate) fn make(&self, mut post: impl FnMut(u64, u32)) {
        while let Some((id, count)) = self.take() {
            post(id, count);
        }
    }

    /// Returns when the helper is there. What it takes of memory and addresses it has then, and not when the program has set
    /// itself a limit.
    pub(crate) fn await_helper(&self) {
        while self.is_kept.load(Ordering::Acquire) == 0 {
            let _ = futex::wait(&self.is_kept, futex::Flags::PRIVATE, 0, None);
        }
    }

    /// The helper: makes them as they come.
    pub(crate) fn keep_making(&self, mut post: impl FnMut(u64, u32)) -> ! {
        self.is_kept.store(1, Ordering::Release);
        let _ = futex::wake(&self.is_kept, futex::Flags::PRIVATE, 1);
        loop {
            let seen = self.rescan.load(Ordering::Acquire);
            self.make(&mut post);
            let _ = futex::wait(&self.rescan, futex::Flags::PRIVATE, seen, None);
        }
    }
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn posts_come_out_once_and_in_their_order_and_too_many_are_refused() {
        let posts = DeferredPosts::default();
        for round in 0..3 {
            let many = MOST as u64;
            assert!((0..many).all(|id| posts.put(id, round).is_ok()));
            assert!(posts.put(7, 7).is_err());
            let mut made = Vec::new();
            posts.make(|id, count| made.push((id, count)));
            assert!(made.iter().copied().eq((0..many).map(|id| (id, round))));
        }
    }

    #[test]
    fn posts_of_several_threads_all_come_out() {
        let posts = Arc::new(DeferredPosts::default());
        let threads = (0..4_u64).map(|id| {
            let posts = Arc::clone(&posts);
            std::thread::spawn(move || (0..200).for_each(|_| posts.put(id, 1).unwrap()))
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        let mut made = [0; 4];
        posts.make(|id, count| made[usize::try_from(id).unwrap()] += count);
        assert_eq!(made, [200; 4]);
    }
}
