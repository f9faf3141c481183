//! Compares observed outcomes with those the machine allows, and adds them up by test and placement.

use super::job::{Moves, Record};
use super::machine::{Machine, Outcomes};
use super::plan::{Configuration, Layout, Placement, Run};
use super::program::{Rule, Test};
use std::collections::{BTreeMap, HashMap};

/// All runs of a test in one placement, over layouts and configurations.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) test: &'static Test,
    pub(super) placement: Placement,
    pub(super) runs: u64,
    pub(super) rounds: u64,
    pub(super) states: BTreeMap<Vec<u64>, u64>,
    /// What any of its runs may show; each run is judged by its own.
    pub(super) allowed: Outcomes,
    /// How often an outcome came where it was not allowed.
    pub(super) forbidden: u64,
    pub(super) moves: Moves,
}

impl Tally {
    /// How often the outcome came that the test asks for.
    pub(super) fn witnesses(&self) -> u64 {
        let asked = self.states.iter().filter(|(state, _)| self.test.is_witness(state));
        asked.map(|(_, count)| count).sum()
    }

    /// Whether the outcome that the test asks for is allowed.
    pub(super) fn allows(&self) -> bool {
        self.allowed.iter().any(|outcome| self.test.is_witness(outcome))
    }
}

impl Moves {
    /// Why the run has shown nothing, if it has not: between nodes contents have to move.
    fn nothing(self, run: &Run) -> Option<&'static str> {
        if run.placement == Placement::One {
            None
        } else if run.locked {
            // Under lazy release a home that only reads keeps what it has; a writer traps.
            (self.faults == 0).then_some("no access ever trapped")
        } else {
            (self.invalidations == 0).then_some("no copy was ever withdrawn")
        }
    }
}

/// What is known about a command's runs.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    tallies: Vec<Tally>,
    allowed: HashMap<(&'static str, &'static [usize], bool), Outcomes>,
    wrong: bool,
}

impl Verdicts {
    /// Judges a run: a line for each thing that should not be.
    pub(super) fn add(
        &mut self,
        configuration: Configuration,
        run: &Run,
        record: &Record,
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let allowed = self.allowed(run);
        let test = run.test;
        let known = self
            .tallies
            .iter()
            .position(|tally| core::ptr::eq(tally.test, test) && tally.placement == run.placement);
        let place = known.unwrap_or_else(|| {
            self.tallies.push(Tally {
                test,
                placement: run.placement,
                runs: 0,
                rounds: 0,
                states: BTreeMap::new(),
                allowed: Outcomes::new(),
                forbidden: 0,
                moves: Moves::default(),
            });
            self.tallies.len() - 1
        });
        let tally = &mut self.tallies[place];
        tally.runs += 1;
        tally.rounds += record.rounds;
        tally.moves += record.moves;
        for (state, count) in &record.states {
            *tally.states.entry(state.clone()).or_default() += count;
            if !allowed.contains(state) {
                tally.forbidden += count;
                let (name, state, rounds) = (test.name, test.show(state), record.rounds);
                wrong.push(format!(
                    "{name}: forbidden outcome {state} {count} times in {rounds} rounds: \
                     {configuration} {run}"
                ));
            }
        }
        tally.allowed.extend(allowed);
        if let Some(what) = record.moves.nothing(run) {
            let name = test.name;
            wrong.push(format!("{name}: {what}: {configuration} {run}"));
        }
        self.wrong |= !wrong.is_empty();
        wrong
    }

    /// In the order in which they ran.
    pub(super) fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// Whether there was anything that should not be.
    pub(super) fn wrong(&self) -> bool {
        self.wrong
    }

    fn allowed(&mut self, run: &Run) -> Outcomes {
        let (test, one_minipage) = (run.test, run.layout == Layout::Minipage);
        // Critical sections are interleaved, whatever the node: as on nodes of their own.
        let own: &'static [usize] = &[0, 1, 2, 3];
        let nodes = if run.locked { &own[..test.threads.len()] } else { run.nodes };
        let explore = || match test.rule {
            Rule::Only(outcome) => Outcomes::from([outcome.to_vec()]),
            Rule::Machine => Machine { test, nodes, one_minipage }.outcomes(),
        };
        self.allowed.entry((test.name, nodes, one_minipage)).or_insert_with(explore).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::named;
    use super::super::plan::{Guard, Manager, Transport};
    use super::*;

    fn judged(name: &str, placement: Placement, state: &[u64], invalidations: u64) -> Vec<String> {
        let test = named(name).unwrap();
        let nodes: &[usize] = if placement == Placement::One { &[0, 0] } else { &[0, 1] };
        let run = Run { test, layout: Layout::Page, placement, nodes, batches: 1, locked: false };
        let moves = Moves { faults: 5, invalidations };
        let record = Record { rounds: 32, states: vec![(state.to_vec(), 32)], moves };
        let (guard, transport, manager) = (Guard::Uffd, Transport::Tcp, Manager::Spread);
        let mut verdicts = Verdicts::default();
        let wrong = verdicts.add(Configuration { guard, transport, manager }, &run, &record);
        assert_eq!(verdicts.wrong(), !wrong.is_empty());
        let [tally] = verdicts.tallies() else { panic!("one tally") };
        assert_eq!(tally.allows(), placement == Placement::One || name == "Peterson");
        wrong
    }

    #[test]
    fn a_store_may_be_seen_late_on_its_node_and_nowhere_else() {
        assert!(judged("SB", Placement::One, &[0, 0], 0).is_empty());
        assert_eq!(
            judged("SB", Placement::Own, &[0, 0], 9),
            ["SB: forbidden outcome 0:r0=0; 1:r0=0; 32 times in 32 rounds: --guard uffd \
              --transport tcp --manager spread --layout page --placement own (nodes 0,1)"]
        );
    }

    #[test]
    fn a_run_between_nodes_that_withdrew_no_copy_has_shown_nothing() {
        let still = judged("MP", Placement::Own, &[0, 0], 0);
        assert_eq!(still.len(), 1);
        assert!(still[0].starts_with("MP: no copy was ever withdrawn: "), "{still:?}");
    }

    #[test]
    fn a_program_with_loops_has_one_right_outcome() {
        let right = super::super::locks::TWO;
        assert!(judged("Peterson", Placement::Own, right, 1).is_empty());
        let mut lost = right.to_vec();
        lost[4] -= 1;
        assert_eq!(judged("Peterson", Placement::Own, &lost, 1).len(), 1);
    }
}
