//! One time, drawn from its seed: a job, a fault and a moment.

use super::apps::App;
use super::fault::{Fault, Strike};
use clap::ValueEnum;
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
    pub(super) strike: Strike,
    /// Of the program's usual time, in thousandths.
    moment: u32,
}

impl Plan {
    /// Faults and applications come in turn, so that every pair does; the rest is chance.
    pub(super) fn draw(seed: u64, only: Option<Fault>, apps: &[App]) -> Self {
        let faults = only.map_or_else(|| Fault::value_variants().to_vec(), |fault| vec![fault]);
        let turn = |count: usize, turn: u64| usize::try_from(turn % count as u64).unwrap_or(0);
        let fault = faults[turn(faults.len(), seed)];
        let app = apps[turn(apps.len(), seed / faults.len() as u64)];
        let mut dice = Dice(seed);
        let nodes = 2 + dice.below(3);
        let strike = fault.draw(&mut dice, nodes);
        // Unix sockets have no filters, and no other host.
        let tcp_alone = fault == Fault::Silence;
        let transport = if tcp_alone { "tcp" } else { dice.pick(&["unix", "tcp"]) };
        // Some hit the start: boot and the first allocations.
        let early = dice.below(4) < if strike.hurts_early() { 3 } else { 1 };
        let moment = if early { dice.below(60) } else { dice.below(800) };
        let (threads, guard) = (1 + dice.below(2), dice.pick(&["auto", "mprotect"]));
        Self { app, nodes, threads, guard, transport, strike, moment }
    }

    /// When the fault comes, of a program that usually takes so long.
    pub(super) fn moment(&self, usual: Duration) -> Duration {
        usual * self.moment / 1000
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app, nodes, threads, guard, transport, strike, moment } = self;
        write!(out, "{app}, {nodes} nodes x {threads}, {guard}, {transport}: {strike}")?;
        if strike.has_a_moment() {
            write!(out, ", after {}.{} % of its time", moment / 10, moment % 10)?;
        }
        Ok(())
    }
}

/// Random numbers (SplitMix64).
pub(super) struct Dice(u64);

impl Dice {
    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(end)).unwrap_or(0)
    }

    /// One of them.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(u32::try_from(of.len()).unwrap_or(1)) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_time_again_and_sixty_give_every_fault_to_every_application() {
        let draw = |seed| Plan::draw(seed, None, &App::IN_C);
        assert_eq!(draw(7), draw(7));
        let mut pairs: Vec<_> = (0..60).map(|s| (draw(s).strike.fault(), draw(s).app)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 60);
    }

    #[test]
    fn one_fault_alone_still_meets_every_application() {
        let apps = (0..6).map(|seed| Plan::draw(seed, Some(Fault::Cut), &App::IN_C).app);
        assert!(apps.eq(App::IN_C));
    }
}
