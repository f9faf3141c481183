//! The applications' sharing patterns, as `apps/` has them: read each beside its C source.
//!
//! Only minipages that several nodes touch appear. A step stands where the program first
//! touches a minipage after others may have taken it: a touch right after another cannot fault.

mod barriers;
mod copies;
mod is;
mod lu;
mod rows;
mod search;
mod tsp;
mod water;

pub use barriers::Barriers;
pub use copies::Copies;
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
        Box::new(Jacobi { size: 1024, iterations: 50 }),
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
        Box::new(Jacobi { size: 1024, iterations: 100 }),
    ]
}

/// Inputs that fill [`FILLED`] machines: gigabytes each of the matrices and of the keys. The applications whose work grows faster
/// than their memory (LU, WATER) take what computes for minutes on one machine. TSP has no memory to fill, and what it searches
/// is a matter of luck: it is left out.
#[must_use]
pub fn filling() -> Vec<Box<dyn Pattern>> {
    growing(FILLED)
}

/// So many machines [`filling`] fills.
pub const FILLED: u16 = 64;

/// Inputs of which every node has as much work as one of [`FILLED`] has of those that fill them, or, where an input cannot be
/// cut as finely, a little less.
#[must_use]
pub fn growing(nodes: u16) -> Vec<Box<dyn Pattern>> {
    let share = u32::from(nodes);
    // Roots of the share, of inputs for one node.
    let root = |power: f64, of_one: u32, step: u32| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number"
        )]
        let whole = (f64::from(of_one) * f64::from(share).powf(power.recip())).round() as u32;
        whole / step * step
    };
    vec![
        Box::new(Sor { rows: 32_768 * share, columns: 4096, iterations: 10 }),
        Box::new(Is { keys_log2: 28 + share.ilog2(), values_log2: 9, iterations: 10 }),
        Box::new(Water { molecules: root(2.0, 2048, 8), steps: 3 }),
        Box::new(Lu { size: root(3.0, 8192, 128), block: 128 }),
        Box::new(Jacobi { size: root(2.0, 8192, 8), iterations: 50 }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::work;

    /// Rounding takes up to a tenth of the work of small inputs.
    #[test]
    fn a_nodes_share_of_inputs_that_grow_stays() {
        let of_one: Vec<u64> = growing(1).iter().map(|pattern| work(pattern.as_ref())).collect();
        for nodes in [2, 8] {
            for (pattern, one) in growing(nodes).iter().zip(&of_one) {
                let share = work(pattern.as_ref()) / u64::from(nodes);
                assert!(share <= one + one / 10 && share >= one - one / 10, "{pattern:?}: {one}");
            }
        }
    }
}
