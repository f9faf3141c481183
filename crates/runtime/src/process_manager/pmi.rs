//! The PMI-1 wire protocol: lines `cmd=NAME KEY=VALUE ...` over a socket that the process manager has left open,
//! or (`mpiexec -pmi-port`) over one to the port where it listens.

#![expect(unsafe_code, reason = "the socket arrives by number")]

use core::fmt::Write as _;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use multigrain_types::descriptor::above_standard;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};

use super::{Environment, ProcessManager, too_long};
use crate::error::Error;

/// A longer answer is none.
const MOST_ANSWER_BYTES: usize = 64 << 10;
/// Bytes of a value that every process manager takes, with room for what it adds.
const LEAST_VALUE_BYTES: usize = 64;
/// Before a piece of a value: whether it is the last.
const MORE: char = '+';
const LAST: char = '.';

/// A conversation with a process manager.
#[derive(Debug)]
pub(super) struct Pmi {
    rank: u32,
    nodes: u32,
    socket: OwnedFd,
    /// The name of the job's key-value space.
    space: String,
    /// Bytes of a piece of a value.
    piece_bytes: usize,
    timeout: Duration,
    /// Read, and no whole line yet.
    unread: Vec<u8>,
}

/// A line of the process manager.
struct Answer(String);

/// Whether the environment names a socket that is there.
pub(super) fn has_socket(environment: Environment<'_>) -> bool {
    let number = environment("PMI_FD").and_then(|text| text.into_string().ok()?.parse().ok());
    number.is_some_and(is_socket)
}

fn is_socket(number: RawFd) -> bool {
    // SAFETY: it is only asked what it is.
    number >= 0 && sockopt::socket_type(unsafe { BorrowedFd::borrow_raw(number) }).is_ok()
}

fn number(environment: Environment<'_>, name: &str) -> Result<u32, Error> {
    let wrong = |what: &str| {
        Error::Invalid(format!(
            "{name} {what}, as of a process that mpiexec or srun has not started itself; unset the variables \
             PMI_* to make it a job of its own"
        ))
    };
    let value =
        environment(name).ok_or_else(|| wrong("is not set, but other variables PMI_* are"))?;
    let text = value.to_string_lossy();
    text.parse()
        .ok()
        .filter(|&n| n <= u32::MAX >> 1)
        .ok_or_else(|| wrong(&format!("cannot be {text}")))
}

/// Rank, size and the socket that the process manager has left open.
fn inherited(environment: Environment<'_>) -> Result<(u32, u32, OwnedFd), Error> {
    let [rank, nodes] = ["PMI_RANK", "PMI_SIZE"].map(|name| number(environment, name));
    let (rank, nodes, fd) = (rank?, nodes?, number(environment, "PMI_FD")?);
    if rank >= nodes {
        let why = format!(
            "PMI_RANK {rank} is no rank of PMI_SIZE {nodes} processes; unset the variables PMI_* to make it a job of \
             its own"
        );
        return Err(Error::Invalid(why));
    }
    let fd = RawFd::try_from(fd).ok().filter(|&fd| is_socket(fd)).ok_or_else(|| {
        Error::Invalid(format!(
            "PMI_FD: descriptor {fd} is not the socket of mpiexec or srun: one program of a process joins the \
             job, and no other that it starts; unset the variables PMI_* to make it a job of its own"
        ))
    })?;
    // SAFETY: the process manager gave this descriptor to this process, for its first user.
    Ok((rank, nodes, unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// A connection to where the process manager listens: `HOST:PORT`.
fn connect(environment: Environment<'_>, limit: Duration) -> Result<OwnedFd, Error> {
    let at = environment("PMI_PORT").unwrap_or_default().to_string_lossy().into_owned();
    let addresses = at.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
    let connected = addresses.and_then(|all| {
        let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in &all {
            result = TcpStream::connect_timeout(address, limit);
            if result.is_ok() {
                break;
            }
        }
        result
    });
    match connected {
        Ok(stream) => above_standard(stream.into())
            .map_err(|errno| Error::System(format!("fcntl: {}", Errno::from_raw_os_error(errno)))),
        Err(error) => {
            let why = format!(
                "PMI_PORT: the process manager at {at} cannot be reached ({error}); unset the variables PMI_* to make it a \
                 job of its own"
            );
            Err(Error::Invalid(why))
        }
    }
}

impl Pmi {
    /// The process manager that the environment names, at its word.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an environment that makes no sense, [`Error::System`] for answers that make none.
    pub(super) fn new(
        environment: Environment<'_>,
        timeout: &dyn Fn(u32) -> Duration,
    ) -> Result<Self, Error> {
        let by_port = environment("PMI_FD").is_none() && environment("PMI_PORT").is_some();
        let (rank, nodes, socket) = if by_port {
            (0, 0, connect(environment, timeout(1))?)
        } else {
            inherited(environment)?
        };
        let _ = fcntl_setfd(&socket, FdFlags::CLOEXEC);
        let (space, piece_bytes) = (String::new(), LEAST_VALUE_BYTES);
        let (limit, unread) = (timeout(nodes), Vec::new());
        let mut pmi = Self { rank, nodes, socket, space, piece_bytes, timeout: limit, unread };
        let id = if by_port { Some(number(environment, "PMI_ID")?) } else { None };
        match id.map_or(Ok(()), |id| pmi.introduce(id)).and_then(|()| pmi.begin()) {
            Ok(()) => {
                pmi.timeout = timeout(pmi.nodes);
                Ok(pmi)
            }
            Err(why) => {
                // It may end a process that hangs up, and the program is about to say why it fails.
                core::mem::forget(pmi);
                Err(Error::System(why))
            }
        }
    }

    /// Over a connection of its own a process says which it is, and is told rank and size.
    fn introduce(&mut self, id: u32) -> Result<(), String> {
        self.ask(&format!("initack pmiid={id}"), "initack")?;
        let mut next = |name: &str| {
            let told = Answer(self.line(&format!("the process manager's word for {name}"))?);
            let value = told.field(name).filter(|_| told.field("cmd") == Some("set"));
            value.and_then(|text| text.parse().ok()).ok_or_else(|| told.is_nonsense())
        };
        let (nodes, rank, _): (u32, u32, u32) = (next("size")?, next("rank")?, next("debug")?);
        if rank >= nodes {
            return Err(format!("the process manager gives rank {rank} of {nodes} processes"));
        }
        (self.rank, self.nodes) = (rank, nodes);
        Ok(())
    }

    fn begin(&mut self) -> Result<(), String> {
        self.ask("init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let limits = self.ask("get_maxes", "maxes")?;
        let most = limits.field("vallen_max").and_then(|text| text.parse::<usize>().ok());
        let most = most.filter(|&most| most >= LEAST_VALUE_BYTES);
        // Its end, and the mark of a piece.
        self.piece_bytes = most.ok_or_else(|| limits.is_nonsense())? - 2;
        let own = self.ask("get_my_kvsname", "my_kvsname")?;
        self.space = own.field("kvsname").ok_or_else(|| own.is_nonsense())?.to_owned();
        Ok(())
    }

    /// Says something, and waits for the answer of this name.
    fn ask(&mut self, command: &str, answer: &str) -> Result<Answer, String> {
        self.say(command).map_err(|errno| gone(&errno.to_string()))?;
        let name = command.split(' ').next().unwrap_or_default();
        let line = self.line(&format!("the process manager's answer to {name}"))?;
        let got = Answer(line);
        if got.field("cmd") != Some(answer) {
            return Err(got.is_nonsense());
        }
        match got.field("rc") {
            None | Some("0") => Ok(got),
            Some(_) => Err(format!("the process manager refuses {name}: {:?}", got.0)),
        }
    }

    fn say(&self, command: &str) -> Result<(), Errno> {
        let line = format!("cmd={command}\n");
        let mut bytes = line.as_bytes();
        while !bytes.is_empty() {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], None);
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// The next line, without its end.
    fn line(&mut self, what: &str) -> Result<String, String> {
        let end = Instant::now() + self.timeout;
        let mut buffer = [0; 4096];
        loop {
            if let Some(length) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=length).collect();
                return Ok(String::from_utf8_lossy(&line[..length]).into_owned());
            }
            if self.unread.len() > MOST_ANSWER_BYTES {
                return Err("the process manager's answer has no end".to_owned());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(too_long(what, self.timeout));
            }
            // Beyond what the kernel counts in, it is no limit.
            let left = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], left.as_ref()) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(gone(&errno.to_string())),
            }
            match recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(gone("it hung up")),
                Ok((count, _)) => self.unread.extend_from_slice(&buffer[..count]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(gone(&errno.to_string())),
            }
        }
    }
}

fn gone(why: &str) -> String {
    format!("the process manager that PMI_FD or PMI_PORT leads to is gone: {why}")
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        let fields = self.0.split(' ').filter_map(|word| word.split_once('='));
        let mut named = fields.filter(|(key, _)| *key == name);
        named.next().map(|(_, value)| value)
    }

    fn is_nonsense(&self) -> String {
        const SHOWN: usize = 80;
        let shown: String = self.0.chars().take(SHOWN).collect();
        format!("what PMI_FD or PMI_PORT leads to does not speak PMI: it says {shown:?}")
    }
}

impl ProcessManager for Pmi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), String> {
        let pieces = value.as_bytes().chunks(self.piece_bytes).map(String::from_utf8_lossy);
        let pieces: Vec<_> = pieces.collect();
        for (place, piece) in pieces.iter().enumerate() {
            let mark = if place + 1 == pieces.len() { LAST } else { MORE };
            let mut command = format!("put kvsname={} key={key}-{}", self.space, self.rank);
            let _ = write!(command, "-{place} value={mark}{piece}");
            self.ask(&command, "put_result")?;
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<(), String> {
        self.ask("barrier_in", "barrier_out").map(drop)
    }

    fn get(&mut self, rank: u32, key: &str) -> Result<String, String> {
        let mut whole = String::new();
        for place in 0.. {
            let command = format!("get kvsname={} key={key}-{rank}-{place}", self.space);
            let answer = self.ask(&command, "get_result")?;
            let piece = answer.field("value").ok_or_else(|| answer.is_nonsense())?;
            whole.push_str(piece.get(1..).unwrap_or_default());
            if !piece.starts_with(MORE) || piece.len() == 1 || whole.len() > MOST_ANSWER_BYTES {
                break;
            }
        }
        Ok(whole)
    }

    fn finalize(mut self: Box<Self>) -> Result<(), String> {
        self.ask("finalize", "finalize_ack").map(drop)
    }
}
