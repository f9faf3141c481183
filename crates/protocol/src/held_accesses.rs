//! What one thread's instruction holds while it is retried, and what it was granted before.
//!
//! Role: the rule that lets an instruction get all minipages it needs at once, shared by the
//! runtime, the simulator and the model checker (ADR 17).
//!
//! An instruction that needs a second minipage while it *holds* a first keeps what lies below the
//! second and gives up the rest. So every thread waits for a minipage above those it holds, and no wait is
//! circular. An instruction that traps again on a minipage that it was granted before makes a *pinned retry*:
//! it holds this grant. One that needs a single minipage completes after two faults, one that needs two after
//! five.
//!
//! Invariants: no allocation and no destructor, since the runtime keeps one for each thread and uses
//! it in signal handlers.

use multigrain_types::MinipageId;
use smallvec::SmallVec;

use crate::mutant_macro::mutant;

/// Most minipages an instruction holds, and most of its grants that are remembered. A string move
/// needs four; a gather may need more, and ends without.
const MOST: usize = 8;

/// Minipages of one instruction.
pub type Minipages = SmallVec<[MinipageId; MOST]>;

/// The accesses of one thread. `At` says which instruction it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Accesses<At> {
    held: [Option<MinipageId>; MOST],
    granted: [Option<(At, MinipageId)>; MOST],
    /// The place in `granted` that is used next.
    next: usize,
}

/// What a fault has to do before it asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// What is not held any longer: to be retired first.
    pub given_up: Minipages,
    /// Whether the instruction lost the minipage before, or holds others of it:
    /// [`crate::Input::PinnedRetry`].
    pub pinned: bool,
}

impl<At: Copy + Eq> Accesses<At> {
    /// Nothing held, nothing granted.
    #[must_use]
    pub const fn new() -> Self {
        Self { held: [None; MOST], granted: [None; MOST], next: 0 }
    }

    /// Whether the instruction at hand holds something.
    #[must_use]
    pub fn holds_any(&self) -> bool {
        self.held.iter().any(Option::is_some)
    }

    /// The instruction at hand traps on a minipage.
    pub fn fault(&mut self, at: At, minipage: MinipageId) -> Asking {
        let granted = Some((at, minipage));
        let (holds_any, was_granted) = (self.holds_any(), self.granted.contains(&granted));
        if !was_granted {
            self.granted[self.next] = granted;
            self.next = (self.next + 1) % MOST;
        }
        let mut given_up = Minipages::new();
        if holds_any {
            let goes = |held: &mut MinipageId| gives_up(*held, minipage);
            given_up.extend(self.held.iter_mut().filter_map(|place| place.take_if(goes)));
        }
        Asking { given_up, pinned: holds_any || was_granted }
    }

    /// Whether the instruction at hand holds a minipage. If it traps on that with the access that it needs, only the
    /// page tables lag, and it goes on holding it.
    #[must_use]
    pub fn holds(&self, minipage: MinipageId) -> bool {
        self.held.contains(&Some(minipage))
    }

    /// The instruction at hand is asked to hold a minipage; false if it holds too many, and must
    /// retire this one at once.
    pub fn hold(&mut self, minipage: MinipageId) -> bool {
        let free = self.held.iter_mut().find(|place| place.is_none());
        free.map(|place| *place = Some(minipage)).is_some()
    }

    /// The instruction at hand is through: what it held is to be retired.
    pub fn retire(&mut self) -> Minipages {
        self.held.iter_mut().filter_map(Option::take).collect()
    }

    /// What was granted before says nothing about what comes.
    pub fn forget(&mut self) {
        (self.granted, self.next) = ([None; MOST], 0);
    }
}

impl<At: Copy + Eq> Default for Accesses<At> {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a held minipage is given up by a fault on another.
fn gives_up(held: MinipageId, wanted: MinipageId) -> bool {
    mutant!("second-minipage-drops-first" => {
        return true;
    });
    mutant!("held-against-order" => {
        return held == wanted;
    });
    held >= wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: MinipageId = MinipageId(1);
    const HIGH: MinipageId = MinipageId(2);

    fn asking(given_up: &[MinipageId], pinned: bool) -> Asking {
        Asking { given_up: given_up.into(), pinned }
    }

    #[test]
    fn an_instruction_retries_with_a_pin_from_its_second_fault_on_a_minipage_on() {
        let mut accesses = Accesses::new();
        assert_eq!(accesses.fault(7, LOW), asking(&[], false));
        assert_eq!(accesses.fault(8, LOW), asking(&[], false), "another instruction");
        assert_eq!(accesses.fault(7, HIGH), asking(&[], false), "another minipage");
        assert_eq!(accesses.fault(7, LOW), asking(&[], true));
        accesses.forget();
        assert_eq!(accesses.fault(7, LOW), asking(&[], false));
    }

    #[test]
    fn what_lies_below_stays_held_and_what_lies_above_is_given_up() {
        let mut accesses = Accesses::new();
        assert!(accesses.hold(LOW));
        assert_eq!(accesses.fault(7, HIGH), asking(&[], true), "it holds another");
        assert!(accesses.hold(HIGH));
        assert_eq!(accesses.fault(7, LOW), asking(&[LOW, HIGH], true));
        assert!(!accesses.holds_any());
    }

    #[test]
    fn who_holds_too_many_holds_no_more_and_retires_all() {
        let mut accesses = Accesses::<u8>::new();
        let minipages: Minipages = (0..8).map(MinipageId).collect();
        assert!(minipages.iter().all(|&minipage| accesses.hold(minipage)));
        assert!(!accesses.hold(MinipageId(8)));
        assert_eq!(accesses.retire(), minipages);
        assert!(!accesses.holds_any() && accesses.retire().is_empty());
    }
}
