//! The owner of a word in a phase: which threads may touch it.

use crate::sim::rng::Rng;

/// Who may touch a word in a phase.
pub(super) enum Owner {
    Lock(u32),
    Thread(usize),
    Nobody,
    /// It tells of one thing that was passed on; a thread that reads it has its lock.
    Flag,
    /// In turn.
    Transferred(Vec<usize>),
}

pub(super) fn owner(rng: &mut Rng, locks: u32, order: &[usize]) -> Owner {
    match rng.below(7) {
        0 => Owner::Nobody,
        6 => Owner::Flag,
        1 => {
            let first = index(rng, order.len());
            let turn: Vec<_> =
                order[first..].iter().copied().filter(|_| rng.once_in(2)).take(3).collect();
            Owner::Transferred(turn)
        }
        2 | 3 => Owner::Thread(rng.pick(order)),
        _ => Owner::Lock(rng.below32(locks)),
    }
}

pub(super) fn index(rng: &mut Rng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).unwrap_or(0)
}
