//! Assigns the launcher's lines to cases.

use super::plan::{Case, Variant, case_at};
use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// The reported words: by case and variant, the nodes that are said to race.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<(usize, bool), Vec<[u16; 2]>>);

impl Reports {
    /// Reads all lines about races in what the launcher said.
    ///
    /// # Errors
    /// A line about a race that does not read as one.
    pub(super) fn read(text: &str, nodes: u16) -> Result<Self> {
        let mut reports = Self::default();
        for line in text.lines().filter(|line| line.contains("race: ")) {
            let number = |before: &str| number_after(line, before).with_context(|| line.to_owned());
            let (byte, owner) = (number("(byte ")?, number(" made by node ")?);
            let racers = [number(" written by node ")?, number(" and node ")?];
            let [one, other] = racers.map(u16::try_from);
            let (case, variant) = case_at(owner, byte, nodes);
            let racers = reports.0.entry((case, variant == Variant::Twin)).or_default();
            racers.push([one?, other?]);
        }
        Ok(reports)
    }

    /// What is not as it must be.
    ///
    /// # Errors
    /// A report about no case at all.
    pub(super) fn wrong(mut self, cases: &[Case]) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            let racers = [case.early.min(case.late), case.early.max(case.late)];
            match self.0.remove(&(index, false)).as_deref() {
                Some([said]) if *said == racers => {}
                None => wrong.push(format!("missed: {case}")),
                Some(said) => wrong.push(format!("{case}: said to be of {said:?}")),
            }
            if let Some(said) = self.0.remove(&(index, true)) {
                wrong.push(format!("accused without a race: {case}, of {said:?}"));
            }
        }
        let rest = self.0.keys().next();
        rest.map_or(Ok(wrong), |(case, _)| Err(anyhow::anyhow!("there is no case {case}")))
    }
}

/// The number that follows a text, where it is followed by one.
fn number_after(line: &str, before: &str) -> Option<usize> {
    line.match_indices(before).find_map(|(at, _)| {
        let rest = &line[at + before.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::super::plan::{cases, place};
    use super::*;

    fn line(case: usize, variant: Variant, racers: [u16; 2]) -> String {
        let (owner, byte) = place(case, variant, 2);
        let [one, other] = racers;
        format!(
            "multigrain: race: 4 bytes at 0x100000000{byte:x} (byte {byte} of the allocation of 9 bytes \
             at 0x100000000000 made by node {owner} in main, a.c:3) are written by node {one} and node \
             {other} without synchronization\n"
        )
    }

    fn wrong(text: &str) -> Vec<String> {
        Reports::read(text, 2).unwrap().wrong(&cases(2)).unwrap()
    }

    #[test]
    fn missed_races_accused_twins_and_wrong_nodes_are_told() {
        let all: Vec<String> =
            (0..cases(2).len()).map(|case| line(case, Variant::Race, [0, 1])).collect();
        assert_eq!(wrong(&all.concat()), [""; 0]);
        let missed = wrong(&all[1..].concat());
        assert!(missed[0].starts_with("missed: Barrier, early node 0"), "{missed:?}");
        let accused = wrong(&(all.concat() + &line(3, Variant::Twin, [0, 1])));
        assert!(accused[0].starts_with("accused without a race: Barrier"), "{accused:?}");
        let others = wrong(&(all[1..].concat() + &line(0, Variant::Race, [1, 2])));
        assert!(others[0].contains("said to be of [[1, 2]]"), "{others:?}");
    }

    #[test]
    fn a_report_about_nothing_is_refused() {
        let none = line(5000, Variant::Race, [0, 1]);
        assert!(Reports::read(&none, 2).unwrap().wrong(&cases(2)).is_err());
        assert!(Reports::read("multigrain: race: what?", 2).is_err());
    }
}
