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

    /// All pairs whose first molecule is an own one; a pair is an element. By the second one: nothing of this phase is
    /// written, so that a molecule is fetched once, and a million of them need not be walked through once for each own one.
    fn all_pairs(self: Rc<Self>) -> impl Iterator<Item = Step> {
        let (own, molecules) = (self.own.clone(), self.molecules);
        let seconds = own.start + 1..own.end + molecules / 2;
        let pairs = seconds.flat_map(move |second| {
            let elements = pairs_with(molecules, &own, second).into();
            [Step::Read(second % molecules), Step::Compute(elements)]
        });
        self.own.clone().map(Step::Read).chain(pairs)
    }
}

/// Of how many pairs with an own molecule, counted as its own, a molecule is the second; `second`: not wrapped around.
fn pairs_with(molecules: u32, own: &Range<u32>, second: u32) -> u32 {
    let half = molecules / 2;
    let farthest = second.checked_sub(half);
    let nearer = own.end.min(second).saturating_sub(farthest.map_or(0, |i| i + 1).max(own.start));
    let opposite = farthest.is_some_and(|i| own.contains(&i) && last_partner(molecules, i) == half);
    nearer + u32::from(opposite)
}

/// With whom a molecule forms the pairs that are counted as its own.
fn partners(molecules: u32, i: u32) -> impl Iterator<Item = u32> {
    (1..=last_partner(molecules, i)).map(move |k| (i + k) % molecules)
}

/// How far the last of them is.
fn last_partner(molecules: u32, i: u32) -> u32 {
    let half = molecules / 2;
    // With an even number, the pair of opposites is counted from its lower half only.
    if molecules.is_multiple_of(2) && i >= half { half - 1 } else { half }
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
    fn all_pairs_are_those_of_each_molecule_with_its_partners() {
        for (molecules, nodes) in [(7, 1), (8, 1), (9, 2), (16, 3), (64, 8), (65, 16)] {
            for node in 0..nodes {
                let own = span(molecules, node, nodes);
                let mut pairs = vec![0; molecules as usize];
                for second in own.clone().flat_map(|i| partners(molecules, i)) {
                    pairs[second as usize] += 1;
                }
                let worker = Rc::new(Worker::new(molecules, own));
                let mut stepped = vec![0; molecules as usize];
                let mut read = None;
                for step in worker.all_pairs() {
                    if let Step::Read(molecule) = step {
                        read = Some(molecule);
                    }
                    if let Step::Compute(count) = step {
                        stepped[read.unwrap() as usize] += count;
                    }
                }
                assert_eq!(stepped, pairs, "{molecules} molecules, node {node} of {nodes}");
            }
        }
    }

    #[test]
    fn locks_are_as_many_as_the_application_takes() {
        // As `multigrain run -n N water-mg` reports them.
        assert_eq!([1, 2, 4].map(locks), [1545, 2706, 3876]);
    }
}
