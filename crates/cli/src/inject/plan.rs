//! One trial, drawn from its seed: a job, a fault and a moment.

use super::apps::App;
use super::fault::{Fault, FaultKind};
use clap::ValueEnum;
use multigrain_verify::sim::rng::Rng;
use std::fmt;
use std::time::Duration;

/// One time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) app: App,
    pub(super) nodes: u32,
    pub(super) threads: u32,
    pub(super) guard: &'static str,
    pub(super) transport: &'static str,
    pub(super) fault: Fault,
    /// Of the program's usual time, in thousandths.
    moment: u32,
}

impl Plan {
    /// Faults and applications come in turn, so that every pair does; the rest is chance.
    pub(super) fn draw(seed: u64, only: Option<FaultKind>, apps: &[App]) -> Self {
        let kinds = only.map_or_else(|| FaultKind::value_variants().to_vec(), |kind| vec![kind]);
        let turn = |count: usize, turn: u64| usize::try_from(turn % count as u64).unwrap_or(0);
        let kind = kinds[turn(kinds.len(), seed)];
        let app = apps[turn(apps.len(), seed / kinds.len() as u64)];
        let mut random = Rng::new(seed);
        let nodes = 2 + random.below32(3);
        let fault = kind.draw(&mut random, nodes);
        // Unix and TCP alone, so that a seed stays the job it was. Unix sockets have no filters, and no other host.
        let tcp_alone = kind == FaultKind::Silence;
        let transport = if tcp_alone { "tcp" } else { random.pick(&["unix", "tcp"]) };
        // Some hit the start: boot and the first allocations.
        let early = random.below32(4) < if fault.hurts_early() { 3 } else { 1 };
        let moment = if early { random.below32(60) } else { random.below32(800) };
        let (threads, guard) = (1 + random.below32(2), random.pick(&["auto", "mprotect"]));
        Self { app, nodes, threads, guard, transport, fault, moment }
    }

    /// When the fault comes, of a program that usually takes so long.
    pub(super) fn moment(&self, usual: Duration) -> Duration {
        usual * self.moment / 1000
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app, nodes, threads, guard, transport, fault, moment } = self;
        write!(out, "{app}, {nodes} nodes x {threads}, {guard}, {transport}: {fault}")?;
        if fault.has_a_moment() {
            write!(out, ", after {}.{} % of its time", moment / 10, moment % 10)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_time_again_and_sixty_give_every_fault_to_every_application() {
        let draw = |seed| Plan::draw(seed, None, &App::IN_C);
        assert_eq!(draw(7), draw(7));
        let mut pairs: Vec<_> = (0..60).map(|s| (draw(s).fault.kind(), draw(s).app)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 60);
    }

    #[test]
    fn one_fault_alone_still_meets_every_application() {
        let apps = (0..6).map(|seed| Plan::draw(seed, Some(FaultKind::Cut), &App::IN_C).app);
        assert!(apps.eq(App::IN_C));
    }
}
