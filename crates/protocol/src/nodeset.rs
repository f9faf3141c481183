//! A set of nodes, such as the copyset of a minipage (Millipage 3.3).

use core::fmt;

use multigrain_types::NodeId;

/// A set of nodes as a bitmap, 16 bytes; without allocation while all its nodes are below 64.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeSet {
    low: u64,
    /// Nodes from 64 on. Absent if there are none, so that equal sets are equal values.
    high: Option<Box<High>>,
}

/// Further words of the bitmap; the last is not zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct High(Vec<u64>);

impl NodeSet {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of nodes 0 to `count` - 1.
    #[must_use]
    pub fn all(count: u16) -> Self {
        (0..count).map(NodeId).collect()
    }

    /// Adds a node; true if it was not there.
    pub fn insert(&mut self, node: NodeId) -> bool {
        let (word, bit) = place(node);
        let slot = match word {
            0 => &mut self.low,
            above => {
                let words = &mut self.high.get_or_insert_default().0;
                if words.len() < above {
                    words.resize(above, 0);
                }
                &mut words[above - 1]
            }
        };
        let fresh = *slot & bit == 0;
        *slot |= bit;
        fresh
    }

    /// Removes a node; true if it was there.
    pub fn remove(&mut self, node: NodeId) -> bool {
        if !self.contains(node) {
            return false;
        }
        let (word, bit) = place(node);
        match (word, self.high.as_deref_mut()) {
            (above @ 1.., Some(High(words))) => {
                words[above - 1] &= !bit;
                let used = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
                words.truncate(used);
                if used == 0 {
                    self.high = None;
                }
            }
            (_, _) => self.low &= !bit,
        }
        true
    }

    /// Whether the node is in the set.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        let (word, bit) = place(node);
        let slot = match (word, self.high.as_deref()) {
            (0, _) => Some(&self.low),
            (above, Some(High(words))) => words.get(above - 1),
            (_, None) => None,
        };
        slot.is_some_and(|slot| slot & bit != 0)
    }

    /// Whether no node is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.low == 0 && self.high.is_none()
    }

    /// Nodes in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words().map(|word| word.count_ones() as usize).sum()
    }

    /// The lowest rank in the set.
    #[must_use]
    pub fn first(&self) -> Option<NodeId> {
        self.iter().next()
    }

    /// The nodes in order of rank.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0u16..).step_by(64).zip(self.words()).flat_map(|(base, word)| {
            let mut rest = word;
            core::iter::from_fn(move || {
                let lowest = u16::try_from(rest.trailing_zeros()).ok().filter(|&bit| bit < 64)?;
                rest &= rest - 1;
                Some(NodeId(base + lowest))
            })
        })
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let high = self.high.iter().flat_map(|high| high.0.iter().copied());
        core::iter::once(self.low).chain(high)
    }
}

fn place(node: NodeId) -> (usize, u64) {
    (node.index() / 64, 1 << (node.index() % 64))
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Self::new();
        for node in nodes {
            set.insert(node);
        }
        set
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.iter().map(|node| node.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_lost_its_high_nodes_equals_one_that_never_had_them() {
        let mut set: NodeSet = [NodeId(1), NodeId(700)].into_iter().collect();
        assert!(set.contains(NodeId(700)) && !set.contains(NodeId(65)));
        assert!(set.remove(NodeId(700)) && !set.remove(NodeId(700)));
        assert_eq!(set, [NodeId(1)].into_iter().collect());
        assert_eq!((set.len(), set.first()), (1, Some(NodeId(1))));
    }

    #[test]
    fn a_set_costs_16_bytes() {
        assert_eq!(size_of::<NodeSet>(), 16);
    }

    #[test]
    fn all_nodes_come_out_in_order_of_rank() {
        let ranks: Vec<u16> = NodeSet::all(130).iter().map(|node| node.0).collect();
        assert_eq!(ranks, (0..130).collect::<Vec<u16>>());
    }
}
