//! TSP (apps/tsp): branch and bound. The search itself is done here, with the application's cities
//! and bounds, so that the amount of work is the application's, whichever node does it. One simplification: a tour
//! is solved with the best length that is known when it is taken.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use super::search::{Cities, Tour};
use crate::scale::step::{Pattern, Place, Program, Step};

const QUEUE_LOCK: u32 = 0;
const BEST_LOCK: u32 = 1;
const TOURS: u32 = 5000;
const TOUR_BYTES: u64 = 148;
const PAGE_BYTES: u32 = 4096;
/// The pool in its pages: two counts, a heap of entries of 12 bytes, the stack of free tours.
const ENTRIES_AT: u32 = 8;
const FREE_AT: u32 = ENTRIES_AT + 12 * TOURS;
const POOL_PAGES: u32 = (FREE_AT + 4 * TOURS).div_ceil(PAGE_BYTES);
/// The page of the best tour.
const BEST: u32 = TOURS + POOL_PAGES;

/// The cities.
#[derive(Clone, Copy, Debug)]
pub struct Tsp {
    /// How many, 20 at most.
    pub cities: u8,
    /// Tours with so many to go are solved by recursion.
    pub level: u8,
    /// Chooses where they are.
    pub seed: u64,
}

impl Pattern for Tsp {
    fn name(&self) -> &'static str {
        "tsp"
    }

    fn flags(&self) -> String {
        let Self { cities, level, seed } = self;
        format!("--cities {cities} --level {level} --seed {seed}")
    }

    fn most_nodes(&self) -> u16 {
        u16::MAX
    }

    fn rounds(&self) -> u32 {
        1
    }

    /// The tours, the pages of the pool, the best tour.
    fn places(&self, _: u16) -> Vec<Place> {
        let bytes = |index| if index < TOURS { TOUR_BYTES } else { PAGE_BYTES.into() };
        (0..=BEST).map(|index| Place { owner: 0, bytes: bytes(index) }).collect()
    }

    fn locks(&self) -> u32 {
        2
    }

    fn programs(&self, nodes: u16, _: u32) -> Vec<Program> {
        let pool = Rc::new(RefCell::new(Pool::new(self)));
        (0..nodes).map(|_| -> Program { Box::new(Worker::new(pool.clone())) }).collect()
    }
}

/// What the nodes share.
#[derive(Debug)]
struct Pool {
    cities: Cities,
    level: u8,
    tours: Vec<Tour>,
    /// Least bound first, then most cities; the last number is the tour's.
    queue: BinaryHeap<Reverse<(u32, u8, u32)>>,
    free: Vec<u32>,
    best: u32,
}

/// A node: whenever its steps are used up, it holds the queue's lock.
#[derive(Debug)]
struct Worker {
    pool: Rc<RefCell<Pool>>,
    ahead: VecDeque<Step>,
    mine: Option<u32>,
    ended: bool,
}

impl Worker {
    fn new(pool: Rc<RefCell<Pool>>) -> Self {
        let ahead = VecDeque::from([Step::Lock(QUEUE_LOCK)]);
        Self { pool, ahead, mine: None, ended: false }
    }
}

impl Iterator for Worker {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.ahead.is_empty() && !self.ended {
            let mut pool = self.pool.borrow_mut();
            if let Some(tour) = self.mine.take() {
                pool.give(tour, &mut self.ahead);
            }
            self.mine = pool.next_tour(&mut self.ahead);
            self.ahead.push_back(Step::Unlock(QUEUE_LOCK));
            match self.mine {
                Some(tour) => pool.solve(tour, &mut self.ahead),
                None => {
                    self.ended = true;
                    self.ahead.extend([Step::Barrier, Step::Barrier]);
                }
            }
        }
        self.ahead.pop_front()
    }
}

impl Pool {
    /// One tour, which goes nowhere yet.
    fn new(tsp: &Tsp) -> Self {
        Self {
            cities: Cities::new(tsp.cities, tsp.seed),
            level: tsp.level,
            tours: vec![Tour::ROOT; TOURS as usize],
            queue: BinaryHeap::from([Reverse((0, 0, 0))]),
            free: (1..TOURS).rev().collect(),
            best: u32::MAX,
        }
    }

    /// The most promising tour that is short enough to be solved, or that there is no room to split.
    fn next_tour(&mut self, steps: &mut VecDeque<Step>) -> Option<u32> {
        steps.push_back(Step::Read(page(0)));
        while let Some(Reverse((.., tour))) = self.queue.pop() {
            self.touch_entry(steps);
            steps.extend([Step::Read(tour), Step::Read(BEST)]);
            let Tour { count, bound, .. } = self.tours[tour as usize];
            if bound < self.best {
                let to_go = self.cities.count - count;
                if to_go <= self.level || self.free.len() < usize::from(to_go) {
                    return Some(tour);
                }
                self.expand(tour, steps);
            }
            self.give(tour, steps);
        }
        None
    }

    fn expand(&mut self, parent: u32, steps: &mut VecDeque<Step>) {
        let parent = self.tours[parent as usize];
        let to_go = u64::from(self.cities.count - parent.count);
        steps.push_back(Step::Compute(to_go * to_go));
        for tour in self.cities.expand(&parent, self.best) {
            let child = self.free.pop().expect("there is room");
            self.touch_free(steps);
            steps.push_back(Step::Write(child));
            self.queue.push(Reverse((tour.bound, u8::MAX - tour.count, child)));
            self.tours[child as usize] = tour;
            self.touch_entry(steps);
        }
    }

    fn give(&mut self, tour: u32, steps: &mut VecDeque<Step>) {
        self.free.push(tour);
        self.touch_free(steps);
    }

    /// The recursion, and an offer of every better tour it finds.
    fn solve(&mut self, tour: u32, steps: &mut VecDeque<Step>) {
        steps.extend([Step::Read(tour), Step::Read(BEST)]);
        let solved = self.cities.solve(&self.tours[tour as usize], self.best);
        let mut done = 0;
        for (elements, length) in solved.better {
            self.best = self.best.min(length);
            steps.extend([
                Step::Compute(elements - done),
                Step::Lock(BEST_LOCK),
                Step::Read(BEST),
                Step::Write(BEST),
                Step::Push(BEST),
                Step::Unlock(BEST_LOCK),
            ]);
            done = elements;
        }
        steps.extend([Step::Compute(solved.elements - done), Step::Lock(QUEUE_LOCK)]);
    }

    /// The heap, from its last entry to its top, and the counts.
    fn touch_entry(&self, steps: &mut VecDeque<Step>) {
        let mut entry = self.queue.len();
        while entry > 0 {
            touch(ENTRIES_AT + 12 * u32::try_from(entry).expect("at most TOURS"), steps);
            entry /= 2;
        }
        touch(0, steps);
    }

    /// The top of the stack of free tours, and its height.
    fn touch_free(&self, steps: &mut VecDeque<Step>) {
        let height = u32::try_from(self.free.len()).expect("at most TOURS");
        touch(FREE_AT + 4 * height, steps);
        touch(0, steps);
    }
}

/// Reads and writes the pool at an offset.
fn touch(offset: u32, steps: &mut VecDeque<Step>) {
    steps.extend([Step::Read(page(offset)), Step::Write(page(offset))]);
}

fn page(offset: u32) -> u32 {
    TOURS + offset / PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_gives_every_tour_back_and_ends_with_a_shortest_one() {
        let tsp = Tsp { cities: 11, level: 7, seed: 130 };
        let pool = Rc::new(RefCell::new(Pool::new(&tsp)));
        let steps: Vec<Step> = Worker::new(pool.clone()).collect();
        let count = |wanted: Step| steps.iter().filter(|step| **step == wanted).count();
        assert_eq!(count(Step::Lock(QUEUE_LOCK)), count(Step::Unlock(QUEUE_LOCK)));
        assert!(count(Step::Push(BEST)) > 0);
        let pool = pool.borrow();
        assert_eq!(pool.free.len(), TOURS as usize);
        let shortest = pool.cities.solve(&Tour::ROOT, u32::MAX).better.pop().unwrap().1;
        assert_eq!(pool.best, shortest);
    }
}
