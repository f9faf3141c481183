//! The applications' sharing patterns, as `apps/` has them: read each beside its C source.
//!
//! Only minipages that several nodes touch appear. A step stands where the program first
//! touches a minipage after others may have taken it: a touch right after another cannot fault.

mod barriers;
mod is;
mod lu;
mod rows;
mod search;
mod tsp;
mod water;

pub use barriers::Barriers;
pub use is::Is;
pub use lu::Lu;
pub use rows::{Jacobi, Sor};
pub use tsp::Tsp;
pub use water::Water;

use super::Pattern;

/// All of them with the inputs of the Millipage paper (Jacobi: the default of `apps/`).
#[must_use]
pub fn paper() -> Vec<Box<dyn Pattern>> {
    vec![
        Box::new(Sor { rows: 32_768, columns: 64, iterations: 10 }),
        Box::new(Is { keys_log2: 23, values_log2: 9, iterations: 10 }),
        Box::new(Water { molecules: 512, steps: 3 }),
        Box::new(Lu { size: 1024, block: 32 }),
        Box::new(Tsp { cities: 19, level: 12, seed: 130 }),
        Box::new(Jacobi { iterations: 50 }),
    ]
}

/// The same with inputs that take a fraction of a second on one node.
#[must_use]
pub fn small() -> Vec<Box<dyn Pattern>> {
    vec![
        Box::new(Sor { rows: 8192, columns: 64, iterations: 100 }),
        Box::new(Is { keys_log2: 20, values_log2: 9, iterations: 20 }),
        Box::new(Water { molecules: 512, steps: 3 }),
        Box::new(Lu { size: 1024, block: 32 }),
        Box::new(Tsp { cities: 17, level: 11, seed: 130 }),
        Box::new(Jacobi { iterations: 100 }),
    ]
}
