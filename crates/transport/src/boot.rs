//! Boot: from addresses to one connected socket per peer.
//!
//! Role: node i connects to every j < i and accepts every j > i, all handshakes at once in one
//! poll loop, so that a silent stranger delays nobody. Listening sockets exist before any node
//! starts, so a refused connect is an error and not a reason to try again.
//!
//! Invariant: whoever is wrong yields one line and is gone; the loop goes on for the others.

use crate::address::{self, Address};
use crate::error::TransportError;
use crate::frame::Header;
use crate::handshake::{self, Answer, HELLO_BYTES, Identity, Refusal};
use crate::late::{self, Refusals};
use core::time::Duration;
use multigrain_types::NodeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, sockopt};
use std::time::Instant;

/// How long a stranger may take for its HELLO.
const PATIENCE: Duration = Duration::from_secs(2);
/// Strangers with an unfinished handshake; one more drops the oldest.
const CROWD: usize = 64;
/// Connections accepted in one round, so that a flood of strangers holds up no peer.
const AT_ONCE: usize = 16;

/// What a node needs to find the others.
#[derive(Debug)]
pub struct BootConfig {
    /// This node.
    pub rank: NodeId,
    /// Where each node listens; index = rank, length = number of nodes.
    pub peers: Vec<Address>,
    /// This node's listening socket; without one, `peers[rank]` is bound here when a higher rank
    /// must connect to it.
    pub listener: Option<OwnedFd>,
    /// The job's id.
    pub job: u128,
    /// The job's secret.
    pub secret: [u8; 32],
    /// Identifies the build of program and library; all nodes must agree.
    pub build: u64,
    /// How long boot waits for all peers.
    pub deadline: Duration,
}

/// The result of boot: a socket for every rank but the own, and the listener.
pub(crate) struct Booted {
    pub(crate) identity: Identity,
    pub(crate) sockets: Vec<Option<OwnedFd>>,
    pub(crate) listener: Option<OwnedFd>,
    pub(crate) refusals: Refusals,
}

/// A connection whose handshake is not over.
struct Pending {
    socket: OwnedFd,
    stage: Stage,
    said: [u8; HELLO_BYTES],
    have: usize,
}

enum Stage {
    /// Accepted; its HELLO must be here by then.
    Stranger { until: Instant },
    /// Our connect to this peer is under way.
    Connecting { peer: NodeId },
    /// Our HELLO to this peer is out.
    Asked { peer: NodeId },
}

/// What became of a pending connection after an event.
enum Turn {
    Wait,
    Joined(NodeId),
    Gone,
}

struct Boot<'a> {
    identity: Identity,
    peers: Vec<Address>,
    end: Instant,
    sockets: Vec<Option<OwnedFd>>,
    listener: Option<OwnedFd>,
    pending: Vec<Pending>,
    refusals: Refusals,
    refused: &'a mut dyn FnMut(String),
}

/// Connects this node with all others.
pub(crate) fn boot(
    config: BootConfig,
    refused: &mut dyn FnMut(String),
) -> Result<Booted, TransportError> {
    let (rank, count) = (config.rank, config.peers.len());
    let wrong = TransportError::Config { rank: rank.0, nodes: count };
    let Ok(nodes) = u16::try_from(count) else { return Err(wrong) };
    if rank.0 >= nodes {
        return Err(wrong);
    }
    let listener = match config.listener {
        Some(listener) => Some(listener),
        None if rank.0 + 1 < nodes => Some(address::bind(&config.peers[rank.index()])?.0),
        None => None,
    };
    if let Some(listener) = &listener {
        rustix::io::ioctl_fionbio(listener, true).map_err(TransportError::system("FIONBIO"))?;
    }
    let identity =
        Identity { rank, nodes, job: config.job, secret: config.secret, build: config.build };
    let mut boot = Boot {
        identity,
        peers: config.peers,
        end: Instant::now() + config.deadline,
        sockets: (0..nodes).map(|_| None).collect(),
        listener,
        pending: Vec::new(),
        refusals: Refusals::default(),
        refused,
    };
    for peer in (0..rank.0).map(NodeId) {
        let knocking = boot.knock(peer)?;
        boot.pending.push(knocking);
    }
    while boot.missing().next().is_some() {
        if Instant::now() >= boot.end {
            let missing = boot.missing().collect();
            return Err(TransportError::Missing {
                missing,
                waited_ms: config.deadline.as_millis(),
            });
        }
        boot.round()?;
    }
    for mut late in core::mem::take(&mut boot.pending) {
        match late.hear(HELLO_BYTES) {
            Heard::Open => boot.refuse(&late, Refusal::Complete),
            Heard::Ended => boot.refuse(&late, Refusal::Cut),
        }
    }
    for socket in boot.sockets.iter().flatten() {
        address::tune(socket).map_err(TransportError::system("setsockopt"))?;
    }
    let Boot { identity, sockets, listener, refusals, .. } = boot;
    Ok(Booted { identity, sockets, listener, refusals })
}

impl Boot<'_> {
    fn missing(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.identity.rank;
        let there = move |node: &NodeId| *node == own || self.sockets[node.index()].is_some();
        (0..self.identity.nodes).map(NodeId).filter(move |node| !there(node))
    }

    /// Begins to connect to a peer.
    fn knock(&self, peer: NodeId) -> Result<Pending, TransportError> {
        let address = &self.peers[peer.index()];
        let patience = self.end.saturating_duration_since(Instant::now());
        // A patience of zero would mean for ever.
        let socket = address::connect(address, patience.max(Duration::from_millis(1)));
        let socket = socket.map_err(|errno| TransportError::Connect {
            peer,
            address: address.clone(),
            errno,
        })?;
        Ok(Pending::new(socket, Stage::Connecting { peer }))
    }

    /// Waits for one round of events and deals with them.
    fn round(&mut self) -> Result<(), TransportError> {
        let wake = self.pending.iter().filter_map(Pending::until).fold(self.end, Instant::min);
        let ready = self.poll(wake)?;
        let mut pending = core::mem::take(&mut self.pending).into_iter();
        for ready in ready {
            let Some(mut one) = pending.next() else { break };
            let turn = if ready { self.advance(&mut one)? } else { Turn::Wait };
            self.settle(one, turn);
        }
        self.accept()
    }

    fn settle(&mut self, one: Pending, turn: Turn) {
        match turn {
            Turn::Wait if one.until().is_some_and(|until| until <= Instant::now()) => {
                self.refuse(&one, Refusal::Silence);
            }
            Turn::Wait => self.pending.push(one),
            Turn::Joined(peer) => self.sockets[peer.index()] = Some(one.socket),
            Turn::Gone => {}
        }
    }

    /// Which pending connections have news; returns at `wake` at the latest.
    fn poll(&self, wake: Instant) -> Result<Vec<bool>, TransportError> {
        let mut set: Vec<PollFd<'_>> = self.pending.iter().map(Pending::interest).collect();
        if let Some(listener) = &self.listener {
            set.push(PollFd::new(listener, PollFlags::IN));
        }
        let left = wake.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut set, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(TransportError::System { call: "poll", errno }),
        }
        set.truncate(self.pending.len());
        Ok(set.iter().map(|one| !one.revents().is_empty()).collect())
    }

    fn accept(&mut self) -> Result<(), TransportError> {
        for _ in 0..AT_ONCE {
            let Some(listener) = &self.listener else { return Ok(()) };
            let socket = match net::accept_with(listener, SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) if late::is_strangers_own(errno) => continue,
                Err(errno) => return Err(TransportError::System { call: "accept", errno }),
            };
            let mut one =
                Pending::new(socket, Stage::Stranger { until: Instant::now() + PATIENCE });
            if let Err(why) = same_user(one.socket.as_fd()) {
                self.refuse(&one, why);
                continue;
            }
            self.make_room();
            let turn = self.advance(&mut one)?;
            self.settle(one, turn);
        }
        Ok(())
    }

    fn make_room(&mut self) {
        let strangers = self.pending.iter().filter(|one| one.until().is_some()).count();
        let oldest = self.pending.iter().position(|one| one.until().is_some());
        if let Some(oldest) = oldest.filter(|_| strangers >= CROWD) {
            let one = self.pending.remove(oldest);
            self.refuse(&one, Refusal::Crowd);
        }
    }

    fn advance(&mut self, one: &mut Pending) -> Result<Turn, TransportError> {
        match one.stage {
            Stage::Stranger { .. } => Ok(self.hear_stranger(one)),
            Stage::Connecting { peer } => self.ask(one, peer),
            Stage::Asked { peer } => self.hear_answer(one, peer),
        }
    }

    fn hear_stranger(&mut self, one: &mut Pending) -> Turn {
        let heard = one.hear(HELLO_BYTES);
        let taken = |rank: NodeId| self.sockets[rank.index()].is_some();
        let verdict = handshake::judge(&one.said[..one.have], &self.identity, taken);
        let why = match (verdict, heard) {
            (Ok(Some(peer)), _) => {
                let answer = handshake::welcome(&self.identity);
                if say(&one.socket, &answer) {
                    return Turn::Joined(peer);
                }
                Refusal::Cut
            }
            (Ok(None), Heard::Open) => return Turn::Wait,
            (Ok(None), Heard::Ended) => Refusal::Cut,
            (Err(why), _) => why,
        };
        self.refuse(one, why);
        Turn::Gone
    }

    fn ask(&mut self, one: &mut Pending, peer: NodeId) -> Result<Turn, TransportError> {
        let broken = |why: String| TransportError::Handshake { peer, why };
        if let Ok(Err(errno)) = sockopt::socket_error(&one.socket) {
            return Err(broken(format!("connect: {errno}")));
        }
        if let Err(why) = same_user(one.socket.as_fd()) {
            return Err(TransportError::Refused { peer, reason: why });
        }
        // If it hung up already, its answer says why.
        say(&one.socket, &handshake::hello(&self.identity));
        one.stage = Stage::Asked { peer };
        Ok(Turn::Wait)
    }

    fn hear_answer(&mut self, one: &mut Pending, peer: NodeId) -> Result<Turn, TransportError> {
        // Not a byte more than the answer: the peer's first frame may be right behind it.
        let heard = one.hear(Header::BYTES);
        if let Some(said) = one.said.first_chunk().filter(|_| one.have == Header::BYTES) {
            return match handshake::answer(said, &self.identity, peer) {
                Answer::Welcome => Ok(Turn::Joined(peer)),
                // Strangers pushed us out before it heard us.
                Answer::Refused(Refusal::Crowd) => {
                    *one = self.knock(peer)?;
                    Ok(Turn::Wait)
                }
                Answer::Refused(reason) => Err(TransportError::Refused { peer, reason }),
                Answer::Nonsense(why) => Err(TransportError::Handshake { peer, why }),
            };
        }
        match heard {
            Heard::Open => Ok(Turn::Wait),
            Heard::Ended => {
                let why = "it closed the connection".to_owned();
                Err(TransportError::Handshake { peer, why })
            }
        }
    }

    fn refuse(&mut self, one: &Pending, why: Refusal) {
        let line = turn_away(&one.socket, self.identity.rank, why, &self.refusals);
        if let Some(line) = line {
            (self.refused)(line);
        }
    }
}

/// Tells a stranger why it may not come in, hangs up, and returns the line for the log, if this one
/// gets a line.
pub(crate) fn turn_away(
    socket: &OwnedFd,
    own: NodeId,
    why: Refusal,
    refusals: &Refusals,
) -> Option<String> {
    let line =
        refusals.line(|| format!("refused a connection from {}: {why}", address::describe(socket)));
    say(socket, &handshake::refused(own, why));
    let _ = net::shutdown(socket, net::Shutdown::Both);
    line
}

/// Whether a Unix peer runs as the user we run as; other sockets carry no such proof.
pub(crate) fn same_user(socket: BorrowedFd<'_>) -> Result<(), Refusal> {
    if sockopt::socket_domain(socket) != Ok(AddressFamily::UNIX) {
        return Ok(());
    }
    let own = rustix::process::geteuid();
    match sockopt::socket_peercred(socket) {
        Ok(peer) if peer.uid == own => Ok(()),
        Ok(peer) => Err(Refusal::User(peer.uid.as_raw())),
        Err(_) => Err(Refusal::Cut),
    }
}

/// Sends a handshake frame, which a fresh socket always takes whole.
fn say(socket: &OwnedFd, frame: &[u8]) -> bool {
    net::send(socket, frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) == Ok(frame.len())
}

enum Heard {
    Open,
    Ended,
}

impl Pending {
    fn new(socket: OwnedFd, stage: Stage) -> Self {
        Self { socket, stage, said: [0; HELLO_BYTES], have: 0 }
    }

    fn until(&self) -> Option<Instant> {
        match self.stage {
            Stage::Stranger { until } => Some(until),
            Stage::Connecting { .. } | Stage::Asked { .. } => None,
        }
    }

    fn interest(&self) -> PollFd<'_> {
        let flags = match self.stage {
            Stage::Connecting { .. } => PollFlags::OUT,
            Stage::Stranger { .. } | Stage::Asked { .. } => PollFlags::IN,
        };
        PollFd::new(&self.socket, flags)
    }

    /// Reads what is there, up to `whole` bytes in all.
    fn hear(&mut self, whole: usize) -> Heard {
        let room = &mut self.said[self.have..whole];
        match net::recv(&self.socket, room, RecvFlags::DONTWAIT) {
            Ok((0, _)) => Heard::Ended,
            Ok((bytes, _)) => {
                self.have += bytes;
                Heard::Open
            }
            Err(Errno::AGAIN | Errno::INTR) => Heard::Open,
            Err(_) => Heard::Ended,
        }
    }
}
