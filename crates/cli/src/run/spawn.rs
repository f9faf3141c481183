//! Starts one node: a process group of its own, its sockets and pipes, and a leash to the launcher.
#![expect(unsafe_code, reason = "CommandExt::pre_exec is unsafe")]

use super::error::LaunchError;
use super::signals::Inherited;
use super::warden::{self, Warden};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, getppid, getrlimit, pidfd_open,
    set_parent_process_death_signal, setrlimit, setsid,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Descriptors that a node and its program are left with, beside one a link.
const DESCRIPTORS_BESIDE_LINKS: u64 = 256;

/// The variable that a node takes out of its environment with the secret.
const CREDENTIALS: &str = "MULTIGRAIN_CREDENTIALS";

/// What all nodes of a job have in common.
pub(super) struct Plan {
    /// Nodes in the job.
    pub(super) nodes: u32,
    /// The file to execute.
    pub(super) program: PathBuf,
    /// The command line, the program's name as the user wrote it first.
    pub(super) command: Vec<OsString>,
    /// Variables beyond the launcher's own environment.
    pub(super) variables: Vec<(String, String)>,
    /// What nodes prove themselves with, by rank, if they are to.
    pub(super) credentials: BTreeMap<u32, String>,
    /// The user's limit of descriptors, which the nodes get back.
    pub(super) descriptors: Rlimit,
    /// And what signals did to the user.
    pub(super) signals: Inherited,
}

/// A started node, as who started it holds it: this end of its control channel and of its pipes.
pub(super) struct Node {
    pub(super) pid: Pid,
    /// Readable once the process is dead.
    pub(super) pidfd: OwnedFd,
    pub(super) control: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// The other end of the node's stdin, if that is a pipe.
    pub(super) stdin: Option<OwnedFd>,
}

/// Lets the launcher open as many descriptors as it may; returns the limit as it was.
pub(super) fn raise_descriptor_limit() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // Where this fails, the launch itself says so, when it runs out.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    before
}

/// The limit of descriptors of each of so many nodes: the user's, and more where the links alone need more.
pub(super) fn descriptors_of_node(user: Rlimit, nodes: u32) -> Rlimit {
    let needed = u64::from(nodes) + DESCRIPTORS_BESIDE_LINKS;
    let enough = |limit: u64| user.maximum.map_or(limit, |most| limit.min(most));
    Rlimit { current: user.current.map(|limit| limit.max(enough(needed))), ..user }
}

/// Starts node `rank`; its listening sockets are closed here and open there afterwards.
pub(super) fn start(
    plan: &Plan,
    rank: u32,
    listeners: Vec<OwnedFd>,
    warden: &Warden,
    stdin: Stdio,
) -> Result<Node, LaunchError> {
    let at = |what: &str| format!("node {rank}: {what}");
    let refused = |what: &str, error: io::Error| LaunchError::system(at(what), plan.nodes, error);

    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| refused("the control channel", error.into()))?;
    let enrolment = warden.enrolment().map_err(|error| refused("the control channel", error))?;

    let mut command = Command::new(&plan.program);
    let mut words = plan.command.iter();
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words).process_group(0);
    command.envs(plan.variables.iter().map(|(name, value)| (name, value)));
    command.env("MULTIGRAIN_RANK", rank.to_string());
    let numbers: Vec<String> = listeners.iter().map(|fd| fd.as_raw_fd().to_string()).collect();
    command.env("MULTIGRAIN_LISTEN_FD", numbers.join(","));
    command.env("MULTIGRAIN_CONTROL_FD", theirs.as_raw_fd().to_string());
    match plan.credentials.get(&rank) {
        Some(own) => command.env(CREDENTIALS, own),
        None => command.env_remove(CREDENTIALS),
    };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let own = listeners.into_iter().chain([theirs]).collect();
    leash(&mut command, own, enrolment, (plan.descriptors, plan.signals));
    let mut child = command.spawn().map_err(|error| spawn_error(plan, rank, error))?;

    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    let adopted = match pidfd {
        Ok(pidfd) => adopt(&mut child, pidfd, ours).map_err(|error| refused("its pipes", error)),
        Err(error) => Err(refused("its process descriptor (pidfd_open)", error.into())),
    };
    if adopted.is_err() {
        // Nobody else knows of this child yet.
        let _ = child.kill();
        let _ = child.wait();
    }
    adopted
}

/// Makes a command of the launcher itself end with it: in a session of its own, so that nothing typed at the
/// terminal reaches it, and it asks for nothing there.
pub(super) fn leash_helper(command: &mut Command, enrolment: OwnedFd, signals: Inherited) {
    let launcher = getpid();
    let prepare = move || {
        setsid()?;
        end_with(launcher)?;
        warden::enroll(&enrolment)?;
        signals.restore()
    };
    // SAFETY: `prepare` makes system calls only, through rustix and libc, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// From now on this process is killed when its parent, the launcher, dies.
fn end_with(launcher: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid() != Some(launcher) {
        // It died before the line above; a signal for that will never come.
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(())
}

/// What happens in the child between fork and exec. Only system calls: no memory is allocated.
fn leash(
    command: &mut Command,
    own: Vec<OwnedFd>,
    enrolment: OwnedFd,
    (descriptors, signals): (Rlimit, Inherited),
) {
    let launcher = getpid();
    let prepare = move || {
        end_with(launcher)?;
        warden::enroll(&enrolment)?;
        signals.restore()?;
        for fd in &own {
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        setrlimit(Resource::Nofile, descriptors)?;
        Ok(())
    };
    // SAFETY: `prepare` makes system calls only, through rustix and libc, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

fn adopt(child: &mut Child, pidfd: OwnedFd, control: OwnedFd) -> io::Result<Node> {
    let missing = || io::Error::from_raw_os_error(libc::EBADF);
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    Ok(Node {
        pid: Pid::from_child(child),
        pidfd,
        control,
        stdout: stdout.into(),
        stderr: stderr.into(),
        stdin: child.stdin.take().map(OwnedFd::from),
    })
}

fn spawn_error(plan: &Plan, rank: u32, error: io::Error) -> LaunchError {
    let path = plan.program.clone();
    match error.raw_os_error() {
        Some(libc::EAGAIN) => LaunchError::Processes { rank },
        Some(libc::ENOENT) => LaunchError::NoInterpreter { path },
        Some(libc::ENOEXEC) => LaunchError::NotExecutable {
            path,
            why: "is no program this system can run; a script needs a first line such as #!/bin/sh",
        },
        Some(libc::EACCES | libc::EPERM) => {
            LaunchError::NotExecutable { path, why: "the system forbids to execute it" }
        }
        Some(libc::E2BIG) => LaunchError::NotExecutable {
            path,
            why: "its arguments and environment are too long; pass less",
        },
        Some(_) | None => LaunchError::system(format!("node {rank}"), plan.nodes, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_keep_the_users_limit_unless_their_links_alone_need_more() {
        let limit = |current, maximum| Rlimit { current, maximum };
        let of = |current, maximum, nodes| descriptors_of_node(limit(current, maximum), nodes);
        assert_eq!(of(Some(1024), Some(4096), 16).current, Some(1024));
        assert_eq!(of(Some(1024), Some(4096), 1024).current, Some(1280));
        assert_eq!(of(Some(1024), None, 1024).current, Some(1280));
        assert_eq!(of(Some(1024), Some(1100), 1024).current, Some(1100));
        assert_eq!(of(None, None, 1024).current, None);
    }
}
