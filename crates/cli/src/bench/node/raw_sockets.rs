//! The lower bound of messages: plain sockets between the same processes, of the same kind, with the
//! same waiting.

use crate::bench::clock::timed;
use crate::bench::options::{Transport, WaitMode};
use crate::bench::samples::Samples;
use anyhow::{Context, Result, ensure};
use multigrain_runtime::Runtime;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// As the runtime's adaptive waiting does it.
const POLL_FOR: Duration = Duration::from_micros(60);
/// What every request is long, as a small message with its envelope.
pub(super) const REQUEST_BYTES: usize = 64;

/// Node 0's sockets to all others, or another node's socket to node 0.
#[derive(Debug)]
pub(in crate::bench) struct Raw {
    wait: WaitMode,
    sockets: Vec<OwnedFd>,
}

impl Raw {
    /// Connects node 0 with every other node; all call it, with a name that no other such mesh of the
    /// job has.
    pub(super) fn connect(
        runtime: &Runtime,
        name: &str,
        transport: Transport,
        wait: WaitMode,
    ) -> Result<Self> {
        let others = usize::from(runtime.node_count()) - 1;
        let sockets = match (runtime.rank().0, transport) {
            _ if others == 0 => Vec::new(),
            (0, Transport::Unix) => {
                let listener = UnixListener::bind_addr(&unix_name(name)?)?;
                runtime.publish(name.as_bytes(), 1)?;
                accept(others, || Ok(listener.accept()?.0.into()))?
            }
            (0, Transport::Tcp) => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                runtime.publish(name.as_bytes(), listener.local_addr()?.port().into())?;
                accept(others, || Ok(listener.accept()?.0.into()))?
            }
            (rank, transport) => {
                let port = u16::try_from(runtime.lookup(name.as_bytes())?)?;
                let socket: OwnedFd = match transport {
                    Transport::Unix => UnixStream::connect_addr(&unix_name(name)?)?.into(),
                    Transport::Tcp => TcpStream::connect(("127.0.0.1", port))?.into(),
                };
                send(&socket, &rank.to_le_bytes(), SendFlags::NOSIGNAL)?;
                vec![socket]
            }
        };
        if transport == Transport::Tcp {
            for socket in &sockets {
                sockopt::set_tcp_nodelay(socket, true)?;
            }
        }
        Ok(Self { wait, sockets })
    }

    /// One end of a connection that is there already.
    pub(in crate::bench) fn of(wait: WaitMode, socket: OwnedFd) -> Self {
        Self { wait, sockets: vec![socket] }
    }

    /// The only connection there is, for somebody else.
    pub(super) fn into_only_socket(self) -> Result<OwnedFd> {
        let [socket] = <[OwnedFd; 1]>::try_from(self.sockets)
            .map_err(|sockets| anyhow::anyhow!("{} raw sockets, not one", sockets.len()))?;
        Ok(socket)
    }

    /// One request, whose reply fills `place`. The other end is [`Raw::take_request`], and then
    /// [`Raw::reply`].
    pub(super) fn request(&self, place: &mut [u8]) -> Result<()> {
        put(self.first()?, &[1; REQUEST_BYTES])?;
        self.fill(self.first()?, place)
    }

    /// Waits for a request.
    pub(super) fn take_request(&self) -> Result<()> {
        self.fill(self.first()?, &mut [0; REQUEST_BYTES])
    }

    /// Answers it.
    pub(super) fn reply(&self, bytes: &[u8]) -> Result<()> {
        put(self.first()?, bytes)
    }

    fn first(&self) -> Result<&OwnedFd> {
        self.sockets.first().context("no raw socket")
    }

    /// Node 0: so many requests to `node`, each answered with `reply` bytes; timed.
    pub(in crate::bench) fn ask(&self, node: usize, count: usize, reply: usize) -> Result<Samples> {
        let socket = self.sockets.get(node - 1).context("no such raw socket")?;
        self.ping(socket, count, &[1; REQUEST_BYTES], &mut vec![0; reply])
    }

    /// The other end of [`Raw::ask`].
    pub(in crate::bench) fn serve(&self, count: usize, reply: usize) -> Result<()> {
        self.echo(&mut [0; REQUEST_BYTES], &vec![2; reply], count)
    }

    /// Node 0: bytes to node 1, and its word that it has them; timed. The other end is
    /// [`Raw::take_over`].
    pub(super) fn hand_over(&self, bytes: &[u8]) -> Result<Samples> {
        let socket = self.first()?;
        self.ping(socket, 1, bytes, &mut [0; 32])
    }

    /// The other end of [`Raw::hand_over`].
    pub(super) fn take_over(&self, place: &mut [u8]) -> Result<()> {
        self.echo(place, &[2; 32], 1)
    }

    /// Node 0: `bytes` there and back; timed. The other end is [`Raw::echo_same`].
    pub(in crate::bench) fn there_and_back(&self, count: usize, bytes: usize) -> Result<Samples> {
        let socket = self.first()?;
        self.ping(socket, count, &vec![1; bytes], &mut vec![0; bytes])
    }

    /// The other end of [`Raw::there_and_back`].
    pub(in crate::bench) fn echo_same(&self, count: usize, bytes: usize) -> Result<()> {
        self.echo(&mut vec![0; bytes], &vec![2; bytes], count)
    }

    /// Node 0: a barrier of the first `nodes` nodes, as a hub would do it; timed.
    pub(super) fn gather(&self, nodes: usize, count: usize) -> Result<Samples> {
        let mut result = Ok(());
        let times = (0..count).map(|_| {
            timed(|| {
                for socket in self.sockets.iter().take(nodes - 1) {
                    let one = self.fill(socket, &mut [0; 32]);
                    result = core::mem::replace(&mut result, Ok(())).and(one);
                }
                for socket in self.sockets.iter().take(nodes - 1) {
                    let one = put(socket, &[1; 32]);
                    result = core::mem::replace(&mut result, Ok(())).and(one);
                }
            })
        });
        let times = times.collect();
        result.map(|()| times)
    }

    /// Another node's part in [`Raw::gather`].
    pub(super) fn attend(&self, count: usize) -> Result<()> {
        let socket = self.first()?;
        for _ in 0..count {
            put(socket, &[1; 32])?;
            self.fill(socket, &mut [0; 32])?;
        }
        Ok(())
    }

    fn ping(&self, socket: &OwnedFd, count: usize, out: &[u8], back: &mut [u8]) -> Result<Samples> {
        let mut times = Samples::default();
        for _ in 0..count {
            let mut done = Ok(());
            times.push(timed(|| done = put(socket, out).and_then(|()| self.fill(socket, back))));
            done?;
        }
        Ok(times)
    }

    fn echo(&self, request: &mut [u8], reply: &[u8], count: usize) -> Result<()> {
        let socket = self.first()?;
        for _ in 0..count {
            self.fill(socket, request)?;
            put(socket, reply)?;
        }
        Ok(())
    }

    /// Receives until `buffer` is full, waiting as the job does.
    fn fill(&self, socket: &OwnedFd, buffer: &mut [u8]) -> Result<()> {
        let mut have = 0;
        let mut flags =
            if self.wait == WaitMode::Block { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        let mut polling_since = None;
        while have < buffer.len() {
            match recv(socket, &mut buffer[have..], flags) {
                Ok((0, _)) => anyhow::bail!("a peer of the raw sockets is gone"),
                Ok((bytes, _)) => have += bytes,
                Err(Errno::AGAIN) if self.wait == WaitMode::Adaptive => {
                    let since = *polling_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > POLL_FOR {
                        flags = RecvFlags::empty();
                    }
                    std::thread::yield_now();
                }
                Err(Errno::AGAIN) => core::hint::spin_loop(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

fn put(socket: &OwnedFd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match send(socket, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// As many sockets as there are other nodes, in the order of their ranks.
fn accept(count: usize, mut next: impl FnMut() -> Result<OwnedFd>) -> Result<Vec<OwnedFd>> {
    let mut sockets = Vec::new();
    for _ in 0..count {
        let socket = next()?;
        let mut rank = [0; 2];
        let (have, _) = recv(&socket, &mut rank, RecvFlags::WAITALL)?;
        ensure!(have == rank.len(), "a peer of the raw sockets is gone");
        sockets.push((u16::from_le_bytes(rank), socket));
    }
    sockets.sort_by_key(|(rank, _)| *rank);
    Ok(sockets.into_iter().map(|(_, socket)| socket).collect())
}

fn unix_name(name: &str) -> Result<SocketAddr> {
    let job = std::env::var("MULTIGRAIN_JOB").context("MULTIGRAIN_JOB")?;
    Ok(SocketAddr::from_abstract_name(format!("multigrain-bench-{job}-{name}"))?)
}
