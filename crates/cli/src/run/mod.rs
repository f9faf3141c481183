//! `multigrain run`: starts the nodes of a job, on this host or on many, watches them, and ends them all.
//!
//! The parts, in the order in which a job meets them:
//!
//! | file | part |
//! |---|---|
//! | `options`, `apps`, `hostfile`, `slurm`, `program`, `executable`, `elf`, `quantity`, `error` | what the user asks for, and the error if it cannot be done |
//! | `environment`, `variables`, `listen` | what a node starts with: variables and listening sockets |
//! | `signalfd`, `node_signals`, `containment`, `needed_calls`, `cgroup`, `watchdog`, `agent_pipes`, `agent_chunks`, `spawn`, `stdin` | processes, and that none of them is left over |
//! | `phase`, `escalation`, `job`, `event_source`, `events`, `interrupts` | the table of a job's phases; the event loop: what each event does, the user's interrupts |
//! | `control`, `output`, `writer`, `progress` | messages and output of nodes, and how they are printed |
//! | `reports`: `deadlock`, `refused_connections`, `races` | what nodes report: deadlocks, refused connections, races |
//! | `hosts/`, `remote_nodes`, `remote_output` | nodes on other hosts: their agents, what the event loop does for them, and what they write |
//! | `sites`, `site_usage` | nodes that are sites of plain programs (`--sysv`), and what the summary says of their objects |
//! | `doctor`, `program_check` | whether hosts meet the needs of a job, and the program |
//! | `facts`, `successors`, `verdict`, `memory_kills` | what is known of the nodes; those that are another process than was started; who is to blame, and the exit code |
//! | `leftovers`, `summary`, `false_sharing` | the end |

mod agent_chunks;
mod agent_pipes;
mod apps;
mod cgroup;
mod containment;
mod control;
mod deadlock;
mod doctor;
mod elf;
mod environment;
mod error;
mod escalation;
mod event_source;
mod events;
mod executable;
mod facts;
mod false_sharing;
mod hostfile;
mod hosts;
mod interrupts;
mod job;
mod leftovers;
mod listen;
mod memory_kills;
mod needed_calls;
mod node_signals;
mod options;
mod output;
mod phase;
mod program;
mod program_check;
mod progress;
mod quantity;
mod races;
mod refused_connections;
mod remote_nodes;
mod remote_output;
mod reports;
mod signalfd;
mod site_usage;
mod sites;
mod slurm;
mod spawn;
mod stdin;
mod successors;
mod summary;
mod variables;
mod verdict;
mod watchdog;
mod writer;

pub(crate) use doctor::{DoctorArgs, doctor};
pub(crate) use hosts::{build, serve};
pub(crate) use options::{RunArgs, SegmentCompression};
pub(crate) use signalfd::notice_children;
pub(crate) use watchdog::{WatchdogArgs, succeed};

use crate::host::{self, descriptor_limit};
use apps::App;
use containment::Containment;
use error::LaunchError;
use hostfile::Share;
use hosts::{LaunchContext, Start};
use job::{Job, Limits, Nodes, Settings};
use listen::ListenAt;
use memory_kills::MemoryKills;
use multigrain_transport::AddressKind;
use multigrain_types::exit_codes::NOT_FOUND;
use rustix::fs::{Mode, OFlags};
use signalfd::{Inherited, Signals};
use spawn::{Node, Plan, Program};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use watchdog::Ward;

/// How long nodes of a small job may take to come up, if the user does not say.
const BOOT_WAIT: Duration = Duration::from_secs(30);
/// How long what nodes have left may take to call mg_init, if the program is not known to call it.
const LEFT_WAIT: Duration = Duration::from_secs(1);

/// Runs a job to its end; the exit code is that of the job.
pub(crate) fn run(args: &mut RunArgs) -> ExitCode {
    abort_on_panic();
    variables::started_several_times(|name| std::env::var(name).ok())
        .iter()
        .for_each(|line| say(line));
    let begins = args.take_variables().and_then(|()| sites::as_sites(args));
    match begins.and_then(|()| launch(args)) {
        Ok(code) => code.into(),
        Err(error) => {
            let code = error.exit_code();
            let meant = args.value_in_place_of_program().filter(|_| code == NOT_FOUND);
            let meant = meant.map(|option| format!("; {option} may be meant, without a space"));
            say(&format!("{error}{}", meant.unwrap_or_default()));
            code.into()
        }
    }
}

/// A thread that panics would leave the others waiting for it; the watchdog ends the job of a launcher
/// that aborts. Without a backtrace: short of memory, the standard library may wait for itself there.
fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic.payload_as_str().unwrap_or("a panic");
        let _ = writeln!(io::stderr(), "multigrain: internal error: {what}; the job ends");
        std::process::abort();
    }));
}

/// One line on stderr, for when there is no writer; a closed stderr is no reason to panic.
fn say(text: &str) {
    // One write, for a line that is whole whoever else writes there.
    let _ = io::stderr().write_all(format!("multigrain: {text}\n").as_bytes());
}

fn launch(args: &RunArgs) -> Result<u8, LaunchError> {
    let place = &args.place;
    let allocation = place.allocation().map_err(LaunchError::Hosts)?;
    let shares = place.shares(allocation.as_ref(), args.limits.timeout);
    let shares = shares.map_err(LaunchError::Hosts)?;
    let apps = apps::split(place.nodes_here(), &args.command).map_err(LaunchError::Refused)?;
    let nodes = shares.as_ref().map_or_else(|| apps::nodes(&apps), |shares| nodes_of(shares));
    match &shares {
        None => apps.iter().try_for_each(|app| program::find(&app.command[0]).map(drop))?,
        Some(_) if apps.len() > 1 => {
            let why = "several programs run on this host alone: leave out --hosts and --hostfile (and Slurm's allocation)";
            return Err(LaunchError::Refused(why.into()));
        }
        Some(_) => {}
    }
    let stats = args.output.stats.as_ref().map(|path| {
        let wrap = |source| LaunchError::StatsFile { path: path.clone(), source };
        create(path).map_err(wrap)
    });
    let stats = stats.transpose()?;
    let refused = |what: &str, error: io::Error| LaunchError::system(what, nodes, error);
    let start = Instant::now();

    let job = environment::random_hex::<16>().map_err(|e| refused("random numbers", e))?;
    let secret = environment::random_hex::<32>().map_err(|e| refused("random numbers", e))?;
    let credentials = environment::credentials(args.encrypts(shares.is_some()), &job, nodes);
    let credentials = credentials.map_err(|e| refused("certificates", e))?;
    let memory_kills = MemoryKills::so_far();
    let signals = Signals::block().map_err(|e| refused("signals", e))?;
    let mut containment =
        Containment::take(Ward::Launcher, &job, &format!("MULTIGRAIN_JOB={job}"), nodes)?;
    let started = match &shares {
        None => {
            start_here((args, &apps), &job, (secret, credentials), &containment, signals.before())
                .map(Nodes::Here)
        }
        Some(shares) => {
            let (watchdog, signals, input) =
                (containment.watchdog(), &signals, stdin::is_for_nodes());
            let (began, timeout, allocation) = (start, args.limits.timeout, allocation.as_ref());
            let context = LaunchContext {
                place,
                shares,
                passed: &args.env,
                allocation,
                began,
                timeout,
                watchdog,
                signals,
            };
            let start = Start { context, args, job: job.as_str(), input };
            start.run(&secret, &credentials).map(Nodes::Hosts)
        }
    };
    let result = started
        .and_then(|started| {
            let stderr_is_terminal = io::stderr().is_terminal();
            let settings = Settings {
                start,
                limits: Limits {
                    timeout: args.limits.timeout,
                    kill_after: args.limits.kill_after,
                    join_wait: join_wait(args, &apps),
                },
                races: environment::race_check(args),
                line: stderr_is_terminal,
                tagged: args.tagged(nodes),
                summary: args.summarized(stderr_is_terminal),
                stats,
                program: match &*apps {
                    [app] => program::find(&app.command[0]).ok(),
                    _ => None,
                },
                memory_kills,
                watchdog: containment.watchdog_mut(),
            };
            Job::new(settings, signals, started).map_err(|e| refused("the launcher", e))
        })
        .map(Job::run);
    if result.is_err() {
        leftovers::kill_but(containment.watchdog().pid().as_slice(), Duration::from_secs(1));
    }
    containment.end();
    result
}

/// How long processes that nodes have left may take to call mg_init, of which nobody knows that they will: as long as
/// nodes may take to come up, if the program is known to call it.
fn join_wait(args: &RunArgs, apps: &[App]) -> Duration {
    let program = |app: &App| program::find(&app.command[0]).ok();
    match apps.iter().filter_map(program).any(|file| elf::is_linked_with_us(&file)) {
        true => args.place.boot_timeout.unwrap_or(BOOT_WAIT),
        false => LEFT_WAIT,
    }
}

/// Nodes of a job on many hosts.
fn nodes_of(shares: &[Share]) -> u32 {
    shares.iter().map(Share::nodes).sum()
}

/// All sockets first, then all nodes; none is left if one cannot be started.
fn start_here(
    (args, apps): (&RunArgs, &[App]),
    job: &str,
    (secret, credentials): (String, Vec<String>),
    containment: &Containment,
    signals: Inherited,
) -> Result<Vec<Node>, LaunchError> {
    if let Some((found, _)) = host::fix_addresses().err().as_ref().and_then(host::randomized) {
        say(&format!("{found}; {}", host::ELSEWHERE));
    }
    let nodes = apps::nodes(apps);
    let mut programs = Vec::new();
    let mut end = 0;
    for App { nodes, command } in apps {
        end += nodes;
        let file = program::find(&command[0])?;
        programs.push(Program { end, file, command: command.clone() });
    }
    let descriptors = descriptor_limit::of_node(descriptor_limit::raise(), nodes);
    let transport = args.links.transport();
    let at = match transport.uses(AddressKind::Unix) {
        true => ListenAt::Unix,
        false => ListenAt::Tcp(Ipv4Addr::LOCALHOST.into(), args.place.ports),
    };
    let listeners = listen::bind_all(transport, &[at], job, 0..nodes, nodes)
        .map_err(|(rank, error)| LaunchError::listening(rank, nodes, error))?;
    let peers: Vec<&str> = listeners.iter().flatten().map(|one| one.address.as_str()).collect();
    let chosen = environment::chosen(args);
    let variables = environment::common(chosen, nodes, job, &peers, &apps::counts(apps));
    if let Some(why) = environment::refusal(&variables) {
        return Err(LaunchError::Refused(why));
    }
    let plan = Plan {
        ranks: 0..nodes,
        programs,
        variables,
        secret,
        credentials,
        descriptors,
        signals,
        own_sessions: false,
    };
    spawn::start_all(&plan, listeners, containment, stdin::for_node)
}

/// A file to write to. A pipe that nobody reads is none: to wait for who might would last for ever.
fn create(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let file = rustix::fs::open(path, flags | OFlags::NONBLOCK, mode)?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(File::from(file))
}
