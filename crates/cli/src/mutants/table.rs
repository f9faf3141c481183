//! Which tool caught which mutant, as Markdown.

use super::tool::{Tool, Verdict};
use multigrain_protocol::mutants::Row;
use std::fmt::Write;

/// What the tools said about a mutant, in the order of the tools.
#[derive(Debug)]
pub(super) struct Caught {
    pub(super) row: &'static Row,
    pub(super) verdicts: Vec<Verdict>,
}

impl Caught {
    /// Whether no tool found it.
    pub(super) fn survives(&self) -> bool {
        !self.verdicts.iter().any(Verdict::is_caught)
    }
}

/// What the file of the table begins with.
pub(super) const HEAD: &str = "\
# Seeded faults, and what catches them

Written by `make mutants`: every tool in its short form ran against every mutant. A dash: the tool
found nothing.
";

/// Longest text of a cell, in characters.
const WIDTH: usize = 90;

/// A verdict in a few words.
pub(super) fn cell(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Passed => "-".to_owned(),
        Verdict::TimedOut => "- (out of time)".to_owned(),
        Verdict::NotTried => "- (not tried)".to_owned(),
        Verdict::Hangs => "hangs".to_owned(),
        Verdict::Caught(what) if what.chars().count() > WIDTH => {
            what.chars().take(WIDTH - 1).chain(['…']).collect()
        }
        Verdict::Caught(what) => what.clone(),
    }
}

/// How many each tool caught, and which survive.
pub(super) fn summary(caught: &[Caught], tools: &[&Tool]) -> String {
    let dead = caught.iter().filter(|one| !one.survives()).count();
    let mut text = format!("{dead} of {} mutants caught", caught.len());
    for (index, tool) in tools.iter().enumerate() {
        let count = caught.iter().filter(|one| one.verdicts[index].is_caught()).count();
        let _ = write!(text, ", {count} by {}", tool.name);
    }
    for one in caught.iter().filter(|one| one.survives()) {
        let _ = write!(text, "; {} survives", one.row.name);
    }
    text
}

/// The table.
pub(super) fn markdown(caught: &[Caught], tools: &[&Tool]) -> String {
    let mut text = "| mutant | what it breaks |".to_owned();
    for tool in tools {
        let _ = write!(text, " {} |", tool.name);
    }
    text.push_str("\n|---|---|");
    text.push_str(&"---|".repeat(tools.len()));
    for Caught { row, verdicts } in caught {
        let _ = write!(text, "\n| {} | {} |", row.name, row.breaks);
        for verdict in verdicts {
            let _ = write!(text, " {} |", cell(verdict).replace('|', "/"));
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::super::tool::TOOLS;
    use super::*;
    use multigrain_protocol::mutants::MUTANTS;

    #[test]
    fn survivors_are_named_and_time_outs_are_none_of_the_dead() {
        let [check, sim, ..] = &TOOLS;
        let told = Verdict::Caught("no | deadlock".to_owned());
        let caught = [
            Caught { row: &MUTANTS[0], verdicts: vec![told, Verdict::Passed] },
            Caught { row: &MUTANTS[1], verdicts: vec![Verdict::TimedOut, Verdict::Passed] },
        ];
        assert_eq!(
            summary(&caught, &[check, sim]),
            format!("1 of 2 mutants caught, 1 by check, 0 by sim; {} survives", MUTANTS[1].name)
        );
        let text = markdown(&caught, &[check, sim]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "| mutant | what it breaks | check | sim |");
        assert!(lines[2].ends_with("| no / deadlock | - |"), "{text}");
        assert!(lines[3].ends_with("| - (out of time) | - |"), "{text}");
    }
}
