//! The start of nodes on a host, by its agent: directory, program, addresses and sockets first, then the nodes.

use super::super::super::containment::Containment;
use super::super::super::environment;
use super::super::super::error::LaunchError;
use super::super::super::listen::{self, ListenAt, Listener};
use super::super::super::memory_kills::MemoryKills;
use super::super::super::signalfd::Signals;
use super::super::super::sites;
use super::super::super::spawn::{self, Node, Plan, Program};
use super::super::super::stdin;
use super::super::super::watchdog::Watchdog;
use super::super::messages::{Found, JobDescription, PART};
use super::*;
use crate::host::{self, descriptor_limit};
use multigrain_transport::interfaces::HostAddresses;
use multigrain_transport::{Ports, Transport};
use rustix::process::{Rlimit, set_parent_process_death_signal};
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What an agent cannot do: the launcher's exit code, and why.
type Refusal = (u8, String);

/// The host of an agent that knows its job: whatever becomes of the agent from now on, nothing of it stays.
pub(super) struct Contained {
    job: JobDescription,
    containment: Containment,
}

/// The same once the agent has looked at it.
pub(super) struct LocalNodes {
    job: JobDescription,
    program: PathBuf,
    containment: Containment,
    descriptors: Rlimit,
    memory_kills: MemoryKills,
    /// By rank, until the nodes have them.
    listeners: Vec<Vec<Listener>>,
}

/// What a launcher would tell its user.
fn refusal(error: LaunchError) -> Refusal {
    (error.exit_code(), error.to_string())
}

fn refused(what: &str) -> impl FnOnce(io::Error) -> Refusal + '_ {
    move |error| (LAUNCHER_FAILED, format!("{what}: {error}"))
}

impl Contained {
    /// To be called while this process has one thread.
    pub(super) fn new(job: JobDescription) -> Result<Self, Refusal> {
        let containment = Containment::take(Ward::Agent, &job.part(), &job.mark(), job.nodes);
        let containment = containment.map_err(refusal)?;
        // Its watchdog ends it from now on if it has to be.
        let _ = set_parent_process_death_signal(None);
        Ok(Self { job, containment })
    }

    /// Goes to the launcher's directory, and finds out what the launcher has to know.
    pub(super) fn look(self) -> Result<(LocalNodes, Found), Refusal> {
        let Self { job, containment } = self;
        let directory = Path::new(OsStr::from_bytes(&job.directory));
        std::env::set_current_dir(directory).map_err(|error| {
            let help = "start the job in a directory that all hosts have";
            (LAUNCHER_FAILED, format!("{}: {error}; {help}", directory.display()))
        })?;
        fix_addresses()?;
        let name = job.command.first().map(Vec::as_slice).unwrap_or_default();
        let program = program::find(OsStr::from_bytes(name));
        let program = program.map_err(refusal)?;
        sites::check_site(&job.command).map_err(refusal)?;
        let what = program.display().to_string();
        let files = builds::of_program(&program, &job.variables).map_err(refused(&what))?;
        let found = Found {
            addresses: HostAddresses::of_this_host().map_err(refused("the network interfaces"))?,
            files,
            group: containment.group().map(|group| group.display().to_string()),
        };
        let descriptors = descriptor_limit::of_node(descriptor_limit::raise(), job.nodes);
        let listeners = Vec::new();
        let memory_kills = MemoryKills::so_far();
        let local = LocalNodes { job, program, containment, descriptors, memory_kills, listeners };
        Ok((local, found))
    }
}

impl LocalNodes {
    /// What all processes of its part carry in their environment.
    pub(super) fn mark(&self) -> String {
        self.job.mark()
    }

    /// What has counted processes that the system killed for want of memory since the nodes were started.
    pub(super) fn memory_kills(&self) -> Option<String> {
        self.memory_kills.file()
    }

    pub(super) fn watchdog(&self) -> &Watchdog {
        self.containment.watchdog()
    }

    pub(super) fn watchdog_mut(&mut self) -> &mut Watchdog {
        self.containment.watchdog_mut()
    }

    /// Binds the sockets of its nodes: their addresses for neighbours, and for nodes of other hosts.
    pub(super) fn bind(
        &mut self,
        transport: Transport,
        unix: bool,
        tcp: Option<IpAddr>,
        ports: Option<Ports>,
    ) -> Result<(Vec<String>, Vec<String>), Refusal> {
        let places = unix
            .then_some(ListenAt::Unix)
            .into_iter()
            .chain(tcp.map(|at| ListenAt::Tcp(at, ports)));
        let places: Vec<ListenAt> = places.collect();
        let job = &self.job;
        let bound = listen::bind_all(transport, &places, &job.id, job.first..job.end, job.nodes);
        self.listeners = bound.map_err(|(rank, error)| {
            let at = tcp.map(|address| format!(" at {address}")).unwrap_or_default();
            refused(&format!("the listening socket of node {rank}{at}"))(error)
        })?;
        let address = |listener: Option<&Listener>| listener.map(|one| one.address.clone());
        let near = self.listeners.iter().filter_map(|of_node| address(of_node.first())).collect();
        let far = self.listeners.iter().filter_map(|of_node| address(of_node.last())).collect();
        Ok((near, far))
    }

    /// Starts its nodes; none is left if one cannot be started.
    pub(super) fn start(
        &mut self,
        peers: &[String],
        (secret, credentials): (String, Vec<String>),
        signals: &Signals,
    ) -> Result<Vec<Node>, Refusal> {
        let job = &self.job;
        let part = (PART.to_owned(), job.part());
        let chosen = job.variables.iter().cloned().chain([part]);
        let plan = Plan {
            ranks: job.first..job.end,
            programs: vec![Program {
                end: job.end,
                file: self.program.clone(),
                command: job.command.iter().cloned().map(OsString::from_vec).collect(),
            }],
            variables: environment::common(
                chosen,
                job.nodes,
                &job.id,
                peers,
                &job.nodes.to_string(),
            ),
            secret,
            credentials,
            descriptors: self.descriptors,
            signals: signals.before(),
            own_sessions: true,
        };
        let stdin = |rank| if job.input && rank == 0 { Ok(Stdio::piped()) } else { stdin::none() };
        let listeners = std::mem::take(&mut self.listeners);
        spawn::start_all(&plan, listeners, &self.containment, stdin).map_err(refusal)
    }

    /// All is over.
    pub(super) fn leave(self) {
        self.containment.end();
    }
}

/// The addresses of functions are those of all other hosts, or nothing runs here.
fn fix_addresses() -> Result<(), Refusal> {
    let Err(error) = host::fix_addresses() else { return Ok(()) };
    host::randomized(&error).map_or(Ok(()), |(found, remedy)| {
        let limits = "functions would lie elsewhere than on other hosts";
        Err((LAUNCHER_FAILED, format!("{found}, and {limits}; {remedy}")))
    })
}
