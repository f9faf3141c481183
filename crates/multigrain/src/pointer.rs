//! Addresses that the runtime gives, as pointers.

use core::ptr::NonNull;

/// The pointer of an address the runtime gave.
pub(crate) fn pointer<T>(address: usize) -> NonNull<T> {
    NonNull::new(core::ptr::with_exposed_provenance_mut(address))
        .expect("shared memory is not at address 0")
}
