//! How this node was started, and so how it finds the others of its job: by `multigrain run`, by one of its
//! agents, or by a process manager.

use core::num::NonZeroUsize;
use std::os::fd::RawFd;
use std::time::Duration;

use multigrain_transport::{Address, Credentials, Emulation, Transport};
use multigrain_types::NodeId;
use multigrain_types::sysv::SITE_VARIABLE;
use rustix::process::Pid;

use super::limits::{BOOT_DEADLINE, BOOT_DEADLINE_FOR_EACH};
use super::variables::{Variables, descriptor, number, wrong};
use crate::error::Error;
use crate::node_programs::Programs;
use crate::secret::{self, Admission};

/// How a node joins its job; by default there is nobody to join.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Job id, shared by all nodes.
    pub job: u128,
    /// Secret of the job: a node of one has it, until it joins.
    pub secret: Option<[u8; 32]>,
    /// What it proves itself with to nodes of other hosts.
    pub credentials: Option<Credentials>,
    /// Every node's address by rank; one entry for a job of one node.
    pub peers: Vec<Address>,
    /// Which of them run which program.
    pub programs: Programs,
    /// This node's listening sockets.
    pub listen_fds: Vec<RawFd>,
    /// The launcher's end of this node's life.
    pub control_fd: Option<RawFd>,
    /// The process with which this node ends: its parent, where a process manager has started it.
    pub parent: Option<Pid>,
    /// What links lead to them.
    pub links: Links,
    /// How long this node waits for its peers at start; `None` for what the size of the job suggests.
    pub boot: Option<Duration>,
}

/// What the links of a job are.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// What makes them.
    pub transport: Transport,
    /// The network that they are to be like.
    pub emulate: Option<Emulation>,
    /// Payloads longer than so many bytes go in parts of that length, each acknowledged before the next is sent.
    pub handshake: Option<NonZeroUsize>,
}

impl Launch {
    /// The secret to join with: none of use in a job without peers.
    ///
    /// # Errors
    /// A process that has a node's environment but for the secret, which that node took out.
    pub(crate) fn secret_to_join(&self) -> Result<[u8; 32], Error> {
        match self.secret {
            Some(secret) => Ok(secret),
            None if self.peers.is_empty() => Ok([0; 32]),
            None => Err(started_by_node()),
        }
    }

    /// How long this node waits for its peers at start, of a job of so many nodes.
    pub(crate) fn boot_deadline(&self, nodes: usize) -> Duration {
        let links = nodes.saturating_mul(nodes) / 2;
        let links = u32::try_from(links).unwrap_or(u32::MAX);
        self.boot.unwrap_or(BOOT_DEADLINE + BOOT_DEADLINE_FOR_EACH * links)
    }

    /// The variables that only a launched node has.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the variable that makes no sense.
    pub(super) fn read(&mut self, rank: NodeId, variables: &Variables<'_>) -> Result<(), Error> {
        if variables.get("NODES")?.is_none() && variables.get(secret::NAME)?.is_none() {
            // All that a node of a process manager leaves.
            return Err(started_by_node());
        }
        let nodes = number("NODES", &variables.required("NODES")?, 1..=usize::from(u16::MAX))?;
        let job = variables.required("JOB")?;
        self.job = u128::from_str_radix(&job, 16).map_err(|_| wrong("JOB", &job))?;
        if let Some(fd) = variables.get(secret::NAME)? {
            let found = Admission::of_pipe(descriptor(secret::NAME, &fd)?)?;
            (self.secret, self.credentials) = (Some(found.secret), found.credentials);
        }
        let peers = variables.required("PEERS")?;
        self.peers = peers
            .split(',')
            .map(|peer| peer.parse::<Address>().map_err(|_| wrong("PEERS", peer)))
            .collect::<Result<_, _>>()?;
        if self.peers.len() != nodes || rank.index() >= nodes {
            return Err(wrong(
                "NODES",
                &format!("{nodes}, with {} peers and rank {}", self.peers.len(), rank.0),
            ));
        }
        if let Some(counts) = variables.get("PROGRAMS")? {
            let of_counts = |text: &str| {
                let counts: Result<Vec<u16>, _> = text.split(',').map(str::parse).collect();
                Programs::of_counts(&counts.ok()?)
            };
            let fits = |one: &Programs| one.nodes().is_none_or(|all| usize::from(all) == nodes);
            let programs = of_counts(&counts).filter(fits);
            self.programs = programs.ok_or_else(|| wrong("PROGRAMS", &counts))?;
        }
        if let Some(fds) = variables.get("LISTEN_FD")? {
            let fds = fds.split(',').map(|fd| descriptor("LISTEN_FD", fd));
            self.listen_fds = fds.collect::<Result<_, _>>()?;
        }
        if let Some(fd) = variables.get("CONTROL_FD")? {
            self.control_fd = Some(descriptor("CONTROL_FD", &fd)?);
        }
        Ok(())
    }
}

fn started_by_node() -> Error {
    if std::env::var_os(SITE_VARIABLE).is_some() {
        return Error::Invalid(
            "this program calls Multigrain itself, and `multigrain run --sysv` started it, which is for programs of \
             System V calls alone: start it without --sysv"
                .into(),
        );
    }
    Error::Invalid(
        "MULTIGRAIN_RANK is set but the job's secret is not: a node started this program, and only \
         `multigrain run` makes nodes; unset MULTIGRAIN_RANK to make it a job of its own"
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_its_secret_is_told_why_and_a_job_of_one_needs_none() {
        let alone = Launch::default();
        assert_eq!(alone.secret_to_join().unwrap(), [0; 32]);
        let peers = vec!["tcp:127.0.0.1:9".parse().unwrap()];
        let child = Launch { peers: peers.clone(), ..Launch::default() };
        let why = child.secret_to_join().unwrap_err().to_string();
        assert!(why.contains("a node started this program"), "{why}");
        let node = Launch { peers, secret: Some([7; 32]), ..Launch::default() };
        assert_eq!(node.secret_to_join().unwrap(), [7; 32]);
    }
}
