//! Whether a thread is inside of this library. A signal's handler that has interrupted it there can need what the thread has, a
//! lock or the allocator, and would wait for itself: it leaves a post to another thread ([`crate::deferred_posts`]).
//!
//! Role: said where the program comes in: by its calls ([`crate::runtime`]), by traps, as its threads end, and in calls of the C
//! library that this one answers. A thread begins with its signals blocked.

use core::cell::Cell;
use core::marker::PhantomData;

std::thread_local! {
    /// How many functions of the library the thread is in, each called by a handler that has interrupted the one before.
    /// Constant and without destructor: usable in a handler.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread is in a function of the library until this is dropped. (Where a jump over it keeps it, posts of the thread
/// are made late from then on, and no post is lost.)
#[derive(Debug)]
pub struct Inside(PhantomData<*mut ()>);

impl Inside {
    /// From here on.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it changes its thread")]
    pub fn new() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        Self(PhantomData)
    }

    /// Whether the function has interrupted another one.
    pub(crate) fn is_nested() -> bool {
        DEPTH.get() > 1
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// A function of the program that the library calls: the calling thread is not inside until this is dropped.
#[derive(Debug)]
pub(crate) struct Outside {
    depth: u32,
    /// It is the thread's.
    _here: PhantomData<*mut ()>,
}

impl Outside {
    /// From here on.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { depth: DEPTH.replace(0), _here: PhantomData }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        DEPTH.set(self.depth);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_interrupted_another_function_is_nested() {
        assert!(!Inside::is_nested());
        let _outer = Inside::new();
        assert!(!Inside::is_nested());
        let inner = Inside::new();
        assert!(Inside::is_nested());
        drop(inner);
        assert!(!Inside::is_nested());
    }

    #[test]
    fn a_function_of_the_program_that_the_library_calls_is_not_inside() {
        let _outer = Inside::new();
        let outside = Outside::new();
        let post = Inside::new();
        assert!(!Inside::is_nested());
        drop((post, outside));
        let _interrupts = Inside::new();
        assert!(Inside::is_nested());
    }
}
