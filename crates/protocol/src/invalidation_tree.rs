//! Invalidations by a tree: who passes one on to whom.
//!
//! The manager of a minipage with many copies ([`TreeShape`]) sends one message to a few of their nodes.
//! Each passes it on to the others of its subtree, and answers when all of these have answered. So the manager takes a few
//! answers, and the time grows with the logarithm of the copies.

use core::fmt;

use multigrain_types::NodeId;
use multigrain_types::tree::Fan;
use smallvec::SmallVec;

/// Some nodes whose ranks lie in the same 64, as a message names them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ranks {
    /// Which 64; 0 if there are none.
    word: u16,
    bits: u64,
}

/// Some of the nodes to be invalidated: the first one is told of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subtree {
    /// Who is sent the message.
    pub root: NodeId,
    /// To whom it passes that on.
    pub below: Ranks,
}

/// When invalidations go by a tree, and how wide it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TreeShape {
    /// How many nodes one tells.
    pub fan: Fan,
    /// Up to so many copies the manager tells them all itself: then that is as soon done.
    pub beyond: u16,
}

impl Default for TreeShape {
    fn default() -> Self {
        Self { fan: Fan::default(), beyond: 48 }
    }
}

impl TreeShape {
    /// How many nodes the manager tells, of so many with copies.
    pub(crate) fn of_manager(self, copies: usize) -> Fan {
        if copies > usize::from(self.beyond) { self.fan } else { Fan(u16::MAX) }
    }
}

/// The subtrees of a node's message; a tree's are hardly ever more.
pub(crate) type Subtrees = SmallVec<[Subtree; 8]>;

impl Ranks {
    /// Nobody.
    pub const NONE: Self = Self { word: 0, bits: 0 };

    /// As a message has them: each of 64 bits stands for a rank.
    ///
    /// # Errors
    /// None of nobody in a place, and of ranks beyond all numbers.
    #[must_use]
    pub fn new(word: u16, bits: u64) -> Option<Self> {
        let is_one_spelling = if bits == 0 { word == 0 } else { word <= u16::MAX / 64 };
        is_one_spelling.then_some(Self { word, bits })
    }

    /// Which 64 they are of, and a bit for each.
    #[must_use]
    pub fn words(self) -> (u16, u64) {
        (self.word, self.bits)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        self.bits.count_ones() as usize
    }

    /// Whether a node is one of them.
    #[must_use]
    pub fn contains(self, node: NodeId) -> bool {
        self.word == node.0 / 64 && self.bits & bit(node) != 0
    }

    /// In order of rank.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        let rank = move |place: u16| NodeId(self.word * 64 + place);
        (0..64).map(rank).filter(move |node| self.bits & bit(*node) != 0)
    }

    /// Adds a node; false if its rank lies in another 64.
    fn insert(&mut self, node: NodeId) -> bool {
        let word = node.0 / 64;
        let fits = self.is_empty() || self.word == word;
        if fits {
            *self = Self { word, bits: self.bits | bit(node) };
        }
        fits
    }
}

fn bit(node: NodeId) -> u64 {
    1 << (node.0 % 64)
}

impl Subtree {
    /// All of its nodes.
    pub fn nodes(self) -> impl Iterator<Item = NodeId> {
        core::iter::once(self.root).chain(self.below.iter())
    }
}

/// So many nodes, in order of rank, in as many subtrees as a node has children; in more where they lie far apart.
pub(crate) fn subtrees(
    nodes: impl Iterator<Item = NodeId>,
    count: usize,
    Fan(fan): Fan,
) -> Subtrees {
    let most = count.div_ceil(usize::from(fan));
    let mut subtrees = Subtrees::new();
    for node in nodes {
        let joins = subtrees
            .last_mut()
            .is_some_and(|subtree| subtree.below.len() + 1 < most && subtree.below.insert(node));
        if !joins {
            subtrees.push(Subtree { root: node, below: Ranks::NONE });
        }
    }
    subtrees
}

impl fmt::Debug for Ranks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.iter().map(|node| node.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(ranks: &[u16], fan: u16) -> Vec<Vec<u16>> {
        let nodes = ranks.iter().map(|&rank| NodeId(rank));
        let subtrees = subtrees(nodes, ranks.len(), Fan(fan));
        subtrees.iter().map(|subtree| subtree.nodes().map(|node| node.0).collect()).collect()
    }

    #[test]
    fn few_nodes_are_subtrees_of_their_own() {
        assert_eq!(split(&[3, 700, 1000], 8), [[3], [700], [1000]]);
        assert_eq!(split(&[], 8), Vec::<Vec<u16>>::new());
    }

    #[test]
    fn many_are_dealt_evenly_and_each_once() {
        assert_eq!(split(&[1, 2, 3, 4, 5], 2), [vec![1, 2, 3], vec![4, 5]]);
        assert_eq!(split(&[1, 2, 3], 1), [[1, 2, 3]]);
        for (nodes, most) in [(64, 8), (256, 9), (1024, 17)] {
            let all: Vec<u16> = (1..nodes).collect();
            let split = split(&all, 8);
            assert_eq!(split.concat(), all);
            assert!(split.len() <= most, "{} subtrees of {nodes}", split.len());
        }
    }

    #[test]
    fn ranks_have_one_spelling() {
        assert_eq!(Ranks::new(3, 0), None);
        assert_eq!(Ranks::new(1024, 1), None);
        let last = Ranks::new(1023, 1 << 63).expect("the highest rank");
        assert_eq!(last.iter().collect::<Vec<_>>(), [NodeId(u16::MAX)]);
        assert!(
            last.contains(NodeId(u16::MAX)) && last.len() == 1 && !Ranks::NONE.contains(NodeId(0))
        );
    }
}
