//! Which node manages a minipage.

use crate::tree::SMALL_JOB;
use crate::{MinipageId, NodeId};

/// Who keeps the directory entry of a minipage (MIRAGE+: the library site).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Placement {
    /// Node 0 manages every minipage (Millipage 3.3).
    First,
    /// Minipages are dealt over the nodes in turn: a cyclic distribution.
    Spread,
    /// Each node manages as many neighbouring minipages of an area, the owner the first: a block distribution.
    Block,
    /// The node that allocated the minipage manages it.
    #[default]
    Allocator,
}

/// An area as far as its managers depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Managed {
    /// The node that allocated it.
    pub owner: NodeId,
    /// How many minipages it has.
    pub minipages: u32,
}

impl Placement {
    /// That of allocations in a job of so many nodes where nobody says anything else: who allocates serves no more
    /// than its share of a large job (ADR 62).
    #[must_use]
    pub const fn for_nodes(nodes: u16) -> Self {
        if nodes > SMALL_JOB { Self::Block } else { Self::Allocator }
    }

    /// Who manages a minipage of such an area, in a job of so many nodes (at least one).
    #[must_use]
    pub fn manager(self, minipage: MinipageId, area: Managed, nodes: u16) -> NodeId {
        match self {
            Self::Allocator => area.owner,
            Self::First => NodeId(0),
            Self::Block if area.minipages >= u32::from(nodes) => {
                // The first is the owner's: what it allocates for itself is often the beginning of a large area.
                let (index, minipages) = (u64::from(minipage.index()), u64::from(area.minipages));
                let block = u64::from(nodes) * index / minipages;
                let node = (u64::from(area.owner.0) + block) % u64::from(nodes);
                NodeId(u16::try_from(node).unwrap_or(0))
            }
            // Small areas are many: their first minipages are not all the first node's.
            Self::Spread | Self::Block => {
                let turn = minipage.area().0.wrapping_add(minipage.index()) % u32::from(nodes);
                NodeId(u16::try_from(turn).unwrap_or(0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AreaId;

    fn managers(placement: Placement, minipages: u32, nodes: u16) -> Vec<u16> {
        let area = Managed { owner: NodeId(1), minipages };
        let of = |index| placement.manager(MinipageId::new(AreaId(5), index), area, nodes).0;
        (0..minipages).map(of).collect()
    }

    #[test]
    fn neighbours_have_one_manager_and_each_node_its_share() {
        assert_eq!(managers(Placement::Block, 8, 4), [1, 1, 2, 2, 3, 3, 0, 0]);
        assert_eq!(managers(Placement::Block, 7, 3), [1, 1, 1, 2, 2, 0, 0]);
        for nodes in [1, 3, 64] {
            let all = managers(Placement::Block, 1_000, nodes);
            let largest = usize::from(u16::try_from(1_000_u32.div_ceil(nodes.into())).unwrap());
            assert!(all.iter().all(|&node| node < nodes));
            let shares: Vec<usize> =
                all.chunk_by(|one, next| one == next).map(<[u16]>::len).collect();
            assert_eq!(shares.len(), usize::from(nodes));
            assert!(shares.iter().all(|share| (largest - 1..=largest).contains(share)), "{nodes}");
        }
    }

    #[test]
    fn the_minipages_of_small_areas_are_dealt_out() {
        assert_eq!(managers(Placement::Block, 3, 4), [1, 2, 3]);
        assert_eq!(managers(Placement::Spread, 5, 4), [1, 2, 3, 0, 1]);
    }

    #[test]
    fn only_large_jobs_have_their_managers_spread() {
        let chosen = |nodes| managers(Placement::for_nodes(nodes), 18, nodes);
        assert_eq!(chosen(SMALL_JOB), [1; 18]);
        assert_eq!(chosen(SMALL_JOB + 1), managers(Placement::Block, 18, SMALL_JOB + 1));
        assert_eq!(managers(Placement::First, 18, SMALL_JOB + 1), [0; 18]);
    }
}
