//! Seeded faults below the protocol that change a number or a choice; those of the engine's world are in
//! `engine/mutants.rs`.

use multigrain_protocol::mutants::{Mutant, on};

/// How much may wait: so much, or without end.
pub(crate) fn bound(mutant: Mutant, most: usize) -> usize {
    if on(mutant) { usize::MAX } else { most }
}
