//! LU (apps/lu): blocked factorization. A block is a minipage; the nodes form a grid, and block
//! (i, j) belongs to node (i mod height, j mod width), which alone writes it.

use crate::scale::step::{Pattern, Place, Program, Step};

/// The matrix.
#[derive(Clone, Copy, Debug)]
pub struct Lu {
    /// Rows and columns; 4 bytes each element.
    pub size: u32,
    /// Rows and columns of a block.
    pub block: u32,
}

/// A node's place in the grid of nodes, which is as square as their number allows.
#[derive(Clone, Copy, Debug)]
struct Node {
    row: u32,
    column: u32,
    height: u32,
    width: u32,
    /// Blocks a side.
    blocks: u32,
    /// Elements that an update of a block touches: block^3.
    cube: u64,
}

impl Pattern for Lu {
    fn name(&self) -> &'static str {
        "lu"
    }

    fn flags(&self) -> String {
        format!("--size {} --block {}", self.size, self.block)
    }

    fn most_nodes(&self) -> u16 {
        u16::MAX
    }

    fn rounds(&self) -> u32 {
        1
    }

    fn places(&self, nodes: u16) -> Vec<Place> {
        let blocks = self.size / self.block;
        let node = self.node(0, nodes);
        let bytes = u64::from(self.block * self.block) * 4;
        let owner = |i: u32, j: u32| j % node.width * node.height + i % node.height;
        (0..blocks * blocks)
            .map(|block| owner(block / blocks, block % blocks))
            .map(|owner| Place { owner: u16::try_from(owner).expect("a node"), bytes })
            .collect()
    }

    fn locks(&self) -> u32 {
        0
    }

    fn programs(&self, nodes: u16, _: u32) -> Vec<Program> {
        let program = |node| -> Program {
            let node = self.node(node, nodes);
            Box::new((0..node.blocks).flat_map(move |k| node.step(k)).chain([Step::Barrier]))
        };
        (0..nodes).map(program).collect()
    }
}

impl Lu {
    fn node(&self, node: u16, nodes: u16) -> Node {
        let (node, nodes) = (u32::from(node), u32::from(nodes));
        let divides = |height: &u32| nodes.is_multiple_of(*height);
        let height = (1..=nodes.isqrt()).rev().find(divides).unwrap_or(1);
        Node {
            row: node % height,
            column: node / height,
            height,
            width: nodes / height,
            blocks: self.size / self.block,
            cube: u64::from(self.block).pow(3),
        }
    }
}

impl Node {
    /// Step k of the factorization.
    fn step(self, k: u32) -> impl Iterator<Item = Step> {
        let diagonal = self.block(k, k);
        let factor = [Step::Write(diagonal), Step::Compute(self.cube / 3)];
        let divide =
            move |block| [Step::Read(diagonal), Step::Write(block), Step::Compute(self.cube / 2)];
        let update = move |(i, j)| {
            let read = [Step::Read(self.block(i, k)), Step::Read(self.block(k, j))];
            read.into_iter().chain([Step::Write(self.block(i, j)), Step::Compute(self.cube)])
        };
        let interior = move |i| self.columns(k + 1).map(move |j| (i, j));
        self.owns(k, k)
            .then_some(factor)
            .into_iter()
            .flatten()
            .chain([Step::Barrier])
            .chain(self.perimeter(k, true).flat_map(divide))
            .chain([Step::Barrier])
            .chain(self.perimeter(k, false).map(Step::Prefetch))
            .chain(self.rows(k + 1).flat_map(interior).flat_map(update))
    }

    /// Blocks of column k and row k that this node owns, or that it needs and another owns.
    fn perimeter(self, k: u32, own: bool) -> impl Iterator<Item = u32> {
        (k + 1..self.blocks).flat_map(move |i| {
            let in_column = i % self.height == self.row && own == self.owns(i, k);
            let in_row = i % self.width == self.column && own == self.owns(k, i);
            let column = in_column.then(|| self.block(i, k));
            column.into_iter().chain(in_row.then(|| self.block(k, i)))
        })
    }

    fn owns(self, i: u32, j: u32) -> bool {
        i % self.height == self.row && j % self.width == self.column
    }

    /// The node's rows of blocks, from one on.
    fn rows(self, from: u32) -> impl Iterator<Item = u32> {
        (from..self.blocks).filter(move |i| i % self.height == self.row)
    }

    fn columns(self, from: u32) -> impl Iterator<Item = u32> {
        (from..self.blocks).filter(move |j| j % self.width == self.column)
    }

    fn block(self, i: u32, j: u32) -> u32 {
        i * self.blocks + j
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nodes_together_do_the_work_of_one_and_write_what_they_own() {
        let lu = Lu { size: 96, block: 8 };
        let alone: u64 = work_of(lu.programs(1, 1));
        for nodes in [2, 6, 7, 16] {
            let places = lu.places(nodes);
            assert_eq!(work_of(lu.programs(nodes, 1)), alone, "{nodes}");
            for (node, program) in (0..nodes).zip(lu.programs(nodes, 1)) {
                for step in program {
                    if let Step::Write(block) = step {
                        assert_eq!(places[block as usize].owner, node);
                    }
                }
            }
        }
    }

    fn work_of(programs: Vec<Program>) -> u64 {
        let elements = |step| if let Step::Compute(elements) = step { elements } else { 0 };
        programs.into_iter().flatten().map(elements).sum()
    }
}
