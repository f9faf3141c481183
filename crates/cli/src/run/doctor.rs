//! `multigrain doctor`: whether the hosts meet the needs of a job, and what to change if not.

use super::containment::Containment;
use super::error::LaunchError;
use super::hostfile::Share;
use super::hosts::{Findings, LaunchContext, examine};
use super::options::{PlaceArgs, Variable, parse_variable};
use super::program_check::{self, CHECK};
use super::say;
use super::signalfd::Signals;
use super::slurm::Allocation;
use super::watchdog::Ward;
use super::{abort_on_panic, environment, variables};
use crate::host::{self, Finding, Level, Needs};
use crate::output_errors;
use clap::Args;
use multigrain_runtime::Config;
use multigrain_types::exit_codes::PREVENTED;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Checks this host, or all hosts of a job, and says what to change.
///
/// Looks at what a job needs: the kernel, memory and how accesses to it are noticed, limits, addresses, processors,
/// the network; with `--hosts` or `--hostfile`, or in an allocation of Slurm, on every host, by agents such as
/// `multigrain run` starts, and whether the hosts can be reached, and have the same time, multigrain and program. Each of
/// these agents listens at one port as a node would (of `--ports`, or any), and connects to those of all others (of
/// more than 64 hosts, to those of the next host and of the first); what is not answered in 2 seconds is a finding.
///
/// One line a finding: what there is, what it keeps from working, and what mends it. Exits with 0 if the job could
/// run, with 78 if something would prevent it.
#[derive(Debug, Args)]
#[command(after_help = "Example: multigrain doctor --hosts a:2,b:2 -t 8 ./app")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Says also what is as it should be.
    #[arg(short, long)]
    verbose: bool,

    /// Says everything as one JSON object.
    #[arg(long)]
    json: bool,

    /// Looks also at what `multigrain run --sysv` needs.
    #[arg(long)]
    sysv: bool,

    /// Gives the program a variable, as `multigrain run` would: LD_LIBRARY_PATH, for one. May be repeated.
    #[arg(short = 'x', long = "env", value_name = "VAR[=VALUE]", value_parser = parse_variable)]
    env: Vec<Variable>,

    /// The program of the job, which all hosts should have alike; its arguments are not looked at.
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    command: Vec<PathBuf>,
}

/// Checks, and says what was found.
pub(crate) fn doctor(args: &mut DoctorArgs) -> ExitCode {
    abort_on_panic();
    let begins = variables::look_at(&args.env).and_then(|()| args.place.take_variables(true));
    let said = begins.and_then(|()| look(args)).map(|findings| {
        let text = if args.json { as_json(&findings) } else { as_text(&findings, args.verbose) };
        let prevented = worst(&findings) == Level::Prevents;
        let code = ExitCode::from(if prevented { PREVENTED } else { 0 });
        let mut stdout = io::stdout();
        output_errors::or_lost(
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()),
            code,
        )
    });
    said.unwrap_or_else(|error| {
        say(&error.to_string());
        error.exit_code().into()
    })
}

fn look(args: &DoctorArgs) -> Result<Findings, LaunchError> {
    let place = &args.place;
    let config = Config::of_job(&|name| std::env::var_os(name));
    let config = config.map_err(|error| LaunchError::Refused(error.to_string()))?;
    let allocation = place.allocation().map_err(LaunchError::Hosts)?;
    let shares = place.shares(allocation.as_ref(), None).map_err(LaunchError::Hosts)?;
    let far = shares.as_ref().is_some_and(|shares| shares.len() > 1);
    let nodes = |shares: &[Share]| shares.iter().map(Share::nodes).sum();
    let all = shares.as_deref().map_or_else(|| place.nodes_here(), nodes);
    let by_agent = shares.is_some();
    let needs = |here| Needs {
        nodes: all,
        here,
        by_agent,
        threads: place.threads.unwrap_or(config.threads),
        shared_bytes: place.shared.unwrap_or(config.memory.shared_bytes),
        far,
        ports: place.ports,
        sysv: args.sysv,
    };
    let Some(shares) = shares else {
        let mut findings = host::examine(&needs(all));
        if let Some(program) = args.command.first() {
            let variables = environment::passed(&args.env);
            match program_check::check(program.as_os_str(), &variables, args.sysv) {
                Ok((_, remarks)) if remarks.is_empty() => {
                    findings.push(Finding::fine(CHECK, "can be executed"));
                }
                Ok((_, remarks)) => findings.extend(remarks),
                Err(why) => {
                    let (found, remedy) = why.rsplit_once("; ").unwrap_or((&why, ""));
                    findings.push(Finding::prevents(CHECK, found, "no node can start", remedy));
                }
            }
        }
        return Ok(vec![("this host".to_owned(), findings)]);
    };
    examine_hosts(args, (&shares, allocation.as_ref()), |share| needs(share.nodes()))
}

/// Like the start of a job, as far as its agents.
fn examine_hosts(
    args: &DoctorArgs,
    (shares, allocation): (&[Share], Option<&Allocation>),
    needs: impl Fn(&Share) -> Needs,
) -> Result<Findings, LaunchError> {
    let hosts = u32::try_from(shares.len()).unwrap_or(u32::MAX);
    let refused = |what: &str, error: io::Error| LaunchError::system(what, hosts, error);
    let job = environment::random_hex::<16>().map_err(|e| refused("random numbers", e))?;
    let signals = Signals::block().map_err(|e| refused("signals", e))?;
    let containment =
        Containment::take(Ward::Launcher, &job, &format!("MULTIGRAIN_JOB={job}"), hosts)?;
    let context = LaunchContext {
        place: &args.place,
        shares,
        passed: &args.env,
        allocation,
        began: Instant::now(),
        timeout: None,
        watchdog: containment.watchdog(),
        signals: &signals,
    };
    let result = examine(&context, needs, args.command.first().map(PathBuf::as_path));
    containment.end();
    result
}

fn worst(findings: &Findings) -> Level {
    let levels = findings.iter().flat_map(|(_, of)| of).map(Finding::level);
    levels.max().unwrap_or(Level::Fine)
}

fn as_text(findings: &Findings, verbose: bool) -> String {
    let mut text = String::new();
    let mut counts = [0; 2];
    for (host, of) in findings {
        for finding in of {
            let mark = match finding.level() {
                Level::Fine if !verbose => continue,
                Level::Fine => "fine:    ",
                Level::Limits => "limits:  ",
                Level::Prevents => "prevents:",
            };
            counts[0] += usize::from(finding.level() == Level::Limits);
            counts[1] += usize::from(finding.level() == Level::Prevents);
            text += &format!("{mark} {host}: {finding}\n");
        }
    }
    let checks: usize = findings.iter().map(|(_, of)| of.len()).sum();
    let verdict = match counts {
        [0, 0] => "all is well".to_owned(),
        [limits, 0] => format!("the job can run; findings that limit it: {limits}"),
        [_, prevents] => format!("the job cannot run; findings that prevent it: {prevents}"),
    };
    text + &format!("hosts: {}, checks: {checks}; {verdict}\n", findings.len())
}

fn as_json(findings: &Findings) -> String {
    let hosts = findings.iter().map(|(host, of)| json!({ "host": host, "findings": of }));
    let hosts: Vec<_> = hosts.collect();
    let runs = worst(findings) != Level::Prevents;
    format!("{}\n", json!({ "command": "doctor", "runs": runs, "hosts": hosts }))
}
