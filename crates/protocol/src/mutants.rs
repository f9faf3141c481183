//! Mutants: seeded faults, tests of the tests. Compiled in by the feature `mutants` alone, and chosen when
//! the program starts by the variable [`VARIABLE`]; an ordinary build has none of this.
//!
//! Role: [`MUTANTS`] is the list of all of them, by name. Each is bent beside the row that it breaks,
//! by the macro `mutant!` with its name; those of the runtime and of the transport are in their own crates. The
//! environment is read here and nowhere else in this crate.
//!
//! `multigrain mutants` runs every check against every mutant.

mod list;

use std::env;
use std::sync::OnceLock;

pub use self::list::{Group, MUTANTS, Row};

/// The environment variable that chooses a mutant by its name.
pub const VARIABLE: &str = "MULTIGRAIN_MUTANT";

/// A mutant: its place in [`MUTANTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutant(usize);

impl Mutant {
    /// The mutant of that name.
    ///
    /// # Panics
    /// If there is none: in a constant, the program does not compile.
    #[must_use]
    pub const fn named(name: &str) -> Self {
        let mut index = 0;
        while index < MUTANTS.len() {
            if is_same(MUTANTS[index].name.as_bytes(), name.as_bytes()) {
                return Self(index);
            }
            index += 1;
        }
        panic!("a mutant that is not in the list")
    }
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// The mutant this process is, if it is one. Ends the process when the name is unknown: a test of
/// a mutant that is none would prove nothing.
pub fn chosen() -> Option<Mutant> {
    static CHOSEN: OnceLock<Option<Mutant>> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = env::var(VARIABLE).ok()?;
        let index = MUTANTS.iter().position(|row| row.name == name);
        if index.is_none() {
            eprintln!(
                "multigrain: {VARIABLE}={name} is no mutant; multigrain mutants --list has them"
            );
            std::process::exit(2);
        }
        index.map(Mutant)
    })
}

/// Whether this process is that mutant.
pub fn on(mutant: Mutant) -> bool {
    chosen() == Some(mutant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_has_a_name_of_its_own() {
        for (index, row) in MUTANTS.iter().enumerate() {
            assert_eq!(Mutant::named(row.name), Mutant(index), "{}", row.name);
        }
    }
}
