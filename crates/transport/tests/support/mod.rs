//! Meshes, sinks and unauthenticated connections for the conformance suite.
#![expect(unsafe_code, reason = "implements the unsafe trait Sink, and sends from raw memory")]
#![allow(dead_code, reason = "each test binary uses its part of it")]

use multigrain_transport::{
    Address, BootConfig, Conditions, Credentials, Destination, Header, LostReason, Mesh,
    PROTOCOL_VERSION, Payload, Sink, Timeout, Transport, TransportError,
};
use multigrain_types::NodeId;
use rustix::process::Pid;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const JOB: u128 = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321;
pub(crate) const SECRET: [u8; 32] = [0x5a; 32];
pub(crate) const BUILD: u64 = 77;
pub(crate) const HELLO_BYTES: usize = 106;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Unix,
    Tcp,
}

/// Runs each of these over each family.
#[allow(unused_macros, reason = "one suite does without")]
macro_rules! conformance {
    ($($name:ident)*) => {
        mod unix { $( #[test] fn $name() { super::$name(super::Family::Unix); } )* }
        mod tcp { $( #[test] fn $name() { super::$name(super::Family::Tcp); } )* }
    };
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use conformance;

pub(crate) fn send_memory(mesh: &Mesh, to: u16, header: Header, bytes: &[u8]) {
    let payload = Payload::Memory { ptr: bytes.as_ptr(), len: bytes.len() };
    // SAFETY: the tests keep `bytes` until the receiver has it all.
    unsafe { mesh.send(NodeId(to), header, payload) }.unwrap();
}

/// Listening sockets for `nodes` nodes, as a launcher makes them. No two calls have addresses in common, also where
/// one of the sockets is closed and its port free again: each has a loopback address of its own.
pub(crate) fn listeners(family: Family, nodes: usize) -> (Vec<OwnedFd>, Vec<Address>) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = HOSTS.fetch_add(1, Ordering::Relaxed);
    let fresh = || match family {
        Family::Unix => {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            format!("unix:@mg-conformance-{}-{next}", std::process::id())
        }
        Family::Tcp => format!("tcp:127.0.26.{host}:0"),
    };
    (0..nodes).map(|_| Transport::AUTO.bind(&fresh().parse().unwrap()).unwrap()).unzip()
}

pub(crate) fn config(rank: usize, peers: &[Address], listener: OwnedFd) -> BootConfig {
    BootConfig {
        rank: NodeId(u16::try_from(rank).unwrap()),
        peers: peers.to_vec(),
        listeners: vec![listener],
        job: JOB,
        secret: SECRET,
        credentials: None,
        build: BUILD,
        deadline: Duration::from_secs(10),
        transport: Transport::AUTO,
        conditions: Conditions::default(),
    }
}

/// The same with credentials.
pub(crate) fn encrypted(
    rank: usize,
    peers: &[Address],
    listener: OwnedFd,
    own: &Credentials,
) -> BootConfig {
    BootConfig { credentials: Some(own.clone()), ..config(rank, peers, listener) }
}

/// Boots one node in a thread of its own; the lines about refused connections come with the result.
pub(crate) type Booting = std::thread::JoinHandle<(Result<Mesh, TransportError>, Vec<String>)>;

pub(crate) fn boot(config: BootConfig) -> Booting {
    std::thread::spawn(move || {
        let mut lines = Vec::new();
        let mesh = Mesh::boot(config, &mut |line| lines.push(line));
        (mesh, lines)
    })
}

/// All meshes of a job, and where they listen.
pub(crate) fn job(family: Family, nodes: usize) -> (Vec<Mesh>, Vec<Address>) {
    let (sockets, addresses) = listeners(family, nodes);
    let sockets = sockets.into_iter().enumerate();
    let booting: Vec<_> =
        sockets.map(|(rank, socket)| boot(config(rank, &addresses, socket))).collect();
    let meshes = booting.into_iter().map(|one| {
        let (mesh, lines) = one.join().unwrap();
        assert_eq!(lines, Vec::<String>::new());
        mesh.unwrap()
    });
    (meshes.collect(), addresses)
}

/// Writes down all it is told. A payload with `flags` 1 goes to memory by address.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) frames: Vec<(NodeId, Header, Vec<u8>)>,
    pub(crate) lost: Vec<(NodeId, LostReason)>,
    pub(crate) refused: Vec<String>,
    pub(crate) placed: Vec<u8>,
}

impl Log {
    /// With so much memory to place payloads in.
    pub(crate) fn with_memory(bytes: usize) -> Self {
        Self { placed: vec![0; bytes], ..Self::default() }
    }

    /// Receives until `done`, at most ten seconds.
    pub(crate) fn until(&mut self, mesh: &Mesh, done: impl Fn(&Log) -> bool) {
        self.until_with(mesh, Timeout::Millis(50), done);
    }

    /// The same without sleeping.
    pub(crate) fn polls_until(&mut self, mesh: &Mesh, done: impl Fn(&Log) -> bool) {
        self.until_with(mesh, Timeout::Now, done);
    }

    fn until_with(&mut self, mesh: &Mesh, wait: Timeout, done: impl Fn(&Log) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        while !done(self) {
            assert!(Instant::now() < end, "{mesh:?}: {:?} {:?}", self.lost, self.refused);
            mesh.receive(self, wait);
        }
    }
}

// SAFETY: `placed` is as long as the payloads placed there, which is checked, and is not touched
// while a payload is under way.
unsafe impl Sink for Log {
    fn place(&mut self, _from: NodeId, header: &Header) -> Result<Destination, String> {
        match header.flags {
            0 => Ok(Destination::Buffer),
            1 if header.payload as usize <= self.placed.len() => {
                Ok(Destination::At(self.placed.as_mut_ptr()))
            }
            _ => Err("no place for it".to_owned()),
        }
    }

    fn frame(&mut self, from: NodeId, header: &Header, body: Option<&[u8]>) -> Result<(), String> {
        if header.kind == 66 {
            return Err("kind 66 is evil".to_owned());
        }
        self.frames.push((from, *header, body.unwrap_or_default().to_vec()));
        Ok(())
    }

    fn lost(&mut self, from: NodeId, reason: LostReason) {
        self.lost.push((from, reason));
    }

    fn refused(&mut self, line: String) {
        self.refused.push(line);
    }
}

pub(crate) fn header(kind: u8, subject: u64) -> Header {
    Header { kind, subject, ..Header::default() }
}

/// Waits until a thread of this process, named by [`rustix::thread::gettid`], sleeps in the kernel.
pub(crate) fn wait_asleep(thread: Pid) {
    let end = Instant::now() + Duration::from_secs(10);
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    loop {
        let stat = std::fs::read_to_string(&path).unwrap();
        if stat.rsplit_once(") ").unwrap().1.starts_with('S') {
            return;
        }
        assert!(Instant::now() < end, "it never sleeps: {stat}");
        std::thread::yield_now();
    }
}

/// A socket that is no node.
pub(crate) trait Connection: Read + Write + Send {
    fn patience(&self, patience: Duration);
}

impl Connection for UnixStream {
    fn patience(&self, patience: Duration) {
        self.set_read_timeout(Some(patience)).unwrap();
    }
}

impl Connection for TcpStream {
    fn patience(&self, patience: Duration) {
        self.set_nodelay(true).unwrap();
        self.set_read_timeout(Some(patience)).unwrap();
    }
}

pub(crate) fn connect(address: &Address) -> Box<dyn Connection> {
    let text = address.to_string();
    let socket: Box<dyn Connection> = if let Some(name) = text.strip_prefix("unix:@") {
        let name = SocketAddr::from_abstract_name(name).unwrap();
        Box::new(UnixStream::connect_addr(&name).unwrap())
    } else {
        Box::new(TcpStream::connect(text.strip_prefix("tcp:").unwrap()).unwrap())
    };
    socket.patience(Duration::from_secs(5));
    socket
}

/// A right HELLO of `rank`, put together by hand from the documented layout.
pub(crate) fn hello(rank: u16, nodes: u16) -> Vec<u8> {
    let start = Header { kind: 240, from: rank, payload: 66, ..Header::default() };
    let mut bytes = start.encode().to_vec();
    bytes.extend(b"MGRN");
    for word in [PROTOCOL_VERSION, rank, nodes] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(JOB.to_le_bytes());
    bytes.extend(SECRET);
    bytes.extend(BUILD.to_le_bytes());
    assert_eq!(bytes.len(), HELLO_BYTES);
    bytes
}

/// `hello` with the byte at `at` changed.
pub(crate) fn spoilt(mut hello: Vec<u8>, at: usize) -> Vec<u8> {
    hello[at] ^= 0x40;
    hello
}
