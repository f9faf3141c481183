//! Addresses that the runtime gives, as pointers.

use core::ptr::NonNull;

/// The pointer of an address the runtime gave.
pub(crate) fn pointer<T>(address: usize) -> NonNull<T> {
    NonNull::new(core::ptr::with_exposed_provenance_mut(address))
        .expect("shared memory is not at address 0")
}

/// The pointer of an address that travelled as a word.
pub(crate) fn pointer_of<T>(word: u64) -> NonNull<T> {
    pointer(usize::try_from(word).expect("an address of this machine"))
}
