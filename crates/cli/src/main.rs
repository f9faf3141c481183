//! The `multigrain` command: reads the command line and calls the subcommand.
//!
//! Each subcommand is a module of its own; this file knows their names and nothing else of them.

mod bench;
mod bounds;
mod check;
mod closed_descriptors;
mod host;
mod ignored_pipes;
mod inject;
mod litmus;
mod man;
#[cfg(feature = "mutants")]
mod mutants;
mod output_errors;
mod preload;
mod proof;
mod races;
mod random;
mod run;
mod scale;
mod series;
mod sim;
mod site;
mod usage_errors;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// One memory over many processes, shared at the grain you choose.
#[derive(Debug, Parser)]
#[command(name = "multigrain", version, max_term_width = 100)]
#[command(
    after_help = "A first program: man 7 multigrain. Porting one: docs/PORTING.md beside the installed README. Slow: run --summary. Wrong: run \
                        --check-races."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunArgs>),
    Doctor(run::DoctorArgs),
    Bench(bench::BenchArgs),
    Check(check::CheckArgs),
    Sim(sim::SimArgs),
    Scale(scale::ScaleArgs),
    Litmus(litmus::LitmusArgs),
    Inject(inject::InjectArgs),
    Races(races::RacesArgs),
    Random(random::RandomArgs),
    /// Serves the launcher of a job on many hosts, which starts it.
    #[command(hide = true)]
    Agent,
    /// Says the version, as --version does.
    #[command(hide = true)]
    Version,
    #[command(hide = true)]
    Bounds(bounds::BoundsArgs),
    #[command(hide = true)]
    Site(site::SiteArgs),
    #[command(hide = true)]
    Watchdog(run::WatchdogArgs),
    #[cfg(feature = "mutants")]
    Mutants(mutants::MutantsArgs),
    #[cfg(feature = "mutants")]
    #[command(hide = true)]
    Scenes(mutants::ScenesArgs),
    /// Writes the manual pages into a directory, or what shells complete command lines by.
    #[command(hide = true)]
    Man {
        /// Writes the completions of bash, zsh and fish instead.
        #[arg(long)]
        completions: bool,
        /// Where the files go; made if it is missing.
        directory: PathBuf,
    },
}

fn main() -> ExitCode {
    usage_errors::end_without_stack();
    usage_errors::end_without_room();
    obey()
}

/// A number below 0 behind an option is its value, and not another option that nobody knows.
fn parse() -> Result<Cli, clap::Error> {
    let mut whole = Cli::command();
    let names: Vec<String> =
        whole.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        whole = whole.mut_subcommand(name, |command| {
            command.mut_args(|argument| {
                let takes_values =
                    argument.get_action().takes_values() && !argument.is_positional();
                if takes_values { argument.allow_negative_numbers(true) } else { argument }
            })
        });
    }
    let matches = whole.try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

/// Not a part of `main`, whose frame has to fit into the smallest stack.
#[inline(never)]
fn obey() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let parsed = match parse() {
        Ok(parsed) => parsed,
        Err(error) if error.kind() == ErrorKind::DisplayVersion => {
            run::notice_children();
            return output_errors::until_unprinted(version);
        }
        Err(error) => return usage_errors::end(error, &words),
    };
    let mut command = parsed.command;
    if let Command::Run(args) = &mut command {
        return run::run(args);
    }
    if let Command::Site(args) = &command {
        return site::run(args);
    }
    if let Command::Doctor(args) = &mut command {
        return run::doctor(args);
    }
    if let Command::Agent = command {
        return run::serve();
    }
    run::notice_children();
    output_errors::until_unprinted(|| start(command))
}

/// The version, and the build, which has to be the same on all hosts of a job.
fn version() -> ExitCode {
    let build = run::build().map(|build| format!(" ({build})")).unwrap_or_default();
    println!("multigrain {}{build}", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}

/// Any command; `run` sees to broken pipes itself.
fn start(command: Command) -> ExitCode {
    match command {
        Command::Run(mut args) => run::run(&mut args),
        Command::Site(args) => site::run(&args),
        Command::Doctor(mut args) => run::doctor(&mut args),
        Command::Agent => run::serve(),
        Command::Bench(args) => bench::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Scale(args) => scale::run(&args),
        Command::Litmus(args) => litmus::run(&args),
        Command::Inject(args) => inject::run(&args),
        Command::Races(args) => races::run(&args),
        Command::Random(args) => random::run(&args),
        Command::Bounds(args) => bounds::run(&args),
        Command::Watchdog(args) => run::succeed(&args),
        #[cfg(feature = "mutants")]
        Command::Mutants(args) => mutants::run(&args),
        #[cfg(feature = "mutants")]
        Command::Scenes(args) => mutants::play(&args),
        Command::Version => version(),
        Command::Man { completions, directory } => {
            let write = if completions { man::write_completions } else { man::write_pages };
            match write(&directory) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("multigrain: {error:#}");
                    ExitCode::FAILURE
                }
            }
        }
    }
}
