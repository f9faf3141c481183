//! The table of faults and outcomes.

use super::fault::FaultKind;
use super::outcome::Outcome;
use std::collections::BTreeMap;
use std::time::Duration;

/// Outcomes, by fault.
#[derive(Debug, Default)]
pub(super) struct Tally(BTreeMap<FaultKind, Row>);

#[derive(Debug, Default)]
struct Row {
    right: u64,
    early: u64,
    errors: u64,
    slowest: Duration,
    not_here: u64,
    violations: u64,
}

const HEAD: [&str; 8] = [
    "fault",
    "times",
    "right result",
    "before the fault",
    "one clear error",
    "slowest error, s",
    "not possible here",
    "broken promises",
];

impl Tally {
    /// One more time.
    pub(super) fn add(&mut self, kind: FaultKind, outcome: &Outcome) {
        let row = self.0.entry(kind).or_default();
        match outcome {
            Outcome::Right { early: false } => row.right += 1,
            Outcome::Right { early: true } => row.early += 1,
            Outcome::Error { within, .. } => {
                row.errors += 1;
                row.slowest = row.slowest.max(*within);
            }
            Outcome::NotHere { .. } => row.not_here += 1,
            Outcome::Violation { .. } => row.violations += 1,
        }
    }

    /// All times.
    pub(super) fn times(&self) -> u64 {
        self.0.values().map(Row::times).sum()
    }

    /// Times that broke the promise.
    pub(super) fn violations(&self) -> u64 {
        self.0.values().map(|row| row.violations).sum()
    }

    /// For the terminal.
    pub(super) fn text(&self) -> String {
        let rows = self.rows();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let line = |row: &[String; 8]| {
            let cells = row.iter().enumerate().map(|(column, cell)| match column {
                0 => format!("{cell:<0$}", width(column)),
                _ => format!("{cell:>0$}", width(column)),
            });
            cells.collect::<Vec<_>>().join("  ")
        };
        rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// For docs/PROOF.md.
    pub(super) fn markdown(&self) -> String {
        let mut lines: Vec<String> =
            self.rows().iter().map(|row| format!("| {} |", row.join(" | "))).collect();
        lines.insert(1, format!("|---|{}", "---:|".repeat(HEAD.len() - 1)));
        lines.join("\n")
    }

    fn rows(&self) -> Vec<[String; 8]> {
        let mut all = Row::default();
        let mut rows = vec![HEAD.map(str::to_owned)];
        for (kind, row) in &self.0 {
            rows.push(row.cells(&kind.to_string()));
            all.right += row.right;
            all.early += row.early;
            all.errors += row.errors;
            all.slowest = all.slowest.max(row.slowest);
            all.not_here += row.not_here;
            all.violations += row.violations;
        }
        rows.push(all.cells("all"));
        rows
    }
}

impl Row {
    fn times(&self) -> u64 {
        self.right + self.early + self.errors + self.not_here + self.violations
    }

    fn cells(&self, name: &str) -> [String; 8] {
        let slowest = match self.errors {
            0 => "-".to_owned(),
            _ => format!("{:.2}", self.slowest.as_secs_f64()),
        };
        let [times, right, early, errors, not_here, violations] =
            [self.times(), self.right, self.early, self.errors, self.not_here, self.violations]
                .map(|count| count.to_string());
        [name.to_owned(), times, right, early, errors, slowest, not_here, violations]
    }
}
