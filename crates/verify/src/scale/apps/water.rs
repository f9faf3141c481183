//! WATER (apps/water): molecular dynamics, n-squared. A molecule is a minipage; a node owns a block
//! of them, reads all those it has pairs with, and adds to those within the cutoff under their locks.

use core::ops::Range;
use std::rc::Rc;

use crate::scale::step::{Pattern, Place, Program, Step, repeated, span};

const ENERGY_LOCK: u32 = 0;
const FIRST_MOLECULE_LOCK: u32 = 1;
const MOLECULE_BYTES: u64 = 672;
const ENERGY_BYTES: u64 = 8192;
/// Of the edge of the box.
const CUTOFF: f64 = 0.45;

/// The molecules.
#[derive(Clone, Copy, Debug)]
pub struct Water {
    /// How many.
    pub molecules: u32,
    /// Time steps.
    pub steps: u32,
}

impl Pattern for Water {
    fn name(&self) -> &'static str {
        "water"
    }

    fn flags(&self) -> String {
        format!("--molecules {} --steps {}", self.molecules, self.steps)
    }

    fn most_nodes(&self) -> u16 {
        u16::MAX
    }

    fn rounds(&self) -> u32 {
        self.steps
    }

    /// The molecules, then the page of energies.
    fn places(&self, nodes: u16) -> Vec<Place> {
        let of_node = |owner| {
            let place = Place { owner, bytes: MOLECULE_BYTES };
            span(self.molecules, owner, nodes).map(move |_| place)
        };
        let energy = Place { owner: 0, bytes: ENERGY_BYTES };
        (0..nodes).flat_map(of_node).chain([energy]).collect()
    }

    fn locks(&self) -> u32 {
        FIRST_MOLECULE_LOCK + self.molecules
    }

    fn programs(&self, nodes: u16, rounds: u32) -> Vec<Program> {
        let program = |node| {
            let own = span(self.molecules, node, nodes);
            let worker = Rc::new(Worker::new(self.molecules, own));
            repeated(rounds, move |_| worker.clone().step())
        };
        (0..nodes).map(program).collect()
    }
}

#[derive(Debug)]
struct Worker {
    molecules: u32,
    own: Range<u32>,
    /// Molecules that own ones exert a force on, beginning with the first own one.
    touched: Vec<u32>,
}

impl Worker {
    fn new(molecules: u32, own: Range<u32>) -> Self {
        let mut near = vec![false; molecules as usize];
        for i in own.clone() {
            for j in partners(molecules, i).filter(|&j| within_cutoff(molecules, i, j)) {
                near[i as usize] = true;
                near[j as usize] = true;
            }
        }
        let in_turn = (0..molecules).map(|k| (own.start + k) % molecules);
        let touched = in_turn.filter(|&j| near[j as usize]).collect();
        Self { molecules, own, touched }
    }

    /// A time step: nine phases.
    fn step(self: Rc<Self>) -> impl Iterator<Item = Step> {
        let own = self.own.clone();
        let change = |i| [Step::Read(i), Step::Write(i)];
        let add_force = |j| {
            let lock = FIRST_MOLECULE_LOCK + j;
            [Step::Lock(lock), Step::Read(j), Step::Write(j), Step::Unlock(lock)]
        };
        let page = self.molecules;
        let add_energy = [
            Step::Lock(ENERGY_LOCK),
            Step::Read(page),
            Step::Write(page),
            Step::Unlock(ENERGY_LOCK),
            Step::Barrier,
        ];
        let predict = own.clone().flat_map(change).chain([Step::Barrier]);
        let springs = own.clone().map(Step::Write).chain([Step::Barrier]);
        let pairs = self.clone().all_pairs().chain([Step::Barrier]);
        let touched = self.clone();
        let add_forces = (0..touched.touched.len())
            .flat_map(move |index| add_force(touched.touched[index]))
            .chain([Step::Barrier]);
        let correct = own.clone().flat_map(change).chain([Step::Barrier]);
        let wrap = own.clone().map(Step::Read).chain([Step::Barrier]);
        let kinetic = own.map(Step::Read).chain(add_energy);
        let potential = self.all_pairs().chain(add_energy);
        predict
            .chain(springs)
            .chain(pairs)
            .chain(add_forces)
            .chain(correct)
            .chain(wrap)
            .chain(kinetic)
            .chain(potential)
            .chain(add_energy)
    }

    /// All pairs whose first molecule is an own one; a pair is an element.
    fn all_pairs(self: Rc<Self>) -> impl Iterator<Item = Step> {
        let molecules = self.molecules;
        self.own.clone().flat_map(move |i| {
            let pair = |j| [Step::Read(j), Step::Compute(1)];
            [Step::Read(i)].into_iter().chain(partners(molecules, i).flat_map(pair))
        })
    }
}

/// With whom a molecule forms the pairs that are counted as its own.
fn partners(molecules: u32, i: u32) -> impl Iterator<Item = u32> {
    let half = molecules / 2;
    // With an even number, the pair of opposites is counted from its lower half only.
    let last = if molecules.is_multiple_of(2) && i >= half { half - 1 } else { half };
    (1..=last).map(move |k| (i + k) % molecules)
}

/// Molecules begin on a cubic lattice in a periodic box, and hardly leave their places in a few
/// steps of 0.2 fs.
fn within_cutoff(molecules: u32, i: u32, j: u32) -> bool {
    let side = (f64::from(molecules).cbrt() - 1e-9).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small whole number"
    )]
    let cells = side as u32;
    let square: u32 = [1, cells, cells * cells]
        .iter()
        .map(|stride| {
            let apart = (i / stride % cells).abs_diff(j / stride % cells);
            apart.min(cells - apart).pow(2)
        })
        .sum();
    f64::from(square) <= (CUTOFF * side).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(nodes: u16) -> usize {
        let water = Water { molecules: 512, steps: 3 };
        let lock = |step: &Step| matches!(step, Step::Lock(_));
        water.programs(nodes, 3).into_iter().flatten().filter(lock).count()
    }

    #[test]
    fn locks_are_as_many_as_the_application_takes() {
        // As `multigrain run -n N water-mg` reports them.
        assert_eq!([1, 2, 4].map(locks), [1545, 2706, 3876]);
    }
}
