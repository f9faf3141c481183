//! Processes that make calls of the kernel on demand, and block in them.

#![expect(unsafe_code, reason = "processes are forked")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use multigrain_sysv::ipc::{Reply, Request};
use serde::{Deserialize, Serialize};

use crate::kernel_calls::{Attached, carry_out};

/// Longer than anything takes here that happens at all.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a worker is asked to do.
#[derive(Debug, Serialize, Deserialize)]
enum Command {
    Call(Request),
    /// Forks a child that waits; answered with its pid.
    Fork,
    /// Ends the child.
    Reap,
    Exit,
}

/// The users that calls are made by: a uid, a gid and one other group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) group: u32,
}

/// A process that makes calls. It ends with this value at the latest.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) pid: i32,
    commands: File,
    replies: File,
    alive: bool,
}

impl Worker {
    /// Forks a worker with the rights of this user.
    pub(crate) fn start(user: User) -> io::Result<Self> {
        let (commands_in, commands) = pipe()?;
        let (replies, replies_out) = pipe()?;
        // SAFETY: the child makes system calls and allocates, which the C library allows after fork.
        let pid = checked(unsafe { libc::fork() })?;
        if pid == 0 {
            drop((commands, replies));
            if become_user(user).is_ok() {
                serve(commands_in, replies_out);
            }
            exit();
        }
        Ok(Self { pid, commands, replies, alive: true })
    }

    /// Has the worker make a call.
    pub(crate) fn call(&mut self, request: Request) {
        self.command(&Command::Call(request));
    }

    /// The answer of the call; none if it blocks. Who is being woken still looks blocked for a moment, so that
    /// whether an answer is to come has to be known; one that was not to come is found by a later call at the latest.
    pub(crate) fn outcome(&mut self, answered: bool) -> Option<Reply> {
        let start = Instant::now();
        loop {
            let blocked = self.is_blocked();
            if readable(&self.replies) {
                let reply = read(&mut self.replies).expect("an answer");
                return Some(postcard::from_bytes(&reply).expect("a reply"));
            }
            let late = start.elapsed() > PATIENCE;
            if blocked && (!answered || late) {
                return None;
            }
            assert!(!late, "worker {} neither answers nor blocks", self.pid);
            std::thread::yield_now();
        }
    }

    /// Interrupts the call that blocks by a signal that is handled.
    pub(crate) fn interrupt(&self) {
        self.signal(libc::SIGUSR1);
    }

    /// Has the worker fork a child that inherits its attaches.
    pub(crate) fn fork(&mut self) -> i32 {
        self.command(&Command::Fork);
        let reply = read(&mut self.replies).expect("an answer");
        postcard::from_bytes(&reply).expect("a pid")
    }

    /// Ends that child.
    pub(crate) fn reap(&mut self) {
        self.command(&Command::Reap);
        read(&mut self.replies).expect("an answer");
    }

    /// Lets the worker, which is not in a call, end by itself.
    pub(crate) fn exit(&mut self) {
        self.command(&Command::Exit);
        self.wait();
    }

    /// Kills the worker, in whatever call it is.
    pub(crate) fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        self.wait();
    }

    fn command(&mut self, command: &Command) {
        let bytes = postcard::to_allocvec(command).expect("memory");
        write(&mut self.commands, &bytes).expect("a worker that reads");
    }

    fn signal(&self, signal: i32) {
        // SAFETY: takes no pointer; the process is a child that was not waited for.
        checked(unsafe { libc::kill(self.pid, signal) }).expect("a child");
    }

    fn wait(&mut self) {
        // SAFETY: a child that was not waited for, and no status.
        checked(unsafe { libc::waitpid(self.pid, core::ptr::null_mut(), 0) }).expect("a child");
        self.alive = false;
    }

    /// Whether the process sleeps in a call that may block. The kernel shows the number of the call a process
    /// sleeps in, and "running" for one that does not sleep.
    fn is_blocked(&self) -> bool {
        let shown = std::fs::read_to_string(format!("/proc/{}/syscall", self.pid));
        let shown = shown.unwrap_or_default();
        let number = shown.split(' ').next().and_then(|number| number.parse().ok());
        let blocking = [libc::SYS_semop, libc::SYS_semtimedop, libc::SYS_msgsnd, libc::SYS_msgrcv];
        number.is_some_and(|number: i64| blocking.contains(&number))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.alive {
            self.kill();
        }
    }
}

fn serve(mut commands: File, mut replies: File) {
    let mut attached = Attached::default();
    let mut child = None;
    while let Ok(command) = read(&mut commands) {
        let Ok(command) = postcard::from_bytes(&command) else { return };
        let reply = match command {
            Command::Call(request) => postcard::to_allocvec(&carry_out(request, &mut attached)),
            Command::Fork => {
                let Ok(forked) = fork_child() else { return };
                let pid = forked.0;
                child = Some(forked);
                postcard::to_allocvec(&pid)
            }
            Command::Reap => {
                let Some((pid, pipe)) = child.take() else { return };
                drop(pipe);
                // SAFETY: a child that was not waited for, and no status.
                let reaped = unsafe { libc::waitpid(pid, core::ptr::null_mut(), 0) };
                postcard::to_allocvec(&reaped)
            }
            Command::Exit => return,
        };
        let Ok(reply) = reply else { return };
        if write(&mut replies, &reply).is_err() {
            return;
        }
    }
}

/// A child that ends when the other end of its pipe is closed.
fn fork_child() -> io::Result<(i32, File)> {
    let (mut input, output) = pipe()?;
    // SAFETY: the child makes system calls alone.
    let pid = checked(unsafe { libc::fork() })?;
    if pid == 0 {
        drop(output);
        // Nothing comes: the end of the file does.
        if die_with_parent().is_ok() {
            input.read_exact(&mut [0]).ok();
        }
        exit();
    }
    Ok((pid, output))
}

fn become_user(user: User) -> io::Result<()> {
    // SAFETY: an empty set of signals and flags, which are integers.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    let handler: extern "C" fn(i32) = interrupted;
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: the handler does nothing.
    checked(unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, core::ptr::null_mut()) })?;
    // SAFETY: reads one group.
    checked(unsafe { libc::setgroups(1, &raw const user.group) })?;
    // SAFETY: takes no pointer.
    checked(unsafe { libc::setresgid(user.gid, user.gid, user.gid) })?;
    // SAFETY: takes no pointer.
    checked(unsafe { libc::setresuid(user.uid, user.uid, user.uid) })?;
    die_with_parent()
}

/// A change of user forgets this, so that it comes after it.
fn die_with_parent() -> io::Result<()> {
    // SAFETY: takes no pointer.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }).map(drop)
}

extern "C" fn interrupted(_signal: i32) {}

fn exit() -> ! {
    // SAFETY: ends the process without what its parent has registered for its own end.
    unsafe { libc::_exit(0) }
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: fills in two numbers.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: a new descriptor that nothing else owns.
    let input = unsafe { File::from_raw_fd(ends[0]) };
    // SAFETY: a new descriptor that nothing else owns.
    Ok((input, unsafe { File::from_raw_fd(ends[1]) }))
}

fn readable(file: &File) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, and no wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).expect("a short message");
    file.write_all(&[&length.to_ne_bytes(), bytes].concat())
}

fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let length = u32::from_ne_bytes(length);
    let mut bytes = vec![0; usize::try_from(length).expect("64 bits")];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
