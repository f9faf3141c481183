//! The cases: kinds of synchronization, managers, the early and the late writer.

use core::fmt;

/// A kind of synchronization, and how a program can miss it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The late writer writes before it comes to the barrier at which the early one waits already.
    Barrier,
    /// Both write after the barrier.
    AfterBarrier,
    /// The early writer writes after it gave the lock up, which the late one then takes.
    Lock,
    /// The late writer does not wait for the unit that the early one has posted.
    Semaphore,
    /// The early writer signals without the lock that the late one waits under.
    Condition,
    /// The thread that starts another writes after the start.
    Start,
    /// The thread that joins another writes before the join.
    Join,
    /// The thread that publishes writes after that.
    Name,
    /// The late writer does not look the name up.
    UnreadName,
    /// The late writer does not use the freed memory again.
    Free,
}

/// One case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) kind: Kind,
    /// The node that manages what synchronizes, if any could.
    pub(super) manager: Option<u16>,
    pub(super) early: u16,
    pub(super) late: u16,
}

/// What is done with a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    Race,
    /// With the synchronization that the race lacks.
    Twin,
}

impl Variant {
    pub(super) const ALL: [Self; 2] = [Self::Race, Self::Twin];
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Barrier,
        Self::AfterBarrier,
        Self::Lock,
        Self::Semaphore,
        Self::Condition,
        Self::Start,
        Self::Join,
        Self::Name,
        Self::UnreadName,
        Self::Free,
    ];

    /// Whether the node that manages it can be chosen.
    fn is_managed(self) -> bool {
        match self {
            Self::Barrier | Self::AfterBarrier | Self::Lock | Self::Semaphore | Self::Condition => {
                true
            }
            Self::Start | Self::Join | Self::Name | Self::UnreadName | Self::Free => false,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, early, late, .. } = self;
        write!(out, "{kind:?}, early node {early}, late node {late}")?;
        self.manager.map_or(Ok(()), |manager| write!(out, ", managed by node {manager}"))
    }
}

/// All cases of a job.
pub(super) fn cases(nodes: u16) -> Vec<Case> {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let managers: Vec<Option<u16>> =
            if kind.is_managed() { (0..nodes).map(Some).collect() } else { vec![None] };
        for manager in managers {
            for early in 0..nodes {
                let others = (0..nodes).filter(|late| *late != early);
                all.extend(others.map(|late| Case { kind, manager, early, late }));
            }
        }
    }
    all
}

/// Bytes from one case's words to the next one's at the same node; its twin's is half way.
const STRIDE: usize = 128;

/// The word of a case: the node that allocates it, and where it lies in that node's block.
pub(super) fn place(case: usize, variant: Variant, nodes: u16) -> (usize, usize) {
    let nodes = usize::from(nodes);
    let twin = match variant {
        Variant::Race => 0,
        Variant::Twin => STRIDE / 2,
    };
    (case % nodes, case / nodes * STRIDE + twin)
}

/// The case whose word that is.
pub(super) fn case_at(node: usize, byte: usize, nodes: u16) -> (usize, Variant) {
    let variant = if byte % STRIDE < STRIDE / 2 { Variant::Race } else { Variant::Twin };
    (byte / STRIDE * usize::from(nodes) + node, variant)
}

/// Bytes of a node's block.
pub(super) fn block_bytes(nodes: u16) -> usize {
    cases(nodes).len().div_ceil(usize::from(nodes)) * STRIDE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_of_one_case_and_lies_in_its_block() {
        for nodes in [2, 3] {
            for case in 0..cases(nodes).len() {
                for variant in Variant::ALL {
                    let (node, byte) = place(case, variant, nodes);
                    assert_eq!(case_at(node, byte, nodes), (case, variant));
                    assert!(byte + 8 <= block_bytes(nodes));
                }
            }
        }
    }

    #[test]
    fn every_node_manages_and_is_early_and_late_with_every_other() {
        let all = cases(3);
        assert_eq!(all.len(), 5 * 3 * 6 + 5 * 6);
        assert!(all.contains(&Case { kind: Kind::Barrier, manager: Some(2), early: 0, late: 2 }));
    }
}
