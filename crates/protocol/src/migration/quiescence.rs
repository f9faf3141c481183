//! Quiescence: what a node has declared to a barrier's manager.

use crate::mutant_macro::mutant;

/// What a node has declared to a barrier's manager in the present episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Quiescence {
    /// Nothing: threads of it may run.
    #[default]
    Active,
    /// Nothing either, and one of those who will be announced together found that others run.
    FoundActive,
    /// All its threads wait.
    Declared,
    /// It declared so, and has asked to take it back.
    Retracting,
    /// The same, and the manager had decided before: its threads have been let go, and the answer is to come.
    LetGo,
}

impl Quiescence {
    /// A thread comes, and has looked whether every thread of the node that can write has begun.
    pub(crate) fn look(&mut self, all_begun: bool) {
        if !all_begun && *self == Self::Active {
            *self = Self::FoundActive;
        }
    }

    /// Threads of this node have come to a barrier, announced together. `may`: every thread of the
    /// node that can write has begun; so many `wait` here of so many `threads`. True if all of them
    /// do, which is declared now.
    pub(crate) fn declare(&mut self, may: bool, wait: usize, threads: u32) -> bool {
        // A node that came before may have looked later.
        let all = may && *self != Self::FoundActive && wait == threads as usize;
        if *self == Self::FoundActive {
            *self = Self::Active;
        }
        if all {
            *self = Self::Declared;
        }
        all
    }

    /// Whether the manager may believe that all threads of this node wait.
    #[must_use]
    pub fn is_declared(self) -> bool {
        matches!(self, Self::Declared | Self::Retracting)
    }

    /// A thread begins: true if the manager has to be asked to take the declaration back.
    pub(crate) fn begin(&mut self) -> bool {
        let asks = *self == Self::Declared;
        if asks {
            *self = Self::Retracting;
        }
        asks
    }

    /// The barrier lets threads of this node go.
    pub(crate) fn release(&mut self) {
        *self = match *self {
            Self::Declared => Self::Active,
            // What comes to the next episode is not all that runs.
            Self::Retracting => {
                mutant!("let-go-acquires-nothing": Self::Retracting, else Self::LetGo)
            }
            other @ (Self::Active | Self::FoundActive | Self::LetGo) => other,
        };
    }

    /// The manager has taken it back, or had decided before; false if it was not asked.
    pub(crate) fn retracted(&mut self) -> bool {
        let asked = matches!(self, Self::Retracting | Self::LetGo);
        if asked {
            *self = Self::Active;
        }
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads of the node that come to the next episode before the answer wait there, and others run: it acquires. (It did not, and
    /// who got a lock in that time read what the last holder had overwritten.)
    #[test]
    fn a_node_that_is_let_go_while_it_retracts_has_declared_nothing_any_more() {
        let mut node = Quiescence::default();
        assert!(node.declare(true, 2, 2));
        assert!(node.begin() && node.is_declared());
        node.release();
        assert!(!node.is_declared());
        assert!(!node.declare(true, 1, 3) && !node.is_declared());
        assert!(!node.begin(), "threads begin at once");
        assert!(node.retracted() && !node.is_declared());
        assert!(!node.retracted(), "one answer");
    }
}
