//! The list of runs: every test in every layout and placement, in jobs of every configuration.
//!
//! The launcher of the jobs and each of their nodes compute the same list of runs from the same
//! arguments, so that a run is known by its number.

use super::LitmusArgs;
use super::program::{Rule, Test};
use clap::ValueEnum;
use core::fmt;

/// Nodes of every job; those without a thread of the test disturb it.
pub(super) const NODES: usize = 4;
/// From a configuration to the next in nested loops over guards, transports and managers: has no factor in
/// common with any number of them.
const STRIDE: usize = 5;
/// Rounds between two resets of the variables.
pub(super) const BATCH: usize = 32;
/// A round of a program with loops, or with locks, is worth so many of a few instructions.
const PROGRAM_WORTH: usize = 8;

/// `--layout`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Layout {
    /// All variables in one minipage.
    Minipage,
    /// Each in a minipage of its own, all in one page.
    Page,
    /// Each in a page of its own.
    Pages,
}

/// `--placement`
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Placement {
    /// All threads on one node.
    One,
    /// Two threads here, the others there; of three or more.
    Mixed,
    /// Each thread on a node of its own.
    Own,
}

impl Placement {
    /// For each way to place so many threads, the node of each.
    fn groupings(self, threads: usize) -> Vec<&'static [usize]> {
        let all: &[&'static [usize]] = match (self, threads) {
            (Self::One, _) => &[&[0, 0, 0, 0]],
            (Self::Own, _) => &[&[0, 1, 2, 3]],
            (Self::Mixed, 3) => &[&[0, 0, 1], &[0, 1, 0], &[0, 1, 1]],
            (Self::Mixed, 4) => &[&[0, 0, 1, 1], &[0, 1, 0, 1], &[0, 1, 1, 0]],
            (Self::Mixed, _) => &[],
        };
        all.iter().map(|nodes| &nodes[..threads]).collect()
    }
}

/// `--guard`; the names are those of `run --guard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Guard {
    /// Userfaultfd.
    Uffd,
    /// Mprotect and SIGSEGV.
    Mprotect,
}

/// `--transport`; the names are those of `run --transport`, unix and tcp alone: the jobs of a configuration are the same
/// whatever other backends there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Transport {
    /// Unix sockets.
    Unix,
    /// TCP over the loopback interface.
    Tcp,
}

/// `--manager`; the names are those of `run --manager`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Manager {
    /// Node 0 manages everything.
    First,
    /// Spread over the nodes.
    Spread,
    /// The node that allocated.
    Allocator,
}

/// `--consistency`; the names are those of `run --consistency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum Consistency {
    /// The tests as they are.
    #[default]
    Sequential,
    /// Each instruction in a critical section, on eagerly release consistent memory.
    EagerRelease,
    /// The same on lazily release consistent memory.
    LazyRelease,
    /// The same on memory that adapts.
    Auto,
}

impl Consistency {
    /// Whether a program must synchronize to be promised anything.
    pub(super) fn is_relaxed(self) -> bool {
        self != Self::Sequential
    }
}

/// What was chosen, or everything.
pub(super) fn or_all<T: ValueEnum + Clone>(chosen: &[T]) -> Vec<T> {
    if chosen.is_empty() { T::value_variants().to_vec() } else { chosen.to_vec() }
}

/// The name of a choice on the command line.
pub(super) fn name_of(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// What a job is started with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Configuration {
    pub(super) guard: Guard,
    pub(super) transport: Transport,
    pub(super) manager: Manager,
}

impl fmt::Display for Configuration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { guard, transport, manager } = self;
        let names = (name_of(guard), name_of(transport), name_of(manager));
        write!(out, "--guard {} --transport {} --manager {}", names.0, names.1, names.2)
    }
}

/// The jobs of a command, in an order in which the first few meet every guard, transport and manager.
pub(super) fn configurations(args: &LitmusArgs) -> Vec<Configuration> {
    let mut all = Vec::new();
    for guard in or_all(&args.choice.guard) {
        for transport in or_all(&args.choice.transport) {
            for manager in or_all(&args.choice.manager) {
                all.push(Configuration { guard, transport, manager });
            }
        }
    }
    let nested = all.len();
    (0..nested).map(|number| all[number * STRIDE % nested]).collect()
}

/// One test in one layout, its threads on given nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) test: &'static Test,
    pub(super) layout: Layout,
    pub(super) placement: Placement,
    /// By thread: which of the nodes that take part.
    pub(super) nodes: &'static [usize],
    pub(super) batches: usize,
    /// Each instruction is a critical section of its own.
    pub(super) locked: bool,
}

impl fmt::Display for Run {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<String> = self.nodes.iter().map(usize::to_string).collect();
        let (layout, placement) = (name_of(&self.layout), name_of(&self.placement));
        write!(out, "--layout {layout} --placement {placement} (nodes {})", nodes.join(","))
    }
}

/// What every job of a command runs. The programs with loops bring locks of their own, made of
/// atomic instructions: on release consistent memory these promise nothing, so they are left out.
pub(super) fn runs(args: &LitmusArgs) -> Vec<Run> {
    let mut all = Vec::new();
    let relaxed = args.consistency.is_relaxed();
    let fits = |test: &&'static Test| !relaxed || matches!(test.rule, Rule::Machine);
    for test in args.tests().into_iter().filter(fits) {
        for layout in or_all(&args.choice.layout) {
            for placement in or_all(&args.choice.placement) {
                let groupings = placement.groupings(test.threads.len());
                let long = relaxed || !matches!(test.rule, Rule::Machine);
                let worth = if long { PROGRAM_WORTH } else { 1 };
                let rounds = args.rounds() / (groupings.len().max(1) * worth);
                let batches = rounds.div_ceil(BATCH).max(1);
                let run = |nodes| Run { test, layout, placement, nodes, batches, locked: relaxed };
                all.extend(groupings.into_iter().map(run));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_meets_every_layout_and_every_placement_it_has() {
        let all = runs(&LitmusArgs::default());
        for test in crate::litmus::catalog::TESTS {
            let of_test = all.iter().filter(|run| core::ptr::eq(run.test, test));
            let groupings = if test.threads.len() > 2 { 5 } else { 2 };
            assert_eq!(of_test.count(), 3 * groupings, "{test:?}");
        }
        let configurations = configurations(&LitmusArgs::default());
        let distinct = |most: usize| {
            let names = configurations.iter().take(most).map(ToString::to_string);
            names.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!((configurations.len(), distinct(12).len()), (12, 12));
        let first = distinct(3).into_iter().collect::<String>();
        for word in ["uffd", "mprotect", "unix", "tcp", "first", "spread", "allocator"] {
            assert!(first.contains(word), "{word} is not among the first: {first}");
        }
    }

    #[test]
    fn mixed_threads_share_a_node_and_do_not_all() {
        for threads in 3..=4 {
            for nodes in Placement::Mixed.groupings(threads) {
                assert_eq!(nodes.len(), threads);
                assert!(nodes.contains(&0) && nodes.contains(&1), "{nodes:?}");
                assert!(nodes.iter().all(|&node| node < 2), "{nodes:?}");
            }
        }
        assert!(Placement::Mixed.groupings(2).is_empty());
    }
}
