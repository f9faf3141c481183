//! Starts nodes, for the launcher and for the agent of a host. Each node is a process group of its own, with its
//! sockets and pipes, and dies when the process that started it does (`tie_to_launcher`).
#![expect(unsafe_code, reason = "CommandExt::pre_exec is unsafe")]

use super::containment::Containment;
use super::error::LaunchError;
use super::listen::Listener;
use super::signalfd::Inherited;
use super::watchdog::{self, Watchdog};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, getppid, kill_process_group, pidfd_open,
    set_parent_process_death_signal, setrlimit, setsid,
};
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The nodes to start, and what they have in common.
pub(super) struct Plan {
    /// Those to start here.
    pub(super) ranks: Range<u32>,
    /// What they run, in the order of their ranks.
    pub(super) programs: Vec<Program>,
    /// Variables beyond the launcher's own environment.
    pub(super) variables: Vec<(String, String)>,
    /// The secret of the job.
    pub(super) secret: String,
    /// What each of them proves itself with, if they are to.
    pub(super) credentials: Vec<String>,
    /// The user's limit of descriptors, which the nodes get back.
    pub(super) descriptors: Rlimit,
    /// And what signals did to the user.
    pub(super) signals: Inherited,
    /// Each node gets a session of its own, and with that its own share of processors (sched(7), autogroups): who starts
    /// them has to be heard of however many processes they have. Not where there may be a terminal.
    pub(super) own_sessions: bool,
}

/// What some of the nodes run.
pub(super) struct Program {
    /// The rank behind the last of them.
    pub(super) end: u32,
    /// The file to execute.
    pub(super) file: PathBuf,
    /// The command line, the program's name as the user wrote it first.
    pub(super) command: Vec<OsString>,
}

impl Plan {
    /// Nodes to start here.
    fn here(&self) -> u32 {
        u32::try_from(self.ranks.len()).unwrap_or(u32::MAX)
    }

    fn program_of(&self, rank: u32) -> Option<&Program> {
        self.programs.iter().find(|program| rank < program.end)
    }
}

/// A started node, as who started it holds it: this end of its control channel and of its pipes.
pub(super) struct Node {
    pub(super) rank: u32,
    pub(super) pid: Pid,
    /// Readable once the process is dead.
    pub(super) pidfd: OwnedFd,
    pub(super) control: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// The other end of the node's stdin, if that is a pipe.
    pub(super) stdin: Option<OwnedFd>,
}

/// Starts all nodes of a plan, each with its listening sockets, which are closed here and open there afterwards;
/// none is left if one cannot be started. `stdin` gives a rank its own.
pub(super) fn start_all(
    plan: &Plan,
    listeners: Vec<Vec<Listener>>,
    containment: &Containment,
    mut stdin: impl FnMut(u32) -> io::Result<Stdio>,
) -> Result<Vec<Node>, LaunchError> {
    let mut start_one = |(rank, listeners): (u32, Vec<Listener>)| {
        let stdin = stdin(rank).map_err(|error| {
            let what = format!("/dev/null, the stdin of node {rank} (is /dev mounted?)");
            LaunchError::system(what, plan.here(), error)
        })?;
        let sockets = listeners.into_iter().map(|listener| listener.fd).collect();
        start(plan, rank, sockets, containment.watchdog(), stdin)
    };
    containment.hold(|| {
        let mut nodes: Vec<Node> = Vec::new();
        for each in plan.ranks.clone().zip(listeners) {
            match start_one(each) {
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
    })
}

fn start(
    plan: &Plan,
    rank: u32,
    listeners: Vec<OwnedFd>,
    watchdog: &Watchdog,
    stdin: Stdio,
) -> Result<Node, LaunchError> {
    let at = |what: &str| format!("node {rank}: {what}");
    let refused = |what: &str, error: io::Error| LaunchError::system(at(what), plan.here(), error);

    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| refused("the control channel", error.into()))?;
    let registration =
        watchdog.registration().map_err(|error| refused("the control channel", error))?;

    let program = plan
        .program_of(rank)
        .ok_or_else(|| refused("its program", io::ErrorKind::NotFound.into()))?;
    let mut command = Command::new(&program.file);
    let mut words = program.command.iter();
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    command.args(words);
    if plan.own_sessions {
        in_own_session(&mut command);
    } else {
        command.process_group(0);
    }
    command.envs(plan.variables.iter().map(|(name, value)| (name, value)));
    command.env("MULTIGRAIN_RANK", rank.to_string());
    let numbers: Vec<String> = listeners.iter().map(|fd| fd.as_raw_fd().to_string()).collect();
    command.env("MULTIGRAIN_LISTEN_FD", numbers.join(","));
    command.env("MULTIGRAIN_CONTROL_FD", theirs.as_raw_fd().to_string());
    let secret =
        secret_pipe(plan, rank).map_err(|error| refused("the pipe for its secret", error))?;
    command.env("MULTIGRAIN_SECRET_FD", secret.as_raw_fd().to_string());
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let own = listeners.into_iter().chain([theirs, secret]).collect();
    tie_to_launcher(&mut command, own, registration, (plan.descriptors, plan.signals));
    let mut child = command
        .spawn()
        .map_err(|error| spawn_error(plan.here(), rank, program.file.clone(), error))?;

    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    let adopted = match pidfd {
        Ok(pidfd) => {
            adopt(&mut child, rank, pidfd, ours).map_err(|error| refused("its pipes", error))
        }
        Err(error) => Err(refused("its process descriptor (pidfd_open)", error.into())),
    };
    if adopted.is_err() {
        // Nobody else knows of this child yet.
        let _ = child.kill();
        let _ = child.wait();
    }
    adopted
}

/// What the node proves itself with, in a pipe: nothing that others can read, as an environment is.
fn secret_pipe(plan: &Plan, rank: u32) -> io::Result<OwnedFd> {
    let own = plan.credentials.get((rank - plan.ranks.start) as usize).map_or("", String::as_str);
    let text = format!("{}\n{own}\n", plan.secret);
    // What does not fit would wait for ever.
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let written = rustix::io::write(&writes, text.as_bytes())?;
    if written == text.len() { Ok(reads) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Makes a command of the launcher itself end with it: in a session of its own, so that nothing typed at the
/// terminal reaches it, and it asks for nothing there. It ends by SIGTERM: `srun` then ends the step that it is starting,
/// which nobody does once it is killed.
pub(super) fn tie_helper_to_launcher(
    command: &mut Command,
    registration: OwnedFd,
    signals: Inherited,
) {
    let launcher = getpid();
    let prepare = move || {
        setsid()?;
        end_with(launcher, Signal::TERM)?;
        watchdog::register_command(&registration)?;
        signals.restore()
    };
    // SAFETY: `prepare` makes system calls only, through rustix and libc, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// The command gets a session of its own, and is to ask nobody for anything.
pub(super) fn in_own_session(command: &mut Command) {
    let prepare = || setsid().map(drop).map_err(io::Error::from);
    // SAFETY: `prepare` makes one system call and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// From now on this process receives a signal when its parent, the launcher, dies.
fn end_with(launcher: Pid, signal: Signal) -> io::Result<()> {
    set_parent_process_death_signal(Some(signal))?;
    if getppid() != Some(launcher) {
        // It died before the line above; a signal for that will never come.
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(())
}

/// What happens in the child between fork and exec. Only system calls: no memory is allocated.
fn tie_to_launcher(
    command: &mut Command,
    own: Vec<OwnedFd>,
    registration: OwnedFd,
    (descriptors, signals): (Rlimit, Inherited),
) {
    let launcher = getpid();
    let prepare = move || {
        end_with(launcher, Signal::KILL)?;
        watchdog::register(&registration)?;
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

fn adopt(child: &mut Child, rank: u32, pidfd: OwnedFd, control: OwnedFd) -> io::Result<Node> {
    let missing = || io::Error::from_raw_os_error(libc::EBADF);
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    Ok(Node {
        rank,
        pid: Pid::from_child(child),
        pidfd,
        control,
        stdout: stdout.into(),
        stderr: stderr.into(),
        stdin: child.stdin.take().map(OwnedFd::from),
    })
}

fn spawn_error(nodes: u32, rank: u32, path: PathBuf, error: io::Error) -> LaunchError {
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
        Some(_) | None => LaunchError::system(format!("node {rank}"), nodes, error),
    }
}
