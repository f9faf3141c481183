//! Coverage marks: which rows of [`super::table`] have run on this thread. Compiled in by the
//! feature `marks` alone; without it a mark is nothing.

#[cfg(feature = "marks")]
use core::cell::Cell;

#[cfg(feature = "marks")]
use super::table::Mark;

#[cfg(feature = "marks")]
std::thread_local! {
    static REACHED: Cell<u64> = const { Cell::new(0) };
}

/// Notes that a row runs: `mark!(Row)`, or `mark!(Row, or Other if condition)`.
macro_rules! mark {
    ($row:ident) => {
        #[cfg(feature = "marks")]
        $crate::mgs::marks::note($crate::mgs::table::Mark::$row);
    };
    ($row:ident, or $other:ident if $condition:expr) => {
        #[cfg(feature = "marks")]
        $crate::mgs::marks::note(if $condition {
            $crate::mgs::table::Mark::$other
        } else {
            $crate::mgs::table::Mark::$row
        });
    };
}
pub(super) use mark;

#[cfg(feature = "marks")]
pub(super) fn note(mark: Mark) {
    REACHED.with(|reached| reached.set(reached.get() | 1 << (mark as u8)));
}

/// The rows that have run on this thread since the last call, in the table's order.
#[cfg(feature = "marks")]
#[must_use]
pub fn take_reached() -> Vec<Mark> {
    let reached = REACHED.take();
    Mark::ALL.iter().copied().filter(|&mark| reached >> (mark as u8) & 1 == 1).collect()
}
