//! What can go wrong before or while the nodes are started, as one line for the user.

use crate::host::{BRING_LOOPBACK_UP, descriptor_limit};
use multigrain_types::exit_codes::{
    LAUNCHER_FAILED, NOT_EXECUTABLE, NOT_FOUND, SIGNALLED, TIME_OUT, WRONG_USE,
};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// How a program is said to be missing, behind its name.
pub(super) const NO_PROGRAM: &str = ": no such program";

/// One line for stderr, and an exit code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum LaunchError {
    /// No such file.
    #[error("{program}{NO_PROGRAM}{hint}")]
    NoProgram {
        /// As the user wrote it.
        program: String,
        /// Where it was looked for, and what to do.
        hint: String,
    },
    /// There is such a file, but it cannot be executed.
    #[error("{}: {why}", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: &'static str,
    },
    /// A `#!` line or a dynamic loader names a file that is missing.
    #[error("{}: the interpreter its first line or its ELF header names is missing", path.display())]
    NoInterpreter {
        /// The file.
        path: PathBuf,
    },
    /// EMFILE or ENFILE.
    #[error(
        "out of file descriptors at {what}: {nodes} nodes need about {needed}; \
         raise the limit (ulimit -n {needed}) or start fewer nodes"
    )]
    Descriptors {
        /// What was being made.
        what: String,
        /// Nodes to be started.
        nodes: u32,
        /// A limit that would do.
        needed: u64,
    },
    /// EAGAIN from fork.
    #[error(
        "cannot start node {rank}: no more processes; raise the limit (ulimit -u, or pids.max of the control group) or start fewer nodes"
    )]
    Processes {
        /// The node that could not be started.
        rank: u32,
    },
    /// EAGAIN from fork or from a thread's start.
    #[error(
        "{what}: no more processes or threads; raise the limit (ulimit -u, or pids.max of the control group)"
    )]
    Tasks {
        /// What was being made.
        what: String,
    },
    /// The loopback interface is down.
    #[error(
        "the listening socket of node {rank}: {source}; {BRING_LOOPBACK_UP}, or use --transport unix"
    )]
    Loopback {
        /// The node.
        rank: u32,
        /// The system's words.
        source: io::Error,
    },
    /// The file of `--stats` cannot be written.
    #[error("--stats {}: {source}; name a file that can be written", path.display())]
    StatsFile {
        /// As the user wrote it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The hosts of `--hosts` or `--hostfile` will not do.
    #[error("{0}")]
    Hosts(String),
    /// Something on one host of the job.
    #[error("host {host}: {why}")]
    Host {
        /// As the user wrote it.
        host: String,
        /// The exit code.
        code: u8,
        /// What is wrong and what to do.
        why: String,
    },
    /// The hosts have different programs or libraries.
    #[error("{0}")]
    Different(String),
    /// The user wants out before the nodes run.
    #[error("the job was ended by {}", super::signalfd::name(*.0))]
    Interrupted(i32),
    /// `--timeout` is over before the nodes run.
    #[error("time-out after {} s; the job ends", .0.as_secs_f64())]
    TimeOut(Duration),
    /// Options, or variables instead of them, that every node would refuse.
    #[error("{0}")]
    Refused(String),
    /// A system call that jobs need is not to be had.
    #[error(
        "{call}, which this system or a filter of it refuses: {source}; {}allow it in the container's seccomp profile",
        if *call == "pidfd_open" { "boot Linux 5.3 or newer, or " } else { "" }
    )]
    NeededCall {
        /// Its name.
        call: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Anything else the system refused.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl LaunchError {
    /// Exit code: 127, 126 and 2 as shells and `env` use them, 125 for the launcher's own failures.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::NoProgram { .. } | Self::NoInterpreter { .. } => NOT_FOUND,
            Self::NotExecutable { .. } => NOT_EXECUTABLE,
            Self::StatsFile { .. } | Self::Refused(_) | Self::Hosts(_) => WRONG_USE,
            Self::Host { code, .. } => *code,
            Self::Interrupted(signal) => {
                u8::try_from(i32::from(SIGNALLED) + signal).unwrap_or(u8::MAX)
            }
            Self::TimeOut(_) => TIME_OUT,
            Self::Different(_)
            | Self::Descriptors { .. }
            | Self::Processes { .. }
            | Self::Tasks { .. }
            | Self::Loopback { .. }
            | Self::NeededCall { .. }
            | Self::System { .. } => LAUNCHER_FAILED,
        }
    }

    /// Something on one host.
    pub(super) fn of_host(host: &str, code: u8, why: String) -> Self {
        Self::Host { host: host.to_owned(), code, why }
    }

    /// The same of a system call that a filter may refuse.
    pub(super) fn needed_call(call: &'static str, nodes: u32, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::EAGAIN) => Self::system(call, nodes, source),
            Some(_) | None => Self::NeededCall { call, source },
        }
    }

    /// The same where a node's listening socket cannot be had.
    pub(super) fn listening(rank: u32, nodes: u32, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EADDRNOTAVAIL | libc::ENETUNREACH) => Self::Loopback { rank, source },
            Some(_) | None => {
                Self::system(format!("the listening socket of node {rank}"), nodes, source)
            }
        }
    }

    /// Sorts out an error of the system; `nodes` are those that are to be started.
    pub(super) fn system(
        what: impl Into<String>,
        nodes: u32,
        source: impl Into<io::Error>,
    ) -> Self {
        let (what, source) = (what.into(), source.into());
        match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => {
                let needed = descriptor_limit::needed_by_launcher(nodes);
                Self::Descriptors { what, nodes, needed }
            }
            Some(libc::EAGAIN) => Self::Tasks { what },
            Some(_) | None => Self::System { what, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_processes_is_named() {
        for what in ["the watchdog process", "the launcher"] {
            let error = LaunchError::system(what, 2, io::Error::from_raw_os_error(libc::EAGAIN));
            let line = format!(
                "{what}: no more processes or threads; raise the limit (ulimit -u, or pids.max of the control group)"
            );
            assert_eq!((error.to_string(), error.exit_code()), (line, 125));
        }
    }
}
