//! `multigrain check`: the model checker over the protocol as it runs in the nodes.
//!
//! The tables of checked jobs are those of `multigrain_verify::check` and `::release`; this file
//! chooses rows, prints the result of each, and writes the figures.
//!
//! | file | part |
//! |---|---|
//! | `row` | a row of either table, and its result |

mod row;

use crate::proof::{self, Section};
use crate::series::{Series, SeriesArgs};
use anyhow::Result;
use clap::Args;
use multigrain_verify::check::Form;
use multigrain_verify::check::Report;
use row::Row;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Model-checks the protocols: all interleavings of small programs on 1 to 4 nodes.
///
/// Names that begin with eager/, lazy/, tracked/, auto/, ahead/, mixed/, starts/ and trees/ are jobs on release
/// consistent memory, or of threads that start others. Exits with 1 if a property does not hold, or
/// if a configuration has another number of states than the source says.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Configurations to check: their names, or beginnings of them; all if none is given.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Checks the big configurations too; minutes.
    #[arg(long)]
    long: bool,
    /// Lists the configurations and their numbers of states; checks nothing.
    #[arg(long, conflicts_with = "json")]
    list: bool,
    /// Takes the smallest configurations first, and ends with the first property that does not hold.
    #[arg(long)]
    first: bool,
    /// Writes the figures into this file, docs/PROOF.md of the source.
    #[arg(long, value_name = "FILE", value_parser = proof::file, conflicts_with_all = ["names", "first", "list"])]
    proof: Option<PathBuf>,
    #[command(flatten)]
    series: SeriesArgs,
}

pub(crate) fn run(args: &CheckArgs) -> ExitCode {
    let form = if args.long { Form::Long } else { Form::Short };
    let mut rows = row::rows(form);
    let matches = |row: &Row, name: &String| row.name().starts_with(name.as_str());
    if let Some(name) = args.names.iter().find(|name| !rows.iter().any(|row| matches(row, name))) {
        eprintln!(
            "multigrain: check: no configuration begins with {name}; multigrain check --list{} has them",
            if args.long { " --long" } else { "" }
        );
        return ExitCode::from(2);
    }
    rows.retain(|row| args.names.is_empty() || args.names.iter().any(|name| matches(row, name)));
    if args.list {
        rows.iter().for_each(|row| println!("{:50} {:>9} states", row.name(), row.states()));
        return ExitCode::SUCCESS;
    }
    let sized = !args.names.is_empty() || args.long || args.first || args.proof.is_some();
    if args.first || !sized {
        rows.sort_by_key(Row::states);
    }
    let mut series = args.series.begin(rows.len() as u64, sized);
    let (reports, wrong) = check_all(&rows, args.first, &mut series);
    let elapsed = series.elapsed();
    series.say(totals(&reports, elapsed));
    let whole = series.done() == rows.len() as u64;
    series.end("check", wrong == 0);
    if wrong > 0 {
        eprintln!("multigrain: check: {wrong} of {} configurations do not hold", reports.len());
        return ExitCode::FAILURE;
    }
    if !whole {
        return ExitCode::SUCCESS;
    }
    match write_proof(args, &reports, elapsed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("multigrain: check: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Checks and prints one after the other; also says how many are not as they should be.
fn check_all(rows: &[Row], until_first: bool, series: &mut Series) -> (Vec<Report>, usize) {
    let mut reports = Vec::new();
    let mut wrong = 0;
    let mut states = 0;
    for row in rows {
        // The next one takes as long a state as those before.
        let expected = match states {
            0 => Duration::ZERO,
            _ => series.elapsed().mul_f64(row.states() as f64 / states as f64),
        };
        if !series.goes_on(row.name(), expected) {
            break;
        }
        states += row.states();
        let report = row.check();
        series.say(line(&report));
        wrong += usize::from(!report.is_clean());
        if let Some(counterexample) = &report.counterexample {
            series.say(counterexample.to_string().trim_end());
        } else if !report.is_clean() {
            series.say(format_args!(
                "every property holds, but there are {} states and the source says {}",
                report.states, report.expected
            ));
        }
        series.add(result(&report));
        let found = report.counterexample.is_some();
        reports.push(report);
        if found && until_first {
            break;
        }
    }
    (reports, wrong)
}

fn result(report: &Report) -> Value {
    json!({
        "name": report.name,
        "states": report.states,
        "expected": report.expected,
        "depth": report.depth,
        "outcomes": report.outcomes,
        "seconds": report.elapsed.as_secs_f64(),
        "holds": report.is_clean(),
        "counterexample": report.counterexample.as_ref().map(ToString::to_string),
    })
}

fn line(report: &Report) -> String {
    let outcomes = match report.outcomes {
        0 => String::new(),
        outcomes => format!("{outcomes} outcomes"),
    };
    format!(
        "{:50} {:>9} states  depth {:>3}  {outcomes:12} {:>6.2} s  {}",
        report.name,
        report.states,
        report.depth,
        report.elapsed.as_secs_f64(),
        if report.is_clean() { "holds" } else { "FAILS" },
    )
}

/// All figures in one line.
fn totals(reports: &[Report], elapsed: Duration) -> String {
    let states: usize = reports.iter().map(|report| report.states).sum();
    let outcomes: usize = reports.iter().map(|report| report.outcomes).sum();
    let largest = reports.iter().max_by_key(|report| report.states);
    let depth = reports.iter().map(|report| report.depth).max().unwrap_or(0);
    format!(
        "{} configurations, {states} states, {outcomes} litmus outcomes, depth up to {depth}, \
         {:.1} s; the largest is {} with {} states",
        reports.len(),
        elapsed.as_secs_f64(),
        largest.map_or("none", |report| report.name),
        largest.map_or(0, |report| report.states),
    )
}

fn write_proof(args: &CheckArgs, reports: &[Report], elapsed: Duration) -> Result<()> {
    let Some(file) = &args.proof else { return Ok(()) };
    let mut body = format!(
        "{}.\n\nEvery state of each has a single writer or many readers, no stale copy, a copyset \
         that covers all holders, bounded queues, locks and barriers that hold; none is a deadlock, \
         and from each the programs can end. Litmus tests end with the outcomes of sequential \
         consistency, all of them and no others. On release consistent memory (eager/, lazy/, tracked/, auto/, \
         ahead/, mixed/, starts/, trees/) every read returns the last write that happens before it, page tables and twins \
         agree with the engines, queues are bounded, and at the end nothing is owed and every home \
         is current.\n\n\
         | configuration | states | depth | outcomes |\n|---|--:|--:|--:|\n",
        totals(reports, elapsed)
    );
    for Report { name, states, depth, outcomes, .. } in reports {
        let outcomes = if *outcomes == 0 { String::new() } else { outcomes.to_string() };
        let _ = writeln!(body, "| {name} | {states} | {depth} | {outcomes} |");
    }
    let command = if args.long { "multigrain check --long" } else { "multigrain check" };
    Section { name: "check", title: "Model checker", command, body: &body }.write(file)
}
