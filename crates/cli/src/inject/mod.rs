//! `multigrain inject`: faults on real nodes, at random moments of real programs.
//!
//! The claim under test: whatever happens to a node, its launcher, its connections or its
//! limits, a job ends with a right result or with one clear error within seconds; it never ends with a
//! wrong result, it never hangs, and it leaves nothing behind.
//!
//! | file | part |
//! |---|---|
//! | `plan`, `fault` | one trial, all of it drawn from its seed |
//! | `apps`, `built_in` | the programs, the built-in one among them |
//! | `job`, `running` | a job under `multigrain run`, watched from outside |
//! | `apply`, `node_sockets` | applies faults to a running job |
//! | `leftovers` | what is left of a job: processes, sockets, files |
//! | `outcome` | right, error or violation: a pure function |
//! | `tally` | the table at the end |

mod apply;
mod apps;
mod built_in;
mod fault;
mod job;
mod leftovers;
mod node_sockets;
mod outcome;
mod plan;
mod running;
mod tally;

use crate::proof::Section;
use crate::series::SeriesArgs;
use anyhow::{Context, Result, ensure};
use apps::{App, Program};
use clap::{Args, Subcommand};
use fault::FaultKind;
use outcome::Outcome;
use plan::Plan;
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tally::Tally;

/// Jobs, unless another number is asked for.
const TIMES: u64 = 200;
/// Exit code where nothing could be proved, one way or the other.
const COULD_NOT: u8 = 2;

/// Runs programs as real jobs and does them harm: processes are killed and stopped, connections
/// cut, limits lowered.
///
/// Each job must end with a right result or with one clear error, within seconds, and leave
/// nothing behind. Exit code 1 if one did not; its line says how to repeat it.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct InjectArgs {
    #[command(subcommand)]
    program: Option<Built>,

    /// Directory of the C applications, where `make apps` puts them [default: a built-in program].
    #[arg(long, value_name = "DIR")]
    apps: Option<PathBuf>,

    /// Jobs to run, each with one fault [default: as many of 200 as end within a minute, and no
    /// silence, which takes half of one to be noticed].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,

    /// Seed of the first time; the next ones count up.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// This fault only [default: all in turn].
    #[arg(long, value_enum, value_name = "FAULT")]
    only: Option<FaultKind>,

    /// This application only, of those of --apps [default: all in turn].
    #[arg(long, value_enum, value_name = "NAME", requires = "apps")]
    app: Option<App>,

    /// Write the figures into this file, docs/PROOF.md of the source.
    #[arg(long, value_name = "FILE", value_parser = crate::proof::file)]
    proof: Option<PathBuf>,

    #[command(flatten)]
    series: SeriesArgs,
}

#[derive(Debug, Subcommand)]
enum Built {
    #[command(hide = true)]
    Churn(built_in::ChurnArgs),
}

/// Does all times; fails if one broke the promise.
pub(crate) fn run(args: &InjectArgs) -> ExitCode {
    if let Some(Built::Churn(args)) = &args.program {
        return built_in::run(args);
    }
    match inject(args) {
        Ok(tally) if tally.violations() == 0 => ExitCode::SUCCESS,
        Ok(tally) => {
            let (broken, times) = (tally.violations(), tally.times());
            eprintln!("multigrain: inject: {broken} of {times} broke the promise");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("multigrain: inject: {error:#}");
            ExitCode::from(COULD_NOT)
        }
    }
}

fn inject(args: &InjectArgs) -> Result<Tally> {
    leftovers::dump_no_cores()?;
    let programs = Programs::find(args)?;
    let sized = args.times.is_some() || args.proof.is_some();
    let plan = |seed| Plan::draw(seed, args.only, &programs.apps);
    let is_quick = |plan: &Plan| sized || args.only.is_some() || plan.fault.kind().is_quick();
    let seeds = args.seed..args.seed.saturating_add(args.times.unwrap_or(TIMES));
    let plans: Vec<(u64, Plan)> =
        seeds.map(|seed| (seed, plan(seed))).filter(|(_, plan)| is_quick(plan)).collect();
    let times = plans.len() as u64;
    let mut series = args.series.begin(times, sized);
    let version = env!("CARGO_PKG_VERSION");
    series.say(format_args!("multigrain {version}, {times} times from seed {}", args.seed));
    let mut usual = BTreeMap::new();
    let mut tally = Tally::default();
    // How long all have taken beyond what their faults take.
    let mut beyond = Duration::ZERO;
    for (seed, plan) in plans {
        let least = plan.fault.kind().least_time();
        let expected = expected(least, beyond, series.done());
        // A shorter one may follow.
        if !series.goes_on(format_args!("seed {seed}: {plan}"), expected) {
            continue;
        }
        let begun = series.elapsed();
        let program = programs.program(plan.app)?;
        let usual = match usual.entry(plan.app) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => *place.insert(undisturbed(&program)?),
        };
        let mut outcome = job::run(&plan, &program, usual)?;
        for sooner in [2, 4, 8, 16] {
            if outcome != (Outcome::Right { early: true }) {
                break;
            }
            outcome = job::run(&plan, &program, usual / sooner)?;
        }
        series.say(format_args!("seed {seed}: {plan}: {outcome}"));
        let broken = matches!(outcome, Outcome::Violation { .. });
        if broken {
            series.say(format_args!("  again: {}", again(args, seed)));
        }
        series.add(json!({
            "seed": seed,
            "fault": plan.fault.kind().to_string(),
            "plan": plan.to_string(),
            "outcome": outcome.to_string(),
            "broken": broken,
            "again": again(args, seed),
        }));
        beyond += (series.elapsed() - begun).saturating_sub(least);
        tally.add(plan.fault.kind(), &outcome);
    }
    ensure!(
        series.done() > 0,
        "no such job ends in so short a time: give it longer (--within), or 0 for no limit"
    );
    series.say(format_args!("\n{}", tally.text()));
    let whole = series.done() == times;
    series.end("inject", tally.violations() == 0);
    if let Some(file) = args.proof.as_ref().filter(|_| whole) {
        let (command, body) = (command_line(args, times), tally.markdown());
        Section { name: "inject", title: "Faults on real nodes", command: &command, body: &body }
            .write(file)?;
    }
    Ok(tally)
}

/// How long a job is likely to take, whose fault takes so long at least, after so many that took so long beyond theirs.
fn expected(least: Duration, beyond: Duration, done: u64) -> Duration {
    let done = u32::try_from(done).unwrap_or(u32::MAX);
    least + beyond.checked_div(done).unwrap_or_default()
}

/// How long a program takes when nothing happens to it; it must be right then.
fn undisturbed(program: &Program) -> Result<Duration> {
    let (outcome, took) = job::undisturbed(program)?;
    ensure!(
        matches!(outcome, Outcome::Right { .. }),
        "{}, undisturbed on 3 nodes: {outcome}",
        program.name()
    );
    Ok(took)
}

/// The programs to choose from.
struct Programs {
    apps: Vec<App>,
    directory: Option<PathBuf>,
}

impl Programs {
    fn find(args: &InjectArgs) -> Result<Self> {
        let apps = match (&args.apps, args.app) {
            (None, _) => vec![App::Churn],
            (Some(_), Some(app)) => vec![app],
            (Some(_), None) => App::IN_C.to_vec(),
        };
        let found = Self { apps, directory: args.apps.clone() };
        for &app in &found.apps {
            found.program(app)?;
        }
        Ok(found)
    }

    fn program(&self, app: App) -> Result<Program> {
        Program::find(app, self.directory.as_deref()).with_context(|| {
            format!("{app}: no such program; `make apps` puts the applications into build/apps")
        })
    }
}

/// The command line that repeats one time.
fn again(args: &InjectArgs, seed: u64) -> String {
    format!("multigrain inject{} --times 1 --seed {seed}", choices(args))
}

fn command_line(args: &InjectArgs, times: u64) -> String {
    format!("multigrain inject{} --times {times} --seed {}", choices(args), args.seed)
}

fn choices(args: &InjectArgs) -> String {
    let apps = args.apps.iter().map(|dir| format!(" --apps {}", dir.display()));
    let only = args.only.iter().map(|fault| format!(" --only {fault}"));
    let app = args.app.iter().map(|app| format!(" --app {app}"));
    apps.chain(only).chain(app).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_fault_says_nothing_of_how_long_others_take() {
        let seconds = Duration::from_secs;
        assert_eq!(expected(seconds(10), Duration::ZERO, 0), seconds(10));
        // After a stop of ten seconds, whose job took eleven.
        assert_eq!(expected(Duration::ZERO, seconds(1), 1), seconds(1));
        assert_eq!(expected(seconds(10), seconds(3), 3), seconds(11));
    }
}
