//! `multigrain inject`: faults on real nodes, at random moments of real programs.
//!
//! What is put to the test: whatever happens to a node, its launcher, its connections or its
//! limits, a job ends with a right result or with one clear error within seconds; never with a
//! wrong result, never not at all, and nothing of it is left behind.
//!
//! | file | part |
//! |---|---|
//! | `plan`, `fault` | what one time consists of, all of it drawn from its seed |
//! | `apps`, `churn` | the programs, the built-in one among them |
//! | `job` | a job under `multigrain run`, watched from outside |
//! | `strike`, `links` | the faults themselves |
//! | `traces` | what is left of a job: processes, sockets, files |
//! | `judge` | right, error or violation: a pure function |
//! | `tally` | the table at the end |

mod apps;
mod churn;
mod fault;
mod job;
mod judge;
mod links;
mod plan;
mod random_source;
mod running;
mod strike;
mod tally;
mod traces;

use crate::proof::Section;
use anyhow::{Context, Result, ensure};
use apps::{App, Program};
use clap::{Args, Subcommand};
use fault::Fault;
use judge::Outcome;
use plan::Plan;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tally::Tally;

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

    /// Jobs to run, each with one fault.
    #[arg(long, value_name = "N", default_value_t = 200,
          value_parser = clap::value_parser!(u64).range(1..))]
    times: u64,

    /// Seed of the first time; the next ones count up.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// This fault only [default: all in turn].
    #[arg(long, value_enum, value_name = "FAULT")]
    only: Option<Fault>,

    /// This application only [default: all in turn].
    #[arg(long, value_enum, value_name = "NAME", requires = "apps")]
    app: Option<App>,

    /// Write the figures into this file, docs/PROOF.md of the source.
    #[arg(long, value_name = "FILE")]
    proof: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Built {
    #[command(hide = true)]
    Churn(churn::ChurnArgs),
}

/// Does all times; fails if one broke the promise.
pub(crate) fn run(args: &InjectArgs) -> ExitCode {
    if let Some(Built::Churn(args)) = &args.program {
        return churn::run(args);
    }
    match inject(args) {
        Ok(tally) if tally.violations() == 0 => ExitCode::SUCCESS,
        Ok(tally) => {
            eprintln!(
                "multigrain: inject: {} of {} broke the promise",
                tally.violations(),
                args.times
            );
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("multigrain: inject: {error:#}");
            ExitCode::from(COULD_NOT)
        }
    }
}

fn inject(args: &InjectArgs) -> Result<Tally> {
    traces::dump_no_cores()?;
    let programs = Programs::find(args)?;
    println!(
        "multigrain {}, {} times from seed {}",
        env!("CARGO_PKG_VERSION"),
        args.times,
        args.seed
    );
    let mut usual = BTreeMap::new();
    let mut tally = Tally::default();
    for seed in args.seed..args.seed.saturating_add(args.times) {
        let plan = Plan::draw(seed, args.only, &programs.apps);
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
        println!("seed {seed}: {plan}: {outcome}");
        if let Outcome::Violation { .. } = outcome {
            println!("  again: {}", again(args, seed));
        }
        tally.add(plan.strike.fault(), &outcome);
    }
    println!("\n{}", tally.text());
    if let Some(file) = &args.proof {
        let (command, body) = (command_line(args), tally.markdown());
        Section { name: "inject", title: "Faults on real nodes", command: &command, body: &body }
            .write(file)?;
    }
    Ok(tally)
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

fn command_line(args: &InjectArgs) -> String {
    format!("multigrain inject{} --times {} --seed {}", choices(args), args.times, args.seed)
}

fn choices(args: &InjectArgs) -> String {
    let apps = args.apps.iter().map(|dir| format!(" --apps {}", dir.display()));
    let only = args.only.iter().map(|fault| format!(" --only {fault}"));
    let app = args.app.iter().map(|app| format!(" --app {app}"));
    apps.chain(only).chain(app).collect()
}
