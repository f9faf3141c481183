//! Plain accesses to shared memory, aligned or not, as a program's instructions make them.
//!
//! All addresses are of live allocations of the job. If two threads touch a byte and neither waits for the other,
//! neither writes it: that is how programs are generated.
#![expect(unsafe_code, reason = "shared memory is reached by pointer")]

use core::ops::Range;
use core::ptr::{self, with_exposed_provenance_mut};

pub(super) fn read(place: Range<usize>) -> Vec<u8> {
    let mut bytes = vec![0; place.len()];
    let from = with_exposed_provenance_mut::<u8>(place.start);
    // SAFETY: `from` is live shared memory of that length that nobody writes now, see the module.
    unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), bytes.len()) };
    bytes
}

pub(super) fn write(place: Range<usize>, bytes: &[u8]) {
    assert_eq!(place.len(), bytes.len());
    let to = with_exposed_provenance_mut::<u8>(place.start);
    // SAFETY: `to` is live shared memory of that length that is this thread's, see the module.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

/// From shared memory to shared memory; the two may overlap.
pub(super) fn copy(from: Range<usize>, to: Range<usize>) {
    assert_eq!(from.len(), to.len());
    let source = with_exposed_provenance_mut::<u8>(from.start);
    let target = with_exposed_provenance_mut::<u8>(to.start);
    // SAFETY: both are live shared memory; nobody writes the source, and the target is this
    // thread's, see the module.
    unsafe { ptr::copy(source, target, from.len()) };
}

/// Adds to a number of 1, 2, 4 or 8 bytes that need not be aligned.
pub(super) fn add(place: Range<usize>, amount: u64) {
    /// One load and one store.
    macro_rules! add {
        ($number:ty) => {{
            let place = with_exposed_provenance_mut::<$number>(place.start);
            // SAFETY: live shared memory that is this thread's, see the module.
            let before = unsafe { place.read_unaligned() };
            #[expect(clippy::cast_possible_truncation, reason = "as much as the number holds")]
            let after = before.wrapping_add(amount as $number);
            // SAFETY: as above.
            unsafe { place.write_unaligned(after) };
        }};
    }
    match place.len() {
        1 => add!(u8),
        2 => add!(u16),
        4 => add!(u32),
        8 => {
            let place = with_exposed_provenance_mut::<u64>(place.start);
            // SAFETY: live shared memory that is this thread's, see the module.
            let before = unsafe { place.read_unaligned() };
            // SAFETY: as above.
            unsafe { place.write_unaligned(before.wrapping_add(amount)) };
        }
        bytes => unreachable!("a number of {bytes} bytes"),
    }
}
