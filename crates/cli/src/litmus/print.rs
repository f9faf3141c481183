//! Printed results: histograms in the form of litmus7, a summary, a table for docs/PROOF.md.

use super::catalog::TESTS;
use super::outcomes::{Tally, Verdicts};
use super::plan::{Placement, name_of};
use super::program::Rule;
use core::fmt::Write;
use serde_json::{Value, json};
use std::time::Duration;

/// `--list`
pub(super) fn list() {
    for test in TESTS {
        println!("{:<16} {} threads: {}", test.name, test.threads.len(), test.about);
    }
}

/// A histogram for each test and placement.
///
/// A state is marked `*>` if it is the one asked for, `:>` if not, `!>` if it is never allowed.
pub(super) fn histograms(verdicts: &Verdicts) -> String {
    verdicts.tallies().iter().map(histogram).collect()
}

fn histogram(tally: &Tally) -> String {
    let Tally { test, states, allowed, moves, .. } = tally;
    let (name, placement) = (test.name, name_of(&tally.placement));
    let (kind, quantifier) = match test.rule {
        Rule::Only(_) => ("Required", "forall"),
        Rule::Machine if tally.allows() => ("Allowed", "exists"),
        Rule::Machine => ("Forbidden", "~exists"),
    };
    let mut text = format!("Test {name} {kind} ({placement})\n");
    let (seen, of) = (states.len(), allowed.len());
    let _ = writeln!(text, "Histogram ({seen} states, {of} allowed)");
    for (state, count) in states {
        let mark = match (allowed.contains(state), test.is_witness(state)) {
            (false, _) => "!>",
            (true, true) => "*>",
            (true, false) => ":>",
        };
        let _ = writeln!(text, "{count:<8}{mark}{}", test.show(state));
    }
    let positive = tally.witnesses();
    let negative = tally.rounds - positive;
    let verdict = if tally.forbidden == 0 { "Ok" } else { "No" };
    let observation = match (positive, negative) {
        (0, _) => "Never",
        (_, 0) => "Always",
        _ => "Sometimes",
    };
    let condition = test.condition().replacen("exists", quantifier, 1);
    let _ = write!(
        text,
        "{verdict}\n\nWitnesses\nPositive: {positive}, Negative: {negative}\n\
         Condition {condition}\nObservation {name} {observation} {positive} {negative}\n\
         Moves {name} {} faults, {} invalidations in {} runs\n\n",
        moves.faults, moves.invalidations, tally.runs
    );
    text
}

/// A test in one placement, for programs.
pub(super) fn result(tally: &Tally) -> Value {
    let outcome = |(state, count): (&Vec<u64>, &u64)| {
        json!({
            "state": tally.test.show(state),
            "count": count,
            "allowed": tally.allowed.contains(state),
        })
    };
    json!({
        "test": tally.test.name,
        "placement": name_of(&tally.placement),
        "runs": tally.runs,
        "rounds": tally.rounds,
        "outcomes": tally.states.iter().map(outcome).collect::<Vec<_>>(),
        "allowed_outcomes": tally.allowed.len(),
        "forbidden": tally.forbidden,
        "faults": tally.moves.faults,
    })
}

/// One line.
pub(super) fn summary(verdicts: &Verdicts, took: Duration) -> String {
    let sum = |of: fn(&Tally) -> u64| verdicts.tallies().iter().map(of).sum::<u64>();
    format!(
        "{} runs, {} rounds, {} faults in them, {} forbidden outcomes, {} s\n",
        sum(|tally| tally.runs),
        sum(|tally| tally.rounds),
        sum(|tally| tally.moves.faults),
        sum(|tally| tally.forbidden),
        took.as_secs()
    )
}

/// The table, and how to read it.
pub(super) fn proof(verdicts: &Verdicts, configurations: usize, took: Duration) -> String {
    let mut text = format!(
        "In {configurations} configurations of guard, transport and manager, with four nodes: {}\n\
         For each placement of the threads: outcomes seen / allowed, and how often the outcome came \
         that the test asks for (for the locks and the seqlock: the right one), in parentheses \
         where it is allowed. Faults are those of the rounds alone.\n\n\
         | test | runs | rounds | faults | one node | mixed | own nodes | forbidden |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
        summary(verdicts, took)
    );
    for test in TESTS {
        let of = |tally: &&Tally| core::ptr::eq(tally.test, test);
        let tallies: Vec<&Tally> = verdicts.tallies().iter().filter(of).collect();
        if tallies.is_empty() {
            continue;
        }
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(|tally| of(tally)).sum::<u64>();
        let cell = |placement| {
            let tally = tallies.iter().find(|tally| tally.placement == placement);
            tally.map_or_else(|| "-".to_owned(), |tally| outcomes(tally))
        };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            test.name,
            sum(|tally| tally.runs),
            sum(|tally| tally.rounds),
            sum(|tally| tally.moves.faults),
            cell(Placement::One),
            cell(Placement::Mixed),
            cell(Placement::Own),
            sum(|tally| tally.forbidden)
        );
    }
    text
}

fn outcomes(tally: &Tally) -> String {
    let (seen, allowed, witnesses) = (tally.states.len(), tally.allowed.len(), tally.witnesses());
    if tally.allows() {
        format!("{seen}/{allowed} ({witnesses})")
    } else {
        format!("{seen}/{allowed} {witnesses}")
    }
}
