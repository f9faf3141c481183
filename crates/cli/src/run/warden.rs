//! The warden: a small process that outlives a launcher which was killed, and ends its job.
//!
//! PR_SET_PDEATHSIG ends the nodes themselves when the launcher dies, but not the processes they
//! forked. The warden waits on a socket that only the launcher holds open. Each node sends its
//! process id there before it executes the program, so no node can be missed. When the socket
//! closes without the launcher having dismissed the warden, it kills those process groups, and
//! then whoever else carries the job's id in the environment.
#![expect(unsafe_code, reason = "fork has no safe interface")]

use super::leftovers;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, setsid, waitpid,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Rounds of looking for processes with the job's id; each finds what forked during the last.
const SWEEPS: usize = 5;

/// The launcher's handle on its warden.
pub(super) struct Warden {
    pid: Pid,
    socket: OwnedFd,
}

impl Warden {
    /// Forks it. To be called while the launcher has one thread and no descriptors of the job, and
    /// with signals blocked, which the warden inherits: it is meant to outlive them.
    pub(super) fn start(job: &str) -> io::Result<Self> {
        // A socket, since writing to a pipe whose reader was killed would raise SIGPIPE.
        let (unix, packets) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (reader, writer) = socketpair(unix, packets, SocketFlags::CLOEXEC, None)?;
        // SAFETY: this process has a single thread, so the child may run any code.
        match unsafe { libc::fork() } {
            0 => {
                drop(writer);
                keep_watch(reader, job)
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

fn keep_watch(reader: OwnedFd, job: &str) -> ! {
    let _ = setsid();
    let _ = rustix::thread::set_name(c"multigrain-ward");
    let _ = std::env::set_current_dir("/");
    let groups = match seclude(reader) {
        Ok(()) => read_groups(),
        Err(_) => Vec::new(),
    };
    for group in groups {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for _ in 0..SWEEPS {
        let found = leftovers::with_job_id(job);
        for &pid in &found {
            let _ = kill_process(pid, Signal::KILL);
        }
        if found.is_empty() {
            break;
        }
    }
    std::process::exit(0)
}

/// Makes the socket descriptor 0 and closes all others, so that the warden keeps nothing open.
fn seclude(reader: OwnedFd) -> io::Result<()> {
    rustix::stdio::dup2_stdin(&reader)?;
    // Nothing is written there; /dev/null may be missing.
    let null = rustix::fs::memfd_create(c"null", rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    drop((reader, null));
    // SAFETY: the warden never returns to code that owns a descriptor above 2.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
    Ok(())
}

/// Reads process ids until the launcher is gone.
fn read_groups() -> Vec<Pid> {
    let mut groups = Vec::new();
    let mut record = [0_u8; 4];
    loop {
        match rustix::io::read(std::io::stdin().as_fd(), &mut record) {
            Ok(4) => groups.extend(Pid::from_raw(i32::from_ne_bytes(record))),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return groups,
        }
    }
}
