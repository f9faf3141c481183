//! What a node tells its launcher, and the lines with which it ends.
//!
//! With a launcher, lines go through the control socket and the launcher prints them; without one,
//! they go to stderr. A line is one `write`, built without allocation where it may be written in a trap.

use core::fmt::{Display, Write as _};
use core::time::Duration;
use std::io::Write as _;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;

use multigrain_types::NodeId;
use multigrain_types::control::Message;
use multigrain_types::deadlock::Report;
use multigrain_types::exit_codes::{DEADLOCK, FATAL, PEER_LOST};
use multigrain_types::phrases::CLOSED_DESCRIPTORS;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use rustix::process::{Pid, getppid};

use crate::crash::Crash;

/// Room for a line about a crash.
const CRASH_BYTES: usize = 256;

/// This node's way to its launcher.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    me: NodeId,
    control: Option<BorrowedFd<'static>>,
    /// The inode of that socket.
    identity: Option<u64>,
    parent: Option<Pid>,
}

/// That of this process from the beginning of its mg_init on, also if that fails.
static OF_THIS_NODE: OnceLock<Launcher> = OnceLock::new();

impl Launcher {
    /// That of this process, once it has called mg_init.
    pub(crate) fn of_this_node() -> Option<&'static Self> {
        OF_THIS_NODE.get()
    }

    /// It is this process's.
    pub(crate) fn serves_this_node(&self) {
        // A node is made once.
        let _ = OF_THIS_NODE.set(self.clone());
    }

    pub(crate) fn new(me: NodeId, control: Option<BorrowedFd<'static>>) -> Self {
        Self { me, control, identity: control.and_then(identity), parent: None }
    }

    /// This node ends with that process, its parent; of a launcher the kernel sees to that.
    pub(crate) fn with_parent(self, parent: Option<Pid>) -> Self {
        Self { parent, ..self }
    }

    /// Ends this node if the process is gone with which it ends.
    pub(crate) fn end_if_orphaned(&self) {
        if self.parent.is_some() && getppid() != self.parent {
            self.fatal("the process that started this node is gone; the job ends");
        }
    }

    /// The descriptor of the way to the launcher, if there is one.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.control.map(|control| control.as_raw_fd())
    }

    /// One line to the launcher, if there is one.
    pub(crate) fn tell<Text: Display>(&self, message: &Message<Text>) -> bool {
        tell(self.control, message)
    }

    /// Something the user should know.
    pub(crate) fn note(&self, text: &str) {
        if !self.tell(&Message::Note(text)) {
            self.warn(text);
        }
    }

    /// What this node's stderr says.
    pub(crate) fn warn(&self, line: &str) {
        last_words(self.me, line);
    }

    /// A connection was refused.
    pub(crate) fn refused(&self, line: &str) {
        if !self.tell(&Message::Refused(line)) {
            self.warn(line);
        }
    }

    /// A race was found, of a part of this object.
    pub(crate) fn race(&self, object: &str, line: &str) {
        if !self.tell(&Message::Race { object, text: line }) {
            self.warn(&format!("race: {line}"));
        }
    }

    /// A signal is about to end this node; called by its handler, wherever the program was.
    pub(crate) fn crashed(&self, signal: i32, crash: Crash) {
        let mut line = [0; CRASH_BYTES];
        let mut room = &mut line[..];
        let _ = match self.control {
            Some(_) => writeln!(room, "{}", Message::Crash { signal, text: &crash }),
            None => writeln!(room, "multigrain: {}: signal {signal} {crash}", self.me),
        };
        let left = room.len();
        let line = &line[..CRASH_BYTES - left];
        match self.control {
            Some(fd) => drop(write_all(fd, line)),
            None => drop(rustix::io::write(std::io::stderr(), line)),
        }
    }

    /// What the threads of this node wait for; false without a launcher.
    pub(crate) fn waits(&self, report: &Report) -> bool {
        let text = serde_json::to_string(report);
        text.is_ok_and(|text| self.tell(&Message::Waits(text)))
    }

    /// The launcher's question what the threads of this node wait for: its number, or 0 if none has come
    /// within that time.
    pub(crate) fn question(&self, within: Duration) -> u64 {
        match self.control.map(|control| received(control, within)) {
            Some(Ok(question)) => question,
            // Nobody is there to ask, or the program has closed the descriptor.
            Some(Err(())) | None => {
                std::thread::sleep(within);
                0
            }
        }
    }

    /// Ends this node, which is a job of its own, because none of its threads can ever go on.
    pub(crate) fn deadlocked(&self, who_waits: &str) -> ! {
        self.warn(&format!("deadlock: {who_waits}"));
        exit_now(DEADLOCK)
    }

    /// Ends this node with one line that says why. Where the program has closed the way to the launcher, the launcher has the line:
    /// it knows by the exit code.
    pub(crate) fn fatal(&self, why: &str) -> ! {
        let closed = self.is_closed();
        if !closed && !self.tell(&Message::Fatal(Cause(why))) {
            last_words(self.me, Cause(why));
        }
        exit_now(FATAL)
    }

    /// mg_init has failed; false where the program has to say so itself.
    pub(crate) fn not_joined(&self, why: impl Display) -> bool {
        !self.is_closed() && self.tell(&Message::NotJoined(why))
    }

    /// This node has left the job.
    pub(crate) fn left(&self) {
        if self.is_closed() {
            exit_now(FATAL);
        }
        self.tell(&Message::<&str>::Left);
    }

    /// Whether there was a way to the launcher, and the program has closed it, or put something else in its place.
    fn is_closed(&self) -> bool {
        self.control.is_some_and(|control| identity(control) != self.identity)
    }

    /// A peer is gone and the job with it.
    pub(crate) fn peer_lost(&self, peer: NodeId, why: &str) -> ! {
        if !tell_loss(self.control, peer, why) {
            self.warn(&format!("{peer} is gone ({why}); the job ends"));
        }
        exit_now(PEER_LOST)
    }

    /// A peer that is gone before this node has joined: the launcher looks for the cause, and has the
    /// one line about it. Returns if there is no launcher, for then the program says what it makes of
    /// it.
    pub(crate) fn lost_at_start(&self, peer: NodeId, why: &str) {
        if tell_loss(self.control, peer, why) {
            exit_now(PEER_LOST);
        }
    }
}

/// What a socket is, whatever its number; none of what is not open.
fn identity(control: BorrowedFd<'_>) -> Option<u64> {
    rustix::fs::fstat(control).ok().map(|of| of.st_ino)
}

/// The last number that the launcher has sent, waiting for one for so long; 0 if none has come.
fn received(control: BorrowedFd<'_>, within: Duration) -> Result<u64, ()> {
    let mut set = [PollFd::new(&control, PollFlags::IN)];
    let limit = Timespec::try_from(within).map_err(|_| ())?;
    match poll(&mut set, Some(&limit)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(0),
        Ok(_) if set[0].revents() == PollFlags::IN => {}
        Ok(_) | Err(_) => return Err(()),
    }
    let mut text = [0; 256];
    match rustix::net::recv(control, &mut text, RecvFlags::DONTWAIT) {
        Ok((bytes @ 1.., _)) => {
            let text = core::str::from_utf8(&text[..bytes]).unwrap_or_default();
            Ok(text.lines().last().and_then(|line| line.parse().ok()).unwrap_or(0))
        }
        Ok(_) | Err(_) => Err(()),
    }
}

/// One line to the launcher, if there is one.
fn tell<Text: Display>(control: Option<BorrowedFd<'_>>, message: &Message<Text>) -> bool {
    let Some(fd) = control else { return false };
    let mut text = String::with_capacity(256);
    writeln!(text, "{message}").is_ok() && write_all(fd, text.as_bytes())
}

fn tell_loss(control: Option<BorrowedFd<'_>>, peer: NodeId, why: &str) -> bool {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    tell(control, &Message::Lost { rank: peer.0, at: Duration::try_from(now).ok(), text: why })
}

/// One line on stderr.
fn last_words(me: NodeId, why: impl Display) {
    say(Stderr, format_args!("multigrain: {me}: {why}"));
}

/// This node's stderr, written without the C library: no thread is cancelled as it says something.
struct Stderr;

impl std::io::Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(rustix::io::write(std::io::stderr(), bytes)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes a line at once: in pieces, a kill in between would cut it.
fn say(mut to: impl std::io::Write, line: core::fmt::Arguments<'_>) {
    let _ = to.write_all(format!("{line}\n").as_bytes());
}

/// Ends the process without running anything of the program.
pub(crate) fn exit_now(status: u8) -> ! {
    #[cfg(feature = "fuzzing")]
    crate::fuzzing::exit(status.into());
    rustix_exit(status)
}

#[expect(unsafe_code, reason = "no destructor of the program may run in a trap")]
fn rustix_exit(status: u8) -> ! {
    // SAFETY: _exit ends the process and touches no memory of it.
    unsafe { libc::_exit(status.into()) }
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::net::send(fd, bytes, rustix::net::SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}

/// Why a node ends. Calls on descriptors of the library find them closed where the program has done that.
struct Cause<'a>(&'a str);

impl Display for Cause<'_> {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0.ends_with("(os error 9)") {
            true => write!(out, "{CLOSED_DESCRIPTORS} ({})", self.0),
            false => out.write_str(self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_closed_is_the_cause_of_what_a_call_says_of_it() {
        let error = std::io::Error::from_raw_os_error(libc::EBADF);
        let said = Cause(&format!("UFFDIO_WRITEPROTECT failed: {error}")).to_string();
        assert!(said.starts_with(CLOSED_DESCRIPTORS) && said.contains("UFFDIO_WRITEPROTECT"));
        assert_eq!(Cause("no room").to_string(), "no room");
    }

    /// What each write has written.
    struct Writes(Vec<Vec<u8>>);

    impl std::io::Write for &mut Writes {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_written_at_once() {
        let mut writes = Writes(Vec::new());
        say(&mut writes, format_args!("multigrain: {}: {}", NodeId(3), "the guard failed"));
        assert_eq!(writes.0, [b"multigrain: node 3: the guard failed\n"]);
    }
}
