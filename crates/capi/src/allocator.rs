//! The library's own allocator: mimalloc, and under a limit of addresses what was kept back for it. Where that is used
//! up, the node ends.

use core::alloc::{GlobalAlloc, Layout};

use mimalloc::MiMalloc;
use multigrain_runtime::{allocation_reserve, out_of_memory};

/// Asks once more where there was nothing, if addresses were kept back.
pub(crate) struct Allocator;

fn or_end(layout: Layout, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let place = or_again(allocate);
    if place.is_null() { out_of_memory::end(layout.size()) } else { place }
}

fn or_again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let place = allocate();
    if place.is_null() && allocation_reserve::give() { allocate() } else { place }
}

// SAFETY: all is mimalloc's, which keeps to the rules.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        or_end(layout, || unsafe { MiMalloc.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        or_end(layout, || unsafe { MiMalloc.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise; what fails has left the place as it was.
        or_end(layout, || unsafe { MiMalloc.realloc(place, layout, bytes) })
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { MiMalloc.dealloc(place, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn where_there_is_nothing_the_reserve_is_given_and_asked_for_once_more() {
        let asked = Cell::new(0);
        let second = || {
            asked.set(asked.get() + 1);
            if asked.get() == 2 { core::ptr::dangling_mut() } else { core::ptr::null_mut() }
        };
        assert!(allocation_reserve::is_kept());
        assert!(!or_again(second).is_null());
        assert_eq!(asked.replace(9), 2);
        assert!(or_again(second).is_null(), "no reserve is kept any more");
        assert_eq!(asked.get(), 10);
    }
}
