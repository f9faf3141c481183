//! A host, as its agent finds it and prepares it for the nodes: directory, program, addresses, sockets.

use super::super::super::cgroup::Cgroup;
use super::super::super::listen::{self, Listener, Place};
use super::super::super::signals::{self, Signals};
use super::super::super::spawn::{self, Node, Plan};
use super::super::frame::{Found, Job};
use super::*;
use multigrain_transport::interfaces::Whereabouts;
use rustix::process::{PidfdFlags, Rlimit, kill_process_group, pidfd_open};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::IpAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The variable that marks the processes of an agent, where several have the same machine.
const PART: &str = "MULTIGRAIN_PART";

/// What an agent cannot do: the launcher's exit code, and why.
type Refusal = (u8, String);

/// The host of an agent that knows its job.
pub(super) struct Site {
    job: Job,
    program: PathBuf,
    warden: Warden,
    group: Option<Cgroup>,
    descriptors: Rlimit,
    /// By rank, until the nodes have them.
    listeners: Vec<Vec<Listener>>,
}

fn refused(what: &str) -> impl FnOnce(io::Error) -> Refusal + '_ {
    move |error| (REFUSED, format!("{what}: {error}"))
}

impl Site {
    /// Goes to the launcher's directory, and finds out what the launcher has to know.
    pub(super) fn look(job: Job) -> Result<(Self, Found), Refusal> {
        let directory = Path::new(OsStr::from_bytes(&job.directory));
        std::env::set_current_dir(directory).map_err(|error| {
            let help = "start the job in a directory that all hosts have";
            (REFUSED, format!("{}: {error}; {help}", directory.display()))
        })?;
        fix_addresses()?;
        let name = job.command.first().map(Vec::as_slice).unwrap_or_default();
        let program = program::find(OsStr::from_bytes(name));
        let program = program.map_err(|error| (error.exit_code(), error.to_string()))?;
        let what = program.display().to_string();
        let files = builds::of_program(&program, &job.variables).map_err(refused(&what))?;
        let found = Found {
            whereabouts: Whereabouts::of_this_host().map_err(refused("the network interfaces"))?,
            files,
        };
        let own = pidfd_open(getpid(), PidfdFlags::empty());
        let own =
            own.map_err(|error| refused("a process descriptor (pidfd_open)")(error.into()))?;
        let part = part_of(&job);
        let group = Cgroup::new(&part);
        let warden = Warden::start(&format!("{PART}={part}"), own, group.as_ref());
        let warden = warden.map_err(refused("the warden process"))?;
        set_child_subreaper(Some(getpid()))
            .map_err(|error| refused("the child subreaper")(error.into()))?;
        let descriptors = spawn::descriptors_of_node(spawn::raise_descriptor_limit(), job.nodes);
        let listeners = Vec::new();
        Ok((Self { job, program, warden, group, descriptors, listeners }, found))
    }

    pub(super) fn warden(&self) -> &Warden {
        &self.warden
    }

    /// Binds the sockets of its nodes: their addresses for neighbours, and for nodes of other hosts.
    pub(super) fn bind(
        &mut self,
        unix: bool,
        tcp: Option<IpAddr>,
    ) -> Result<(Vec<String>, Vec<String>), Refusal> {
        let places = unix.then_some(Place::Unix).into_iter().chain(tcp.map(Place::Tcp));
        let places: Vec<Place> = places.collect();
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for rank in self.job.first..self.job.end {
            let bind = |place: &Place| listen::bind(*place, &self.job.id, rank, self.job.nodes);
            let bound = places.iter().map(bind).collect::<io::Result<Vec<Listener>>>();
            let what = match tcp {
                Some(address) => format!("the listening socket of node {rank} at {address}"),
                None => format!("the listening socket of node {rank}"),
            };
            let bound = bound.map_err(refused(&what))?;
            near.extend(bound.first().map(|listener| listener.address.clone()));
            far.extend(bound.last().map(|listener| listener.address.clone()));
            self.listeners.push(bound);
        }
        Ok((near, far))
    }

    /// Starts its nodes; none is left if one cannot be started.
    pub(super) fn start(
        &mut self,
        peers: &[String],
        secret: String,
        signals: &Signals,
    ) -> Result<Vec<(u32, Node)>, Refusal> {
        let job = &self.job;
        let contract = [
            ("MULTIGRAIN_NODES", job.nodes.to_string()),
            ("MULTIGRAIN_JOB", job.id.clone()),
            (PART, part_of(job)),
            ("MULTIGRAIN_SECRET", secret),
            ("MULTIGRAIN_PEERS", peers.join(",")),
        ];
        let contract = contract.map(|(name, value)| (name.to_owned(), value));
        let plan = Plan {
            nodes: job.nodes,
            program: self.program.clone(),
            command: job.command.iter().cloned().map(OsString::from_vec).collect(),
            variables: job.variables.iter().cloned().chain(contract).collect(),
            descriptors: self.descriptors,
            signals: signals.before(),
        };
        self.group.iter().for_each(Cgroup::enter);
        let ranks = job.first..job.end;
        let mut nodes: Vec<(u32, Node)> = Vec::new();
        let mut failed = None;
        for (rank, listeners) in ranks.zip(std::mem::take(&mut self.listeners)) {
            match start_one(&plan, rank, listeners, &self.warden, job.input && rank == 0) {
                Ok(node) => nodes.push((rank, node)),
                Err(refusal) => {
                    failed = Some(refusal);
                    break;
                }
            }
        }
        self.group.iter().for_each(Cgroup::leave);
        let Some(refusal) = failed else { return Ok(nodes) };
        for (_, node) in &nodes {
            let _ = kill_process_group(node.pid, Signal::KILL);
        }
        Err(refusal)
    }

    /// All is over.
    pub(super) fn leave(self) {
        self.warden.dismiss();
    }
}

/// The agent's part of the job, in a word.
fn part_of(job: &Job) -> String {
    format!("{}-{}", job.id, job.first)
}

fn start_one(
    plan: &Plan,
    rank: u32,
    listeners: Vec<Listener>,
    warden: &Warden,
    input: bool,
) -> Result<Node, Refusal> {
    let stdin = match input {
        true => Stdio::piped(),
        false => File::open("/dev/null").map_err(refused("/dev/null"))?.into(),
    };
    let sockets = listeners.into_iter().map(|listener| listener.fd).collect();
    spawn::start(plan, rank, sockets, warden, stdin)
        .map_err(|error| (error.exit_code(), error.to_string()))
}

/// The addresses of functions are those of all other hosts, or nothing runs here.
fn fix_addresses() -> Result<(), Refusal> {
    let Err(error) = signals::fix_addresses() else { return Ok(()) };
    let randomized = fs::read_to_string("/proc/sys/kernel/randomize_va_space");
    if randomized.is_ok_and(|level| level.trim() == "0") {
        return Ok(());
    }
    let why = format!(
        "address randomization cannot be turned off ({error}), and functions would lie elsewhere \
         than on other hosts; allow personality(2), or set kernel.randomize_va_space to 0"
    );
    Err((REFUSED, why))
}
