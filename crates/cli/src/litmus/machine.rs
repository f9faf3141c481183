//! The machine that says which outcomes are right: x86-TSO within a node, minipages between nodes.
//!
//! Within a node it is the machine of x86-TSO (Owens, Sarkar, Sewell 2009): each thread has a FIFO
//! buffer of stores; a load takes the youngest buffered store of its own thread, else memory;
//! `mfence` and `lock`ed instructions wait until the buffer is empty.
//!
//! Between nodes there are minipages: an access first obtains the minipage for its node, a store
//! exclusively. A node that loses the right to write a minipage has completed its stores to it, and
//! by the order of the buffers all older ones: the kernel withdraws a page table entry with a TLB
//! shootdown, whose interrupt drains the processor's buffer, before the bytes are read. Losing the
//! right to read completes nothing, in this machine; it is as weak as it may be.
//!
//! All interleavings are explored. With all threads on one node this is x86-TSO and nothing else;
//! with each on its own it is sequential consistency, as the tests below show.

use super::program::{Op, REGISTERS, Test, VARIABLES, Var};
use std::collections::{BTreeSet, HashSet, VecDeque};

/// Outcomes, each as [`Test::labels`] has it.
pub(super) type Outcomes = BTreeSet<Vec<u64>>;

/// A test's threads on their nodes, its variables in their minipages.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    pub(super) test: &'a Test,
    /// The node of each thread.
    pub(super) nodes: &'a [usize],
    /// Whether all variables lie in one minipage.
    pub(super) one_minipage: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    memory: [u64; VARIABLES],
    /// By minipage.
    holders: [Holders; VARIABLES],
    threads: Vec<Thread>,
}

/// The nodes that may access a minipage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holders {
    /// A set of bits.
    Readers(u32),
    Writer(usize),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Thread {
    next: usize,
    buffer: VecDeque<(usize, u64)>,
    registers: [u64; REGISTERS],
    read: usize,
}

impl Machine<'_> {
    /// Every outcome there is.
    pub(super) fn outcomes(&self) -> Outcomes {
        let start = State {
            memory: [0; VARIABLES],
            holders: [Holders::Readers(0); VARIABLES],
            threads: vec![Thread::default(); self.test.threads.len()],
        };
        let (mut open, mut seen, mut outcomes) =
            (vec![start.clone()], HashSet::from([start]), Outcomes::new());
        while let Some(state) = open.pop() {
            let next: Vec<State> = (0..state.threads.len())
                .flat_map(|thread| [self.drain(&state, thread), self.execute(&state, thread)])
                .flatten()
                .collect();
            if next.is_empty() {
                outcomes.insert(self.outcome(&state));
            }
            for state in next {
                if seen.insert(state.clone()) {
                    open.push(state);
                }
            }
        }
        outcomes
    }

    /// The thread's oldest buffered store becomes visible.
    fn drain(&self, state: &State, thread: usize) -> Option<State> {
        let mut state = state.clone();
        state.complete_oldest(thread).then_some(state)
    }

    /// The thread's next instruction, if it can run now.
    fn execute(&self, state: &State, thread: usize) -> Option<State> {
        let now = &state.threads[thread];
        let op = *self.test.threads[thread].ops.get(now.next)?;
        let waits = matches!(op, Op::Mfence | Op::Xadd(..) | Op::Xchg(..) | Op::Cmpxchg(..));
        if waits && !now.buffer.is_empty() {
            return None;
        }
        let mut state = state.clone();
        state.threads[thread].next += 1;
        if let Some(var) = op.var() {
            self.obtain(&mut state, self.nodes[thread], var, !matches!(op, Op::Load(_)));
        }
        match op {
            Op::Mfence => {}
            Op::Store(var, value) => {
                state.threads[thread].buffer.push_back((var as usize, value));
            }
            Op::Load(var) => {
                let own = &state.threads[thread].buffer;
                let youngest = own.iter().rev().find(|&&(place, _)| place == var as usize);
                let value = youngest.map_or(state.memory[var as usize], |&(_, value)| value);
                state.threads[thread].put(value);
            }
            Op::Xadd(var, value) => state.exchange(thread, var, |old| old + value),
            Op::Xchg(var, value) => state.exchange(thread, var, |_| value),
            Op::Cmpxchg(var, from, to) => {
                state.exchange(thread, var, |old| if old == from { to } else { old });
            }
        }
        Some(state)
    }

    /// Brings a variable's minipage to a node.
    fn obtain(&self, state: &mut State, node: usize, var: Var, writes: bool) {
        let minipage = self.minipage(var as usize);
        let holders = state.holders[minipage];
        if let Holders::Writer(writer) = holders {
            if writer == node {
                return;
            }
            self.complete(state, writer, minipage);
        }
        state.holders[minipage] = match (writes, holders) {
            (true, _) => Holders::Writer(node),
            (false, Holders::Readers(readers)) => Holders::Readers(readers | 1 << node),
            (false, Holders::Writer(writer)) => Holders::Readers(1 << writer | 1 << node),
        };
    }

    /// No store of a node to a minipage stays buffered.
    fn complete(&self, state: &mut State, node: usize, minipage: usize) {
        for thread in (0..self.nodes.len()).filter(|&thread| self.nodes[thread] == node) {
            let is_here = |&(place, _): &(usize, u64)| self.minipage(place) == minipage;
            while state.threads[thread].buffer.iter().any(is_here) {
                state.complete_oldest(thread);
            }
        }
    }

    fn minipage(&self, var: usize) -> usize {
        if self.one_minipage { 0 } else { var }
    }

    fn outcome(&self, state: &State) -> Vec<u64> {
        let registers = state.threads.iter().zip(self.test.threads);
        registers
            .flat_map(|(thread, code)| &thread.registers[..code.registers.len()])
            .copied()
            .chain(self.test.finals.iter().map(|&var| state.memory[var as usize]))
            .collect()
    }
}

impl State {
    fn complete_oldest(&mut self, thread: usize) -> bool {
        let oldest = self.threads[thread].buffer.pop_front();
        if let Some((place, value)) = oldest {
            self.memory[place] = value;
        }
        oldest.is_some()
    }

    fn exchange(&mut self, thread: usize, var: Var, change: impl FnOnce(u64) -> u64) {
        let place = &mut self.memory[var as usize];
        let old = *place;
        *place = change(old);
        self.threads[thread].put(old);
    }
}

impl Thread {
    fn put(&mut self, value: u64) {
        self.registers[self.read] = value;
        self.read += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::{TESTS, named};
    use super::super::program::Rule;
    use super::*;

    const ONE: [usize; 4] = [0; 4];
    const OWN: [usize; 4] = [0, 1, 2, 3];

    fn outcomes(test: &Test, nodes: &[usize], one_minipage: bool) -> Outcomes {
        Machine { test, nodes: &nodes[..test.threads.len()], one_minipage }.outcomes()
    }

    /// Interleavings of whole instructions on one memory.
    fn interleavings(test: &Test) -> Outcomes {
        fn go(test: &Test, state: &State, outcomes: &mut Outcomes) {
            let machine = Machine { test, nodes: &ONE[..test.threads.len()], one_minipage: true };
            let mut last = true;
            for thread in 0..test.threads.len() {
                if let Some(mut next) = machine.execute(state, thread) {
                    next.complete_oldest(thread);
                    go(test, &next, outcomes);
                    last = false;
                }
            }
            if last {
                outcomes.insert(machine.outcome(state));
            }
        }
        let threads = vec![Thread::default(); test.threads.len()];
        let holders = [Holders::Readers(0); VARIABLES];
        let mut outcomes = Outcomes::new();
        go(test, &State { memory: [0; VARIABLES], holders, threads }, &mut outcomes);
        outcomes
    }

    fn allows(name: &str, nodes: &[usize]) -> bool {
        let test = named(name).unwrap();
        outcomes(test, nodes, false).iter().any(|outcome| test.is_witness(outcome))
    }

    #[test]
    fn within_a_node_the_verdicts_are_those_of_x86_tso() {
        for name in ["SB", "R", "RWC", "SB+mfence+po", "R+mfence+po", "SB+rfis", "n6", "W+RWC"] {
            assert!(allows(name, &ONE), "{name} is allowed");
        }
        for name in [
            "SB+mfences",
            "SB+xchgs",
            "R+po+mfence",
            "R+mfences",
            "RWC+mfence",
            "MP",
            "LB",
            "S",
            "2+2W",
            "IRIW",
            "WRC",
            "ISA2",
            "W+RWC+mfence",
            "CoRR",
            "CoRR2",
            "CoWW",
            "CoRW1",
            "CoRW2",
            "CoWR",
            "n5",
            "fetch-add",
            "fetch-add-4",
            "compare-exchange",
            "exchange",
            "fetch-add+store",
        ] {
            assert!(!allows(name, &ONE), "{name} is forbidden");
        }
    }

    #[test]
    fn between_nodes_exactly_what_is_sequentially_consistent_is_allowed() {
        for test in TESTS.iter().filter(|test| matches!(test.rule, Rule::Machine)) {
            for one_minipage in [false, true] {
                assert_eq!(outcomes(test, &OWN, one_minipage), interleavings(test), "{test:?}");
            }
        }
    }

    #[test]
    fn mixed_threads_see_no_more_than_x86_tso_and_no_less_than_interleavings() {
        for test in TESTS.iter().filter(|test| matches!(test.rule, Rule::Machine)) {
            for nodes in [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]] {
                let mixed = outcomes(test, &nodes, false);
                assert!(mixed.is_subset(&outcomes(test, &ONE, false)), "{test:?}");
                assert!(mixed.is_superset(&interleavings(test)), "{test:?}");
            }
        }
    }

    #[test]
    fn readers_and_writer_on_one_node_may_see_its_buffered_store_late() {
        // P1 and P2 share a node: P2's store may still be buffered when P1 has read.
        assert!(!allows("RWC", &OWN));
        assert!(allows("RWC", &[1, 0, 0]));
    }

    #[test]
    fn what_each_test_asks_for_is_no_interleaving() {
        for test in TESTS.iter().filter(|test| matches!(test.rule, Rule::Machine)) {
            let found = interleavings(test);
            assert!(!found.iter().any(|outcome| test.is_witness(outcome)), "{test:?}");
            assert!(found.iter().all(|outcome| outcome.len() == test.exists.len()), "{test:?}");
        }
    }
}
