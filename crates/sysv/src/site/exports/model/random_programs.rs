//! Programs by chance, which do nothing that crashes unless another thread of theirs does.

use super::choices::next_random;
use super::processes::Step::{self, Add, Attach, Detach, Fork, Move, Read, Replace, Unmap};

/// Pages of the segments.
pub(super) const PAGES: [usize; 3] = [4, 2, 2];
const SLOTS: usize = 3;
const MOST_FORKS: usize = 3;

/// What a program has mapped: for each slot the segment, and which pages of it are there.
type Slots = [Option<(usize, Vec<usize>)>; SLOTS];

/// Makes programs.
#[derive(Debug)]
pub(super) struct Maker {
    pub(super) random: u64,
    pub(super) programs: Vec<Vec<Step>>,
    forks: usize,
}

impl Maker {
    pub(super) fn new(seed: u64) -> Self {
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { random, programs: Vec::new(), forks: 0 }
    }

    fn below(&mut self, most: usize) -> usize {
        next_random(&mut self.random) % most
    }

    /// A program of so many steps that begins with the first segment attached; its number.
    pub(super) fn program(&mut self, steps: usize) -> usize {
        let number = self.behind(&mut [Some((0, vec![0, 1, 2, 3])), None, None], steps);
        self.programs[number].insert(0, Attach(0, 0));
        number
    }

    /// A program of a thread beside another one, whose first slot it uses.
    pub(super) fn beside(&mut self, steps: usize) -> usize {
        let steps = (0..steps).map(|_| match self.below(2) {
            0 => Read(0, self.below(4)),
            _ => Add(0, self.below(4)),
        });
        let steps = steps.collect();
        self.programs.push(steps);
        self.programs.len() - 1
    }

    fn behind(&mut self, slots: &mut Slots, steps: usize) -> usize {
        let program: Vec<Step> = (0..steps).filter_map(|at| self.step(slots, steps - at)).collect();
        self.programs.push(if program.is_empty() { vec![Step::End] } else { program });
        self.programs.len() - 1
    }

    fn step(&mut self, slots: &mut Slots, left: usize) -> Option<Step> {
        let (of, other) = (self.below(SLOTS), self.below(SLOTS));
        let kind = self.below(24);
        let Some((segment, pages)) = slots[of].clone() else {
            let segment = self.below(PAGES.len());
            slots[of] = Some((segment, (0..PAGES[segment]).collect()));
            return Some(Attach(segment, of));
        };
        let page = pages[self.below(pages.len())];
        Some(match kind {
            0 if self.forks < MOST_FORKS => {
                self.forks += 1;
                Fork(self.behind(&mut slots.clone(), left / 2 + 1))
            }
            1 if pages.contains(&0) => {
                slots[of] = None;
                Detach(of)
            }
            2 if slots[other].is_none() && pages.len() == PAGES[segment] => {
                slots[other] = slots[of].take();
                Move(of, other)
            }
            3 if PAGES[segment] == 2 && pages.len() == 2 => {
                slots[of] = Some((3 - segment, pages));
                Replace(3 - segment, of)
            }
            4 if page > 0 => {
                slots[of] = Some((segment, pages.into_iter().filter(|at| *at != page).collect()));
                Unmap(of, page)
            }
            0..14 => Add(of, page),
            _ => Read(of, page),
        })
    }
}
