//! All that can happen in a small world, and some of what can happen in a large one.

use std::collections::HashMap;

use super::choices::{Choices, hash_of, next_random};
use super::world::{Action, World};

/// What was found: states, ways from one to the next, and what is wrong with how to come there.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) ways: usize,
    pub(super) depth: usize,
    pub(super) wrong: Option<(&'static str, Vec<Action>)>,
}

#[derive(Debug, Default)]
struct Explored {
    /// States by their fingerprints.
    numbers: HashMap<u64, usize>,
    /// By which action each was reached first, and from where.
    reached: Vec<Option<(usize, Action)>>,
    before: Vec<Vec<u32>>,
    done: Vec<usize>,
}

impl Explored {
    fn path(&self, mut to: usize) -> Vec<Action> {
        let mut path = Vec::new();
        while let Some((from, action)) = self.reached[to] {
            path.push(action);
            to = from;
        }
        path.reverse();
        path
    }

    /// A state from which no end can be reached.
    fn without_end(&self) -> Option<usize> {
        let mut ends = vec![false; self.reached.len()];
        let mut left = self.done.clone();
        while let Some(state) = left.pop() {
            if !core::mem::replace(&mut ends[state], true) {
                left.extend(self.before[state].iter().map(|before| *before as usize));
            }
        }
        ends.iter().position(|ends| !ends)
    }
}

/// Breadth first, so that what is found wrong is short.
pub(super) fn explore(world: World, most: usize) -> Found {
    let mut explored = Explored::default();
    explored.numbers.insert(hash_of(&world), 0);
    explored.reached.push(None);
    explored.before.push(Vec::new());
    let mut level = vec![(0, world)];
    let (mut depth, mut ways) = (0, 0);
    let mut wrong = None;
    'all: while !level.is_empty() {
        let mut next = Vec::new();
        for (number, world) in level {
            for action in world.actions() {
                let mut choices = Choices::default();
                loop {
                    let mut after = world.clone();
                    after.state.kernel.choices = core::mem::take(&mut choices);
                    after.act(action);
                    choices = core::mem::take(&mut after.state.kernel.choices);
                    ways += 1;
                    let new = explored.reached.len();
                    let known = *explored.numbers.entry(hash_of(&after)).or_insert(new);
                    if known == new {
                        explored.reached.push(Some((number, action)));
                        explored.before.push(Vec::new());
                        if let Some(what) = after.check() {
                            wrong = Some((what, explored.path(new)));
                            break 'all;
                        }
                        if after.is_done() {
                            explored.done.push(new);
                        }
                        next.push((new, after));
                    }
                    explored.before[known].push(u32::try_from(number).unwrap());
                    if !choices.advance() {
                        break;
                    }
                }
            }
        }
        assert!(explored.reached.len() < most, "more than {most} states");
        level = next;
        depth += 1;
    }
    if wrong.is_none() {
        wrong = explored
            .without_end()
            .map(|state| ("from here no program comes to its end", explored.path(state)));
    }
    Found { states: explored.reached.len(), ways, depth, wrong }
}

/// Some way through a world, by chance, until it is done; how many actions it had, and what was wrong.
pub(super) fn walk(mut world: World, seed: u64) -> (usize, Option<(&'static str, Vec<Action>)>) {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    world.state.kernel.choices = Choices::random(random);
    let mut path = Vec::new();
    loop {
        let actions = world.actions();
        if world.is_done() || actions.is_empty() || path.len() > 100_000 {
            let what = (!world.is_done()).then_some("some thread waits for ever");
            return (path.len(), what.map(|what| (what, path)));
        }
        let mut action = actions[next_random(&mut random) % actions.len()];
        // Programs come on between what the node takes.
        if action.is_of_adversary() && !next_random(&mut random).is_multiple_of(4) {
            action = actions[next_random(&mut random) % actions.len()];
        }
        path.push(action);
        world.act(action);
        if let Some(what) = world.check() {
            return (path.len(), Some((what, path)));
        }
    }
}
