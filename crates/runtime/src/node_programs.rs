//! Which program each node runs: most jobs have one, `multigrain run -n 2 ./a : -n 1 ./b` has two.
//!
//! Programs have neighbouring ranks. Nodes of one program have the same code in the same place; what
//! is true of functions is true among them alone.

use multigrain_types::NodeId;

/// The programs of a job, in the order of their ranks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Programs {
    /// The rank behind the last of each; none of a job of one program.
    ends: Vec<u16>,
}

impl Programs {
    /// Of so many nodes each; none if one has no nodes, or there are too many.
    #[must_use]
    pub fn of_counts(counts: &[u16]) -> Option<Self> {
        let mut ends = Vec::new();
        let mut end = 0_u16;
        for &count in counts.iter().filter(|_| counts.len() > 1) {
            end = end.checked_add(count).filter(|_| count > 0)?;
            ends.push(end);
        }
        Some(Self { ends })
    }

    /// Whether there is more than one.
    #[must_use]
    pub fn are_several(&self) -> bool {
        !self.ends.is_empty()
    }

    /// The place of a node's program among them.
    fn place(&self, node: NodeId) -> usize {
        self.ends.partition_point(|&end| end <= node.0)
    }

    /// The ranks that run the program of a node, of a job of so many.
    pub(crate) fn ranks(&self, node: NodeId, nodes: u16) -> core::ops::Range<u16> {
        let place = self.place(node);
        let start = place.checked_sub(1).and_then(|before| self.ends.get(before));
        start.copied().unwrap_or(0)..self.ends.get(place).copied().unwrap_or(nodes)
    }

    /// Whether two nodes run the same.
    pub(crate) fn are_alike(&self, one: NodeId, other: NodeId) -> bool {
        self.place(one) == self.place(other)
    }

    /// Nodes of the job, where there are several.
    pub(crate) fn nodes(&self) -> Option<u16> {
        self.ends.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_neighbouring_ranks() {
        let programs = Programs::of_counts(&[2, 1, 3]).unwrap();
        let ranks = [0, 1, 2, 3, 5].map(|rank| programs.ranks(NodeId(rank), 6));
        assert_eq!(ranks, [0..2, 0..2, 2..3, 3..6, 3..6]);
        assert!(
            programs.are_alike(NodeId(3), NodeId(5)) && !programs.are_alike(NodeId(1), NodeId(2))
        );
        assert_eq!((programs.are_several(), programs.nodes()), (true, Some(6)));
    }

    #[test]
    fn one_program_is_that_of_all_nodes() {
        let one = Programs::of_counts(&[4]).unwrap();
        assert_eq!(one, Programs::default());
        assert_eq!((one.are_several(), one.ranks(NodeId(3), 4)), (false, 0..4));
        assert!(one.are_alike(NodeId(0), NodeId(3)));
        assert!(
            Programs::of_counts(&[1, 0]).is_none() && Programs::of_counts(&[u16::MAX, 1]).is_none()
        );
    }
}
