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
//! Its name is another than the launcher's, so that who kills all launchers by name does not kill it.
#![expect(unsafe_code, reason = "fork has no safe interface")]

use super::cgroup::Cgroup;
use super::leftovers;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, set_parent_process_death_signal,
    setsid, waitpid,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Rounds of looking for processes with the job's id; each finds what forked during the last.
const SWEEPS: usize = 5;
/// Looks for children that a dead launcher has left before they executed the program, and the time between.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The launcher's handle on its warden.
pub(super) struct Warden {
    pid: Pid,
    socket: OwnedFd,
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
                Some(pid) => Ok(Self { pid, socket: writer }),
                None => Err(io::Error::last_os_error()),
            },
        }
    }

    /// A descriptor for one node to write its process id to ([`enroll`]); close-on-exec.
    pub(super) fn enrolment(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// The job is over and swept: the warden goes without doing anything.
    pub(super) fn dismiss(self) {
        // The pid is that of an unreaped child of ours, so it cannot be somebody else's.
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }

    /// Its process id.
    pub(super) fn pid(&self) -> Pid {
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
    // A warden that somebody stopped goes on when it is needed.
    let _ = set_parent_process_death_signal(Some(Signal::CONT));
    let _ = setsid();
    let _ = rustix::thread::set_name(c"mg-warden");
    let _ = std::env::set_current_dir("/");
    let groups = match seclude(ends) {
        Ok(()) => read_groups(held),
        Err(_) => Vec::new(),
    };
    for group in groups {
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
    // Nothing is written there; /dev/null may be missing.
    let null = rustix::fs::memfd_create(c"null", rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::stdio::dup2_stderr(&null)?;
    drop((reader, launcher, null));
    // SAFETY: the warden never returns to code that owns a descriptor above 2.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    Ok(())
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
