//! SOR and Jacobi (apps/sor, apps/jacobi.c): matrices whose rows are minipages, a block of rows a
//! node. Only the rows at the edges of the blocks are shared: two neighbours read them.

use core::ops::Range;

use crate::scale::step::{Pattern, Place, Program, Step, repeated, span};

/// Red-black over-relaxation: one matrix, a sweep and a barrier for each colour.
#[derive(Clone, Copy, Debug)]
pub struct Sor {
    /// Rows of the matrix.
    pub rows: u32,
    /// Columns; 4 bytes each.
    pub columns: u32,
    /// Red and black, so often.
    pub iterations: u32,
}

/// Jacobi iteration on doubles, of which a row fills a minipage: a matrix is written from the other, and they change
/// places.
#[derive(Clone, Copy, Debug)]
pub struct Jacobi {
    /// Rows and columns of the matrices.
    pub size: u32,
    /// Sweeps.
    pub iterations: u32,
}

/// A row is worked on in so many pieces (8 of 4 floats in half a row of SOR). It may come and go
/// between them, when a neighbour works on its own edge at the same time.
const PIECES: u64 = 8;

impl Pattern for Sor {
    fn name(&self) -> &'static str {
        "sor"
    }

    fn flags(&self) -> String {
        let Self { rows, columns, iterations } = self;
        format!("--rows {rows} --cols {columns} --iterations {iterations}")
    }

    fn most_nodes(&self) -> u16 {
        u16::try_from(self.rows).unwrap_or(u16::MAX)
    }

    fn rounds(&self) -> u32 {
        self.iterations
    }

    fn places(&self, nodes: u16) -> Vec<Place> {
        edges(nodes, 1, u64::from(self.columns) * 4)
    }

    fn locks(&self) -> u32 {
        0
    }

    fn programs(&self, nodes: u16, rounds: u32) -> Vec<Program> {
        let program = |node| {
            let block = Block::of(self.rows, node, nodes);
            // Each sweep updates half of a row's elements.
            let half = u64::from(self.columns / 2);
            repeated(rounds, move |_| {
                let sweep = || block.sweep(0, 0, half).chain([Step::Barrier]);
                sweep().chain(sweep())
            })
        };
        (0..nodes).map(program).collect()
    }
}

impl Pattern for Jacobi {
    fn name(&self) -> &'static str {
        "jacobi"
    }

    fn flags(&self) -> String {
        let Self { size, iterations } = self;
        format!("--size {size} --iterations {iterations}")
    }

    fn most_nodes(&self) -> u16 {
        u16::try_from(self.size).unwrap_or(u16::MAX)
    }

    fn rounds(&self) -> u32 {
        self.iterations
    }

    fn places(&self, nodes: u16) -> Vec<Place> {
        edges(nodes, 2, u64::from(self.size) * 8)
    }

    fn locks(&self) -> u32 {
        0
    }

    fn programs(&self, nodes: u16, rounds: u32) -> Vec<Program> {
        let program = |node| {
            let (block, columns) = (Block::of(self.size, node, nodes), self.size.into());
            repeated(rounds, move |round| {
                let [from, to] = [round % 2, (round + 1) % 2];
                let matrix = |number: u32| number * 2 * u32::from(nodes);
                block.sweep(matrix(from), matrix(to), columns).chain([Step::Barrier])
            })
        };
        (0..nodes).map(program).collect()
    }
}

/// The first and the last row of every node's block, in each of so many matrices.
fn edges(nodes: u16, matrices: u32, bytes: u64) -> Vec<Place> {
    let of_node = |owner| [Place { owner, bytes }; 2];
    (0..matrices).flat_map(|_| (0..nodes).flat_map(of_node)).collect()
}

/// A node's block of rows, and the minipages at its edges.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Rows that it updates: the matrix's own edges stay.
    rows: u32,
    above: Option<u32>,
    first: u32,
    last: u32,
    below: Option<u32>,
}

impl Block {
    fn of(rows: u32, node: u16, nodes: u16) -> Self {
        let own: Range<u32> = span(rows, node, nodes);
        let first = |node: u16| 2 * u32::from(node);
        // A block of one row has it as its first and its last.
        let last = |node: u16| first(node) + u32::from(span(rows, node, nodes).len() > 1);
        Self {
            rows: own.end.min(rows - 1).saturating_sub(own.start.max(1)),
            above: node.checked_sub(1).map(last),
            first: first(node),
            last: last(node),
            below: (node + 1 < nodes).then(|| first(node + 1)),
        }
    }

    /// Updates all rows of the matrix whose minipages begin at `to` from those at `from`, in order.
    fn sweep(self, from: u32, to: u32, columns: u64) -> impl Iterator<Item = Step> {
        let row = move |needs: [Option<u32>; 2], own: [Option<u32>; 2]| {
            let reads = needs.into_iter().flatten().map(move |row| Step::Read(from + row));
            let writes = own.into_iter().flatten().map(move |row| Step::Write(to + row));
            let piece = reads.chain(writes).chain([Step::Compute(columns / PIECES)]);
            (0..PIECES).flat_map(move |_| piece.clone())
        };
        let (first, last) = (Some(self.first), Some(self.last));
        let inside = u64::from(self.rows.saturating_sub(2)) * columns;
        let top = row([self.above, None], [first, None]);
        let middle = [Step::Compute(inside)];
        let bottom = row([self.below, None], [last, None]);
        let many = (self.rows > 1).then(|| top.chain(middle).chain(bottom));
        let only = (self.rows == 1).then(|| row([self.above, self.below], [first, last]));
        many.into_iter().flatten().chain(only.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_reads_the_rows_beside_it_and_writes_its_own_edges() {
        let steps: Vec<Step> = Block::of(30, 1, 3).sweep(0, 0, 16).collect();
        let top = [Step::Read(1), Step::Write(2), Step::Compute(2)].repeat(8);
        let bottom = [Step::Read(4), Step::Write(3), Step::Compute(2)].repeat(8);
        assert_eq!(steps, [top, vec![Step::Compute(8 * 16)], bottom].concat());
    }

    #[test]
    fn a_block_of_one_row_needs_both_neighbours() {
        let steps: Vec<Step> = Block::of(4, 1, 4).sweep(0, 0, 16).collect();
        let write = Step::Write(2);
        let piece = [Step::Read(0), Step::Read(4), write, write, Step::Compute(2)];
        assert_eq!(steps, piece.repeat(8));
        // The matrix's own edges stay.
        assert_eq!(Block::of(4, 0, 4).sweep(0, 0, 7).count(), 0);
    }
}
