//! The plan of a run: everything it depends on.

use core::fmt;

use multigrain_types::{NodeId, Placement};

use super::cluster::Placed;
use super::rng::Rng;

/// Fewest minipages of a run: there are five kinds of them.
pub const FEWEST_MINIPAGES: u32 = 8;
/// Most nodes of a run.
pub const MOST_NODES: u16 = 10_000;
/// Most states of minipages, one a node and minipage: what fits a common memory.
pub(super) const MOST_STATES: u64 = 1 << 26;

/// How many nodes a seed draws, from and to; each row is as likely as the others.
const SIZES: [(u64, u64); 16] = {
    let mut sizes = [(2, 16); 16];
    (sizes[0], sizes[1], sizes[2]) = ((17, 200), (17, 200), (201, MOST_NODES as u64));
    sizes
};

/// One run. The same plan is the same run, step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// All that is random comes from it.
    pub seed: u64,
    /// Nodes, up to [`MOST_NODES`].
    pub nodes: u16,
    /// Threads of each node.
    pub threads: u32,
    /// Minipages of the job.
    pub minipages: u32,
    /// Virtual time after which the threads come to an end.
    pub virtual_ns: u64,
    /// Calls of `Node::step` after which they do, if that is earlier.
    pub steps: u64,
    /// Whether a node dies.
    pub deaths: Deaths,
}

/// Whether a node dies at some moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deaths {
    /// None does.
    Never,
    /// In the runs of one seed in eight.
    #[default]
    Some,
    /// In every run.
    Always,
}

impl Plan {
    /// A plan for so many nodes: a virtual second at most.
    #[must_use]
    pub fn new(seed: u64, nodes: u16) -> Self {
        let (threads, minipages, steps) = (2, 48, u64::MAX);
        let (virtual_ns, deaths) = (1_000_000_000, Deaths::Some);
        Self { seed, nodes, threads, minipages, virtual_ns, steps, deaths }
    }

    /// The plan that a seed draws: mostly few nodes, now and then thousands.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let mut rng = Rng::of(seed, 4);
        let (low, high) = rng.pick(&SIZES);
        let nodes = rng.magnitude(low, high);
        let mut plan = Self::new(seed, u16::try_from(nodes).unwrap_or(2));
        plan.threads = if nodes > 200 { 1 } else { rng.pick(&[1, 2, 2, 3, 16]) };
        plan.minipages = rng.pick(&[8, 16, 48, 128]);
        plan
    }

    /// Threads of the job.
    #[must_use]
    pub fn all_threads(&self) -> u32 {
        self.threads * u32::from(self.nodes)
    }

    /// Where the minipages are: owners at random, managers by a placement drawn from the seed.
    pub(super) fn places(&self, rng: &mut Rng) -> Vec<Placed> {
        let placement = rng.pick(&[Placement::First, Placement::Spread, Placement::Allocator]);
        let nodes = self.nodes;
        (0..self.minipages)
            .map(|index| {
                let rank =
                    |number: u64| NodeId(u16::try_from(number % u64::from(nodes)).unwrap_or(0));
                let owner = rank(rng.bits());
                let manager = match placement {
                    Placement::First => NodeId(0),
                    Placement::Spread | Placement::Block => {
                        rank(u64::from(owner.0) + u64::from(index))
                    }
                    Placement::Allocator => owner,
                };
                Placed { manager, owner, bytes: rng.pick(&[8, 64, 148, 672, 4096, 65_536]) }
            })
            .collect()
    }

    /// Why this cannot be run, if it cannot.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let states = u64::from(self.nodes) * u64::from(self.minipages);
        if !(2..=MOST_NODES).contains(&self.nodes) {
            Some(format!("{} nodes: choose 2 to {MOST_NODES}", self.nodes))
        } else if !(1..=64).contains(&self.threads) {
            Some(format!("{} threads a node: choose 1 to 64", self.threads))
        } else if self.minipages < FEWEST_MINIPAGES {
            Some(format!("{} minipages: choose {FEWEST_MINIPAGES} or more", self.minipages))
        } else if states > MOST_STATES {
            Some(format!(
                "{} minipages on {} nodes: choose fewer of one, their product is at most {MOST_STATES}",
                self.minipages, self.nodes
            ))
        } else {
            None
        }
    }
}

impl fmt::Display for Deaths {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Never => "never",
            Self::Some => "some",
            Self::Always => "always",
        })
    }
}

/// The command that repeats the run.
impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, nodes, threads, minipages, virtual_ns, steps, deaths } = self;
        write!(out, "multigrain sim --seed {seed} --nodes {nodes} --hours {}", hours(*virtual_ns))?;
        if *steps != u64::MAX {
            write!(out, " --steps {steps}")?;
        }
        write!(out, " --threads {threads} --minipages {minipages} --deaths {deaths}")
    }
}

/// Nanoseconds as the hours that [`nanoseconds`] makes them of again.
fn hours(ns: u64) -> f64 {
    ns as f64 / 3.6e12
}

/// Hours as whole nanoseconds.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, as it should"
)]
pub fn nanoseconds(hours: f64) -> u64 {
    (hours * 3.6e12).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hours_a_plan_prints_are_read_back_exactly() {
        for ns in [1, 999, 1_000_000_007, 3_600_000_000_000, 123_456_789_012_345] {
            let printed = hours(ns).to_string();
            assert_eq!(nanoseconds(printed.parse().unwrap()), ns);
        }
    }
}
