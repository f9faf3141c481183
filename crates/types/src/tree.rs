//! The tree over the nodes of a large job, node 0 at its root: who begins with a link to whom, and by which way barriers
//! of the whole job go.
//!
//! Nodes lie in it by rank, as in a heap: the children of node r are r times the fan plus 1, and so on.

use crate::NodeId;

/// The most nodes of a small job: all have links to each other from the start (ADR 48), barriers and invalidations go by no
/// tree (ADR 49, 57), and who allocates manages (ADR 62).
pub const SMALL_JOB: u16 = 8;

/// How many children a node has, and up to how many nodes a job needs no tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fan(pub u16);

impl Default for Fan {
    /// Few enough that a node has soon served its children, and so many that 4 levels below node 0 are enough for a thousand nodes.
    fn default() -> Self {
        Self(SMALL_JOB)
    }
}

/// The tree over so many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    nodes: u16,
    fan: u16,
}

impl Tree {
    /// Of a job of so many nodes.
    ///
    /// # Panics
    /// For a fan of none.
    #[must_use]
    pub fn new(nodes: u16, Fan(fan): Fan) -> Self {
        assert!(fan > 0, "a tree whose nodes have no children");
        Self { nodes, fan }
    }

    /// Whether the job is so small that all its nodes are neighbours.
    #[must_use]
    pub fn is_flat(self) -> bool {
        self.nodes <= self.fan
    }

    /// The node above; none above node 0.
    #[must_use]
    pub fn parent(self, node: NodeId) -> Option<NodeId> {
        node.0.checked_sub(1).map(|before| NodeId(before / self.fan))
    }

    /// The nodes right below, in ascending order.
    pub fn children(self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let (fan, nodes) = (u32::from(self.fan), u32::from(self.nodes));
        let first = u32::from(node.0) * fan + 1;
        (first..(first + fan).min(nodes)).filter_map(|child| u16::try_from(child).ok()).map(NodeId)
    }

    /// How many nodes there are below this one, and it.
    #[must_use]
    pub fn size(self, node: NodeId) -> u16 {
        let (fan, nodes) = (u64::from(self.fan), u64::from(self.nodes));
        let (mut first, mut last) = (u64::from(node.0), u64::from(node.0));
        let mut size = 0;
        while first < nodes {
            size += last.min(nodes - 1) - first + 1;
            (first, last) = (first * fan + 1, (last + 1) * fan);
        }
        u16::try_from(size).unwrap_or(self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_but_the_root_is_one_child_and_sizes_add_up() {
        for (nodes, fan) in
            [(1, 8), (8, 8), (9, 8), (10, 8), (73, 8), (74, 8), (1024, 8), (5, 1), (7, 2)]
        {
            let tree = Tree::new(nodes, Fan(fan));
            let all = || (0..nodes).map(NodeId);
            let children: Vec<_> = all().flat_map(|node| tree.children(node)).collect();
            assert!((1..nodes).map(NodeId).eq(children), "{nodes} nodes, fan {fan}");
            for node in all() {
                let below: u16 = tree.children(node).map(|child| tree.size(child)).sum();
                assert_eq!(tree.size(node), below + 1, "{node} of {nodes}, fan {fan}");
                assert!(tree.children(node).all(|child| tree.parent(child) == Some(node)));
            }
            assert_eq!(tree.size(NodeId(0)), nodes);
            assert_eq!(tree.is_flat(), nodes <= fan);
        }
        let mut node = NodeId(1023);
        let tree = Tree::new(1024, Fan::default());
        let levels = core::iter::from_fn(|| {
            node = tree.parent(node)?;
            Some(node)
        });
        assert_eq!(levels.count(), 4);
    }
}
