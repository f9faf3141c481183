//! Single accesses to memory that may trap, and the time they take.
#![expect(unsafe_code, reason = "shared memory is accessed by pointer only")]

use super::samples::Samples;
use std::time::Instant;

/// Reads one word at `address`, which is shared memory of at least that size.
pub(super) fn load(address: usize) -> u64 {
    let place = core::ptr::with_exposed_provenance::<u64>(address);
    // SAFETY: every caller passes the start of a minipage of at least 8 bytes, which stays mapped;
    // a trap brings it here.
    unsafe { place.read_volatile() }
}

/// Writes one word at `address`, which is shared memory of at least that size.
pub(super) fn store(address: usize, value: u64) {
    let place = core::ptr::with_exposed_provenance_mut::<u64>(address);
    // SAFETY: as for `load`.
    unsafe { place.write_volatile(value) }
}

/// The time of one call, nanoseconds.
pub(super) fn timed(operation: impl FnOnce()) -> f64 {
    let start = Instant::now();
    operation();
    #[expect(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    let nanos = start.elapsed().as_nanos() as f64;
    nanos
}

/// For what is too short for the clock: `groups` times so many calls, one sample a group.
pub(super) fn grouped(groups: usize, group: usize, mut operation: impl FnMut(usize)) -> Samples {
    let one = |number: usize| timed(|| (0..group).for_each(|i| operation(number * group + i)));
    #[expect(clippy::cast_precision_loss, reason = "groups are small")]
    let share = 1.0 / group as f64;
    (0..groups).map(one).collect::<Samples>().scaled(share)
}
