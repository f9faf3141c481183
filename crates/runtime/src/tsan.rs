//! Tells ThreadSanitizer what orders the threads of a node (feature `tsan`; nothing otherwise).
//!
//! The runtime is not instrumented: without this, memory that threads hand over under a lock would
//! be reported as a race. Tokens share a table: two in one place hide a race, none is invented.

#![cfg_attr(feature = "tsan", expect(unsafe_code, reason = "the sanitizer's own interface"))]

/// What one thread gives and another takes.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Token {
    Lock(u64),
    Barrier(u64),
    Semaphore(u64),
    Condition(u64),
    ReadWrite(u64),
    /// Freed memory, to the thread that is given it next.
    Free,
    Names,
    ThreadStart,
    ThreadEnd(u64),
}

/// What this thread did so far comes before what others do after they [`take`] the token.
#[inline]
pub(crate) fn give(token: Token) {
    #[cfg(feature = "tsan")]
    // SAFETY: the sanitizer only uses the address as a name.
    unsafe {
        __tsan_release(place(token));
    }
    #[cfg(not(feature = "tsan"))]
    let _ = token;
}

/// What others did before they gave the token comes before what this thread does now.
#[inline]
pub(crate) fn take(token: Token) {
    #[cfg(feature = "tsan")]
    // SAFETY: as above.
    unsafe {
        __tsan_acquire(place(token));
    }
    #[cfg(not(feature = "tsan"))]
    let _ = token;
}

#[cfg(feature = "tsan")]
unsafe extern "C" {
    fn __tsan_acquire(place: *const u64);
    fn __tsan_release(place: *const u64);
}

#[cfg(feature = "tsan")]
fn place(token: Token) -> *const u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    static PLACES: [u64; 1 << 14] = [0; 1 << 14];
    let mut hasher = DefaultHasher::new();
    token.hash(&mut hasher);
    let index = usize::try_from(hasher.finish()).unwrap_or(0) % PLACES.len();
    &raw const PLACES[index]
}
