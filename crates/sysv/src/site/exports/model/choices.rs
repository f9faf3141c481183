//! What happens before each call to the kernel: all of it, one after the other, or something by chance.

use core::hash::{BuildHasher, BuildHasherDefault, Hash};
use std::collections::HashSet;
use std::hash::DefaultHasher;

pub(super) fn hash_of(what: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(what)
}

/// A sequence of choices within one action of the site.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    script: Vec<usize>,
    /// How many ways there were at each.
    widths: Vec<usize>,
    at: usize,
    /// Calls and their results so far: the same ones bring the site's code to the same point.
    history: u64,
    /// Where a choice has been made with the same history and world: what can follow is the same.
    seen: HashSet<u64>,
    /// By chance, instead.
    random: Option<u64>,
}

/// The next of a sequence of numbers (xorshift).
pub(super) fn next_random(random: &mut u64) -> usize {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    usize::try_from(*random >> 20).unwrap_or(0)
}

impl Choices {
    pub(super) fn random(seed: u64) -> Self {
        Self { random: Some(seed | 1), ..Self::default() }
    }

    /// One of so many; 0 goes on.
    pub(super) fn choose(&mut self, width: usize, world: u64) -> usize {
        if let Some(random) = &mut self.random {
            let drawn = next_random(random);
            return if drawn.is_multiple_of(3) { drawn / 3 % width } else { 0 };
        }
        if self.at == self.script.len() {
            let is_new = self.seen.insert(hash_of(&(self.history, world)));
            self.script.push(0);
            self.widths.push(if is_new { width } else { 1 });
        }
        self.at += 1;
        self.script[self.at - 1]
    }

    pub(super) fn happened(&mut self, what: &impl Hash) {
        if self.random.is_none() {
            self.history = hash_of(&(self.history, what));
        }
    }

    /// Has the next run take the next way; false if there is none.
    pub(super) fn advance(&mut self) -> bool {
        (self.at, self.history) = (0, 0);
        while let (Some(chosen), Some(width)) = (self.script.pop(), self.widths.pop()) {
            if chosen + 1 < width {
                self.script.push(chosen + 1);
                self.widths.push(width);
                return true;
            }
        }
        false
    }
}
