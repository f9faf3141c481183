//! A litmus test: threads of a few instructions, and what is read when they have run.
//!
//! A short program exists twice from one source, as a list of [`Op`]s that the [machine](super::machine)
//! explores and as code in which every instruction is a constant, so that nothing stands between
//! them when it is optimized.

use super::instruction::{Word, mfence};
use core::fmt;

/// Most variables of a test.
pub(super) const VARIABLES: usize = 4;
/// Most threads of a test.
pub(super) const THREADS: usize = 4;
/// Most registers of a thread that are looked at.
pub(super) const REGISTERS: usize = 4;
/// In [`Test::exists`]: any value.
pub(super) const ANY: u64 = u64::MAX;

/// A variable of a test; 0 at the start of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Var {
    X,
    Y,
    Z,
    W,
}

impl fmt::Display for Var {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(["x", "y", "z", "w"][*self as usize])
    }
}

/// One instruction. Each that reads does so into the thread's next register.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// `mov [var], value`
    Store(Var, u64),
    /// `mov reg, [var]`
    Load(Var),
    /// `mfence`
    Mfence,
    /// `lock xadd [var], value`
    Xadd(Var, u64),
    /// `xchg [var], value`
    Xchg(Var, u64),
    /// `lock cmpxchg [var]`, from the first value to the second
    Cmpxchg(Var, u64, u64),
}

impl Op {
    /// The variable it accesses.
    pub(super) fn var(self) -> Option<Var> {
        match self {
            Self::Mfence => None,
            Self::Store(var, _)
            | Self::Load(var)
            | Self::Xadd(var, _)
            | Self::Xchg(var, _)
            | Self::Cmpxchg(var, ..) => Some(var),
        }
    }

    pub(super) const fn reads(self) -> bool {
        !matches!(self, Self::Store(..) | Self::Mfence)
    }
}

/// One thread's place in one round: its variables, and what it has read.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) words: [Word; VARIABLES],
    /// Which thread of the test runs.
    pub(super) thread: usize,
    pub(super) registers: [u64; REGISTERS],
    read: usize,
}

impl Cell {
    pub(super) fn new(words: [Word; VARIABLES], thread: usize) -> Self {
        Self { words, thread, registers: [0; REGISTERS], read: 0 }
    }

    /// Runs one instruction. Inlined with a constant it is that instruction and little else.
    #[inline(always)]
    pub(super) fn execute(&mut self, op: Op) {
        let word = |var: Var| self.words[var as usize];
        let value = match op {
            Op::Store(var, value) => return word(var).store(value),
            Op::Mfence => return mfence(),
            Op::Load(var) => word(var).load(),
            Op::Xadd(var, value) => word(var).add(value),
            Op::Xchg(var, value) => word(var).swap(value),
            Op::Cmpxchg(var, old, new) => word(var).compare_exchange(old, new),
        };
        self.registers[self.read] = value;
        self.read += 1;
    }
}

/// A thread's code.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) run: fn(&mut Cell),
    /// The same as instructions; none for a program with loops.
    pub(super) ops: &'static [Op],
    /// What is looked at, register by register.
    pub(super) registers: &'static [&'static str],
}

/// Names of the registers of a thread that reads so often.
pub(super) const fn registers(ops: &[Op]) -> &'static [&'static str] {
    let (mut index, mut reads) = (0, 0);
    while index < ops.len() {
        reads += ops[index].reads() as usize;
        index += 1;
    }
    let names: &[&str] = &["r0", "r1", "r2", "r3"];
    names.split_at(reads).0
}

/// Which outcomes are right.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Those of the [machine](super::machine).
    Machine,
    /// This one only: the programs with loops, which must keep their promise on any machine.
    Only(&'static [u64]),
}

/// A litmus test.
#[derive(Debug)]
pub(super) struct Test {
    /// Its name in the literature, if it has one.
    pub(super) name: &'static str,
    /// What it asks.
    pub(super) about: &'static str,
    pub(super) threads: &'static [Thread],
    /// Variables that are looked at when all threads have run.
    pub(super) finals: &'static [Var],
    /// The outcome it asks for: values in the order of [`Test::labels`].
    pub(super) exists: &'static [u64],
    pub(super) rule: Rule,
}

impl Test {
    /// What an outcome consists of: registers by thread, then variables.
    pub(super) fn labels(&self) -> Vec<String> {
        let threads = self.threads.iter().enumerate();
        threads
            .flat_map(|(number, thread)| {
                thread.registers.iter().map(move |name| format!("{number}:{name}"))
            })
            .chain(self.finals.iter().map(Var::to_string))
            .collect()
    }

    /// How many variables it uses, from the first.
    pub(super) fn variables(&self) -> usize {
        let used = self.threads.iter().flat_map(|thread| thread.ops).filter_map(|op| op.var());
        match self.rule {
            Rule::Machine => used.map(|var| var as usize + 1).max().unwrap_or(0),
            Rule::Only(_) => VARIABLES,
        }
    }

    /// An outcome as herd writes it.
    pub(super) fn show(&self, outcome: &[u64]) -> String {
        let parts = self.labels().into_iter().zip(outcome);
        parts.map(|(label, value)| format!("{label}={value};")).collect::<Vec<_>>().join(" ")
    }

    /// The question as herd writes it.
    pub(super) fn condition(&self) -> String {
        let asked = self.labels().into_iter().zip(self.exists).filter(|&(_, &value)| value != ANY);
        let parts: Vec<String> = asked.map(|(label, value)| format!("{label}={value}")).collect();
        format!("exists ({})", parts.join(" /\\ "))
    }

    /// Whether an outcome is the one that is asked for.
    pub(super) fn is_witness(&self, outcome: &[u64]) -> bool {
        self.exists.iter().zip(outcome).all(|(&asked, &value)| asked == ANY || asked == value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_a_register_for_each_instruction_that_reads() {
        let ops = [Op::Store(Var::X, 1), Op::Load(Var::Y), Op::Mfence, Op::Xadd(Var::X, 1)];
        assert_eq!(registers(&ops), ["r0", "r1"]);
        assert_eq!(ops.iter().filter(|op| op.reads()).count(), 2);
    }

    #[test]
    fn the_code_of_an_instruction_does_what_its_name_says() {
        let places: &'static [core::sync::atomic::AtomicU64; VARIABLES] = Box::leak(Box::default());
        let words = places.each_ref().map(Word::of);
        let mut cell = Cell::new(words, 0);
        for op in [
            Op::Store(Var::X, 3),
            Op::Load(Var::X),
            Op::Xadd(Var::X, 4),
            Op::Xchg(Var::X, 9),
            Op::Cmpxchg(Var::X, 9, 1),
            Op::Store(Var::W, 5),
        ] {
            cell.execute(op);
        }
        assert_eq!(cell.registers, [3, 3, 7, 9]);
        assert_eq!(words.map(Word::load), [1, 0, 0, 5]);
    }
}
