//! `multigrain run`: starts the nodes of a job, on this host or on many, cares for them, and ends them all.
//!
//! The parts, in the order in which a job meets them:
//!
//! | file | part |
//! |---|---|
//! | `options`, `shares`, `slurm`, `program`, `error` | what the user says, and what is told back if it cannot be |
//! | `environment`, `listen` | what a node finds: variables and a listening socket |
//! | `signals`, `cgroup`, `warden`, `spawn`, `stdin` | processes, and that none of them is ever left over |
//! | `job`, `source`, `events` | the event loop: phases of a job, and what each event does |
//! | `control`, `output`, `writer`, `progress` | what nodes say, and how it comes out |
//! | `deadlock` | whether anything can still go on |
//! | `hosts/`, `elsewhere` | nodes on other hosts: their agents, and what the event loop does for them |
//! | `verdict` | who is to blame, and the exit code |
//! | `leftovers`, `summary`, `sharing` | the end |

mod cgroup;
mod control;
mod deadlock;
mod elsewhere;
mod environment;
mod error;
mod events;
mod hosts;
mod job;
mod leftovers;
mod listen;
mod options;
mod output;
mod program;
mod progress;
mod quantity;
mod races;
mod refused;
mod shares;
mod sharing;
mod signals;
mod slurm;
mod source;
mod spawn;
mod stdin;
mod summary;
mod verdict;
mod warden;
mod writer;

pub(crate) use hosts::serve;
pub(crate) use options::RunArgs;
pub(crate) use signals::notice_children;
pub(crate) use warden::{WardenArgs, succeed};

use cgroup::Cgroup;
use error::LaunchError;
use hosts::Start;
use job::{Job, Nodes, Settings};
use listen::Place;
use options::Transport;
use rustix::process::{
    PidfdFlags, Signal, getpid, kill_process_group, pidfd_open, set_child_subreaper,
};
use shares::Share;
use signals::{Inherited, Signals};
use slurm::Allocation;
use spawn::{Node, Plan};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use warden::Warden;

/// Runs a job to its end; the exit code is that of the job.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    abort_on_panic();
    match launch(args) {
        Ok(code) => code.into(),
        Err(error) => {
            say(&error.to_string());
            error.exit_code().into()
        }
    }
}

/// A thread that panics would leave the others waiting for it; the warden ends the job of a launcher
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
    let allocation = if args.names_hosts() { Ok(None) } else { Allocation::of_environment() };
    let allocation = allocation.map_err(LaunchError::Hosts)?;
    let shares = args.shares(allocation.as_ref()).map_err(LaunchError::Hosts)?;
    let nodes = shares.as_ref().map_or_else(|| args.nodes_here(), |shares| nodes_of(shares));
    if shares.is_none() {
        program::find(&args.command[0])?;
    }
    let stats = args.stats.as_ref().map(|path| {
        let wrap = |source| LaunchError::StatsFile { path: path.clone(), source };
        File::create(path).map_err(wrap)
    });
    let stats = stats.transpose()?;
    let refused = |what: &str, error: io::Error| LaunchError::system(what, nodes, error);
    let start = Instant::now();

    let job = environment::random_hex::<16>().map_err(|e| refused("random numbers", e))?;
    let secret = environment::random_hex::<32>().map_err(|e| refused("random numbers", e))?;
    let signals = Signals::block().map_err(|e| refused("signals", e))?;
    let own = pidfd_open(getpid(), PidfdFlags::empty()).map_err(|e| {
        refused(
            "a process descriptor (pidfd_open, which this system or a filter of it refuses)",
            e.into(),
        )
    })?;
    let group = Cgroup::new(&job);
    let mut warden = Warden::start(&format!("MULTIGRAIN_JOB={job}"), own, group.as_ref())
        .map_err(|e| refused("the warden process", e))?;
    let result = set_child_subreaper(Some(getpid()))
        .map_err(|e| refused("the child subreaper", e.into()))
        .and_then(|()| {
            let Some(shares) = &shares else {
                group.iter().for_each(Cgroup::enter);
                let nodes = start_all(args, &job, secret, (&warden, signals.before()));
                group.iter().for_each(Cgroup::leave);
                return nodes.map(Nodes::Here);
            };
            let (warden, signals, input) = (&warden, &signals, stdin::is_for_nodes());
            let (began, job) = (start, job.as_str());
            let allocation = allocation.as_ref();
            let start = Start { args, shares, allocation, job, began, warden, signals, input };
            start.run(&secret).map(Nodes::Hosts)
        })
        .and_then(|started| {
            let stderr_is_terminal = io::stderr().is_terminal();
            let settings = Settings {
                start,
                timeout: args.timeout,
                kill_after: args.kill_after,
                all_races: args.check_races == Some(options::Races::All),
                line: stderr_is_terminal,
                tagged: args.tagged(nodes),
                summary: args.summarized(stderr_is_terminal),
                stats,
                warden: &mut warden,
            };
            Job::new(settings, signals, started).map_err(|e| refused("the event loop", e))
        })
        .map(Job::run);
    if result.is_err() {
        leftovers::kill_but(warden.pid().as_slice(), Duration::from_secs(1));
    }
    warden.dismiss();
    result
}

/// Nodes of a job on many hosts.
fn nodes_of(shares: &[Share]) -> u32 {
    shares.iter().map(Share::nodes).sum()
}

/// All sockets first, then all nodes; none is left if one cannot be started.
fn start_all(
    args: &RunArgs,
    job: &str,
    secret: String,
    (warden, signals): (&Warden, Inherited),
) -> Result<Vec<Node>, LaunchError> {
    if let Err(error) = signals::fix_addresses() {
        say(&format!(
            "address randomization cannot be turned off ({error}); addresses of functions may \
             differ between the nodes"
        ));
    }
    let program = program::find(&args.command[0])?;
    let count = args.nodes_here();
    let descriptors = spawn::descriptors_of_node(spawn::raise_descriptor_limit(), count);
    let place = match args.transport {
        Some(Transport::Tcp) => Place::Tcp(Ipv4Addr::LOCALHOST.into()),
        Some(Transport::Auto | Transport::Unix) | None => Place::Unix,
    };
    let mut listeners = Vec::new();
    for rank in 0..count {
        let listener = listen::bind(place, job, rank, count);
        listeners.push(listener.map_err(|e| LaunchError::listening(rank, count, e))?);
    }
    let peers: Vec<&str> = listeners.iter().map(|listener| listener.address.as_str()).collect();
    let variables = environment::common(args, job, secret, peers.join(","));
    if let Some(why) = environment::refusal(&variables) {
        return Err(LaunchError::Refused(why));
    }
    let plan = Plan {
        nodes: count,
        program,
        command: args.command.clone(),
        variables,
        descriptors,
        signals,
    };
    let mut nodes: Vec<Node> = Vec::new();
    for (rank, listener) in (0..count).zip(listeners) {
        let stdin = stdin::for_node(rank).map_err(|error| {
            let what = format!("/dev/null, the stdin of node {rank} (is /dev mounted?)");
            LaunchError::system(what, count, error)
        });
        let node =
            stdin.and_then(|stdin| spawn::start(&plan, rank, vec![listener.fd], warden, stdin));
        match node {
            Ok(node) => nodes.push(node),
            Err(error) => {
                for node in &nodes {
                    let _ = kill_process_group(node.pid, Signal::KILL);
                }
                return Err(error);
            }
        }
    }
    Ok(nodes)
}
