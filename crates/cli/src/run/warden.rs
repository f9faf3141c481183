//! The warden: a small process that outlives a launcher which was killed, and ends its job.
//!
//! PR_SET_PDEATHSIG ends the nodes themselves when the launcher dies, but not the processes they
//! forked. The warden waits on a socket that only the launcher holds open. Each node sends its
//! process id there before it executes the program, so no node can be missed. When the socket
//! closes without the launcher having dismissed the warden, it kills those process groups, then
//! whoever else carries the job's mark in the environment, and then all of the job's control group. A child
//! of the launcher that has not executed the program yet holds the socket, too: once the launcher is dead,
//! who still does is killed.
//!
//! Its name is another than the launcher's, so that who kills all launchers by name does not kill it. A
//! warden that is killed itself gets a successor: the launcher has threads by then and may not fork, so it
//! executes itself as the hidden command `warden`. What outlives whom: ADR 34.
#![expect(unsafe_code, reason = "fork has no safe interface")]

use super::cgroup::Cgroup;
use super::leftovers;
use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, kill_process_group, pidfd_open,
    set_parent_process_death_signal, setsid, waitpid,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Command;

/// Rounds of looking for processes with the job's id; each finds what forked during the last.
const SWEEPS: usize = 5;
/// Looks for children that a dead launcher has left before they executed the program, and the time between.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Successors a warden may have: whoever kills more of them means it, or they cannot live here.
const SUCCESSORS: usize = 16;

/// The launcher's handle on its warden.
pub(super) struct Warden {
    /// None for one that was killed and has no successor.
    pid: Option<Pid>,
    socket: OwnedFd,
    mark: String,
    /// The directory of the job's control group.
    group: Option<PathBuf>,
    successors: usize,
}

/// What a successor is told: `multigrain warden`, which no user calls.
#[derive(Debug, Args)]
pub(crate) struct WardenArgs {
    /// What processes of the job carry in their environment.
    #[arg(long)]
    mark: String,
    /// The directory of its control group.
    #[arg(long)]
    group: Option<PathBuf>,
    /// The process groups of its nodes.
    nodes: Vec<i32>,
}

impl Warden {
    /// Forks it. To be called while the launcher has one thread and no descriptors of the job, and
    /// with signals blocked, which the warden inherits: it is meant to outlive them. `launcher` is the process
    /// descriptor of the caller.
    pub(super) fn start(mark: &str, launcher: OwnedFd, group: Option<&Cgroup>) -> io::Result<Self> {
        // A socket, since writing to a pipe whose reader was killed would raise SIGPIPE.
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (reader, writer) = socketpair(unix, packets, SocketFlags::CLOEXEC, None)?;
        let held = format!("socket:[{}]", rustix::fs::fstat(&writer)?.st_ino);
        // SAFETY: this process has a single thread, so the child may run any code.
        match unsafe { libc::fork() } {
            0 => {
                drop(writer);
                keep_watch([reader, launcher], &held, mark, group)
            }
            pid => match Pid::from_raw(pid).filter(|_| pid > 0) {
                pid @ Some(_) => {
                    let group = group.map(|group| group.path().to_path_buf());
                    Ok(Self { pid, socket: writer, mark: mark.to_owned(), group, successors: 0 })
                }
                None => Err(io::Error::last_os_error()),
            },
        }
    }

    /// A descriptor for one node to write its process id to ([`enroll`]); close-on-exec.
    pub(super) fn enrolment(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Puts another one in its place if it has been killed.
    ///
    /// # Errors
    /// A failing system call, or too many that were killed.
    pub(super) fn keep(&mut self, nodes: &[Pid]) -> io::Result<()> {
        let lives = |pid| !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_)));
        if self.pid.is_none_or(lives) {
            return Ok(());
        }
        self.pid = None;
        if self.successors == SUCCESSORS {
            return Err(io::Error::other(format!("{SUCCESSORS} in its place were killed as well")));
        }
        self.successors += 1;
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (reader, writer) = socketpair(unix, packets, SocketFlags::CLOEXEC, None)?;
        let launcher = pidfd_open(getpid(), PidfdFlags::empty())?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["warden", "--mark", &self.mark]);
        command.args(self.group.iter().flat_map(|group| ["--group".as_ref(), group.as_os_str()]));
        command.args(nodes.iter().map(|node| node.as_raw_nonzero().to_string()));
        command.stdin(reader).stdout(launcher).stderr(nowhere()?);
        self.pid = Some(Pid::from_child(&command.spawn()?));
        self.socket = writer;
        Ok(())
    }

    /// The job is over and swept: the warden goes without doing anything.
    pub(super) fn dismiss(self) {
        if let Some(pid) = self.pid {
            // That of an unreaped child of ours, so it cannot be somebody else's.
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }

    /// Its process id, if it lives.
    pub(super) fn pid(&self) -> Option<Pid> {
        self.pid
    }
}

/// Tells the warden of this process, from between fork and exec: async-signal-safe.
pub(super) fn enroll(socket: impl AsFd) -> io::Result<()> {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    // Four bytes are sent whole or not at all.
    match send(socket, &pid.to_ne_bytes(), SendFlags::NOSIGNAL) {
        // A warden that somebody killed is of no use to this node, and no harm.
        Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn keep_watch(ends: [OwnedFd; 2], held: &str, mark: &str, group: Option<&Cgroup>) -> ! {
    become_warden();
    let groups = match seclude(ends) {
        Ok(()) => read_groups(held),
        Err(_) => Vec::new(),
    };
    end(&groups, mark, group)
}

/// The successor of a warden: a program of its own, whose descriptors 0 and 1 are the socket and the launcher.
pub(crate) fn succeed(args: &WardenArgs) -> ! {
    become_warden();
    // Its nodes have all executed their program, so nobody holds the launcher's end.
    let _ = read_groups("");
    let groups: Vec<Pid> = args.nodes.iter().filter_map(|&node| Pid::from_raw(node)).collect();
    end(&groups, &args.mark, args.group.as_deref().map(Cgroup::at).as_ref())
}

fn become_warden() {
    // A warden that somebody stopped goes on when it is needed.
    let _ = set_parent_process_death_signal(Some(Signal::CONT));
    let _ = setsid();
    let _ = rustix::thread::set_name(c"mg-warden");
    let _ = std::env::set_current_dir("/");
}

/// The launcher is gone: ends its job.
fn end(groups: &[Pid], mark: &str, group: Option<&Cgroup>) -> ! {
    for &group in groups {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for _ in 0..SWEEPS {
        let found = leftovers::marked(mark);
        for &pid in &found {
            let _ = kill_process(pid, Signal::KILL);
        }
        if found.is_empty() {
            break;
        }
    }
    if let Some(group) = group {
        group.kill();
        group.remove();
    }
    std::process::exit(0)
}

/// Makes the socket descriptor 0 and the launcher's process descriptor 1, and closes all others, so that the
/// warden keeps nothing open.
fn seclude([reader, launcher]: [OwnedFd; 2]) -> io::Result<()> {
    rustix::stdio::dup2_stdin(&reader)?;
    rustix::stdio::dup2_stdout(&launcher)?;
    let null = nowhere()?;
    rustix::stdio::dup2_stderr(&null)?;
    drop((reader, launcher, null));
    // SAFETY: the warden never returns to code that owns a descriptor above 2.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    Ok(())
}

/// Where nothing is written; /dev/null may be missing.
fn nowhere() -> io::Result<OwnedFd> {
    Ok(rustix::fs::memfd_create(c"null", rustix::fs::MemfdFlags::CLOEXEC)?)
}

/// Reads process ids until the launcher is gone, and nobody holds its end of the socket any more.
fn read_groups(held: &str) -> Vec<Pid> {
    let mut groups = Vec::new();
    let mut record = [0_u8; 4];
    let mut looks = 0;
    loop {
        match wait() {
            Wake::Socket => match rustix::io::read(io::stdin().as_fd(), &mut record) {
                Ok(4) => groups.extend(Pid::from_raw(i32::from_ne_bytes(record))),
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return groups,
            },
            Wake::Orphaned if looks == LOOKS => return groups,
            Wake::Orphaned => {
                looks += 1;
                for pid in leftovers::holding(held) {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
        }
    }
}

/// Why the warden wakes.
enum Wake {
    /// There is something to read, if only its end.
    Socket,
    /// The launcher is dead, and there is nothing to read.
    Orphaned,
}

fn wait() -> Wake {
    let (socket, launcher) = (io::stdin(), io::stdout());
    let read = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut ends = [read(socket.as_fd()), read(launcher.as_fd())];
    while poll(&mut ends, None).is_err() {}
    if !ends[0].revents().is_empty() {
        return Wake::Socket;
    }
    // Those that were killed at the last look are about to be gone.
    match poll(&mut ends[..1], Some(&BETWEEN_LOOKS)) {
        Ok(1) => Wake::Socket,
        Ok(_) | Err(_) => Wake::Orphaned,
    }
}
