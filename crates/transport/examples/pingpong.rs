//! Round trips of a small request and a page: plain sockets next to the mesh.
//!
//! `cargo run --release -p multigrain-transport --example pingpong [rounds [only]]` prints the 5th,
//! 50th and 99th percentile, in microseconds, of 64 bytes out and 4096 back, between two threads,
//! both spinning and both blocking, over a Unix socket, over TCP and over TCP with TLS; and how much goes one way.
#![expect(unsafe_code, reason = "the page is sent from and received into raw memory")]
#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use multigrain_transport::{
    Address, Authority, BootConfig, Conditions, Destination, Header, LostReason, Mesh, Payload,
    Sink, Timeout, Transport,
};
use multigrain_types::NodeId;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::time::{Duration, Instant};

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const PAGE: usize = 4096;
const SUBJECT: u64 = 42;

fn main() {
    let rounds = std::env::args().nth(1).map_or(50_000, |text| text.parse().expect("rounds"));
    let only = std::env::args().nth(2).unwrap_or_default();
    println!("64 B -> {PAGE} B, {rounds} rounds, us        p5  median     p99");
    for wait in ["spinning", "blocking"] {
        for family in ["unix", "tcp", "tls"] {
            let spin = wait == "spinning";
            let rounds = if spin { rounds } else { rounds / 5 };
            let raw_too = if family == "tls" { 2 } else { 0 };
            for way in &["raw socket", "raw socket in two epolls", "mesh"][raw_too..] {
                let name = format!("{family} {wait} {way}");
                if !name.contains(&only) {
                    continue;
                }
                let times = match *way {
                    "raw socket" => raw(family, spin, false, rounds),
                    "raw socket in two epolls" => raw(family, spin, true, rounds),
                    _ => mesh(family, spin, rounds),
                };
                report(&name, times);
            }
        }
    }
    for family in ["unix", "tcp", "tls"] {
        let name = format!("{family} bulk mesh");
        if name.contains(&only) {
            println!("{name:45} {:7.0} MB/s", bulk(family));
        }
    }
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6;
    println!("{name:45} {:7.2} {:7.2} {:7.2}", at(5), at(50), at(99));
}

/// Calls `round` so often, and a tenth before that to warm up.
fn measure(rounds: usize, mut round: impl FnMut()) -> Vec<Duration> {
    let mut times = Vec::with_capacity(rounds);
    for number in 0..rounds + rounds / 10 {
        let start = Instant::now();
        round();
        if number >= rounds / 10 {
            times.push(start.elapsed());
        }
    }
    times
}

/// Two connected plain sockets with the options of a link.
fn pair(family: &str) -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    if family == "unix" {
        return net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    }
    let (listener, Address::Tcp(address)) =
        Transport::AUTO.bind(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap()
    else {
        unreachable!("a TCP listener has a TCP address")
    };
    let near = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    net::connect(&near, &address).unwrap();
    let far = net::accept_with(&listener, flags).unwrap();
    sockopt::set_tcp_nodelay(&near, true).unwrap();
    sockopt::set_tcp_nodelay(&far, true).unwrap();
    (near, far)
}

/// Reads until `buffer` is full; false at the end of the stream.
fn fill(socket: &OwnedFd, buffer: &mut [u8], flags: RecvFlags) -> bool {
    let mut have = 0;
    while have < buffer.len() {
        match net::recv(socket, &mut buffer[have..], flags) {
            Ok((0, _)) => return false,
            Ok((bytes, _)) => have += bytes,
            Err(_) => core::hint::spin_loop(),
        }
    }
    true
}

/// An epoll set in an epoll set with this socket, which nobody asks: every arrival tells both.
fn watched(socket: &OwnedFd) -> [OwnedFd; 2] {
    let sets = [0; 2].map(|_| epoll::create(epoll::CreateFlags::CLOEXEC).unwrap());
    let (key, events) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
    epoll::add(&sets[0], socket, key, events).unwrap();
    epoll::add(&sets[1], &sets[0], key, events).unwrap();
    sets
}

fn raw(family: &str, spin: bool, watch: bool, rounds: usize) -> Vec<Duration> {
    let (near, far) = pair(family);
    let _sets = watch.then(|| [watched(&near), watched(&far)]);
    let flags = if spin { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
    let server = std::thread::spawn(move || {
        let (mut request, reply) = ([0; 64], [7; Header::BYTES + PAGE]);
        while fill(&far, &mut request, flags) {
            net::send(&far, &reply, SendFlags::NOSIGNAL).unwrap();
        }
    });
    let (request, mut reply) = ([1; 64], [0; Header::BYTES + PAGE]);
    let times = measure(rounds, || {
        net::send(&near, &request, SendFlags::NOSIGNAL).unwrap();
        fill(&near, &mut reply, flags);
    });
    drop(near);
    server.join().unwrap();
    times
}

/// Either end: the server answers requests, the client waits for the reply.
struct End<'a> {
    mesh: &'a Mesh,
    page: Vec<u8>,
    replies: usize,
    over: bool,
}

// SAFETY: the page lives as long as the sink and is as long as every payload placed there.
unsafe impl Sink for End<'_> {
    fn place(&mut self, _from: NodeId, header: &Header) -> Result<Destination, String> {
        assert!(header.payload <= self.page.len() as u64);
        Ok(Destination::At(self.page.as_mut_ptr()))
    }

    fn frame(&mut self, from: NodeId, header: &Header, _: Option<&[u8]>) -> Result<(), String> {
        if header.kind == REPLY {
            self.replies += 1;
            return Ok(());
        }
        let reply = Header { kind: REPLY, ..*header };
        let payload = Payload::Memory { ptr: self.page.as_ptr(), len: PAGE };
        // SAFETY: the page does not change.
        unsafe { self.mesh.send(from, reply, payload) }.map_err(|error| error.to_string())
    }

    fn lost(&mut self, _from: NodeId, _reason: LostReason) {
        self.over = true;
    }

    fn refused(&mut self, line: String) {
        eprintln!("{line}");
    }
}

fn job(family: &str) -> Vec<Mesh> {
    let address = match family {
        "unix" => ["unix:@mg-pingpong-0", "unix:@mg-pingpong-1"],
        _ => ["tcp:127.0.0.1:0"; 2],
    };
    let (sockets, peers): (Vec<_>, Vec<_>) = address
        .map(|text| Transport::AUTO.bind(&text.parse().unwrap()).unwrap())
        .into_iter()
        .unzip();
    let authority = (family == "tls").then(|| Authority::new(1).unwrap());
    let boot = |(rank, socket)| {
        let peers = peers.clone();
        let credentials = authority.as_ref().map(|one| one.issue(NodeId(rank)).unwrap());
        std::thread::spawn(move || {
            let config = BootConfig {
                rank: NodeId(rank),
                peers,
                listeners: vec![socket],
                job: 1,
                secret: [2; 32],
                credentials,
                build: 3,
                deadline: Duration::from_secs(5),
                transport: Transport::AUTO,
                conditions: Conditions::default(),
            };
            Mesh::boot(config, &mut |line| eprintln!("{line}")).unwrap()
        })
    };
    let booting: Vec<_> = (0..).zip(sockets).map(boot).collect();
    booting.into_iter().map(|one| one.join().unwrap()).collect()
}

fn mesh(family: &str, spin: bool, rounds: usize) -> Vec<Duration> {
    let meshes = job(family);
    let end = |mesh| End { mesh, page: vec![7; PAGE], replies: 0, over: false };
    let wait = if spin { Timeout::Now } else { Timeout::Forever };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = end(&meshes[0]);
            while !server.over {
                meshes[0].receive(&mut server, wait);
            }
        });
        let mesh = &meshes[1];
        let mut client = end(mesh);
        let request = Header { kind: REQUEST, subject: SUBJECT, ..Header::default() };
        let times = measure(rounds, || {
            let before = client.replies;
            mesh.send_bytes(NodeId(0), request, &[1; 64 - Header::BYTES]).unwrap();
            while client.replies == before {
                mesh.receive(&mut client, wait);
            }
        });
        mesh.leave();
        times
    })
}

/// A gigabyte one way, 64 KiB at a time; in 10^6 bytes a second.
fn bulk(family: &str) -> f64 {
    const PIECE: usize = 64 << 10;
    const PIECES: u64 = 16 << 10;
    let meshes = job(family);
    let end = |mesh| End { mesh, page: vec![7; PIECE], replies: 0, over: false };
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = end(&meshes[0]);
            while !server.over {
                meshes[0].receive(&mut server, Timeout::Forever);
            }
        });
        let mesh = &meshes[1];
        let piece = vec![7; PIECE];
        let header = Header { kind: REPLY, subject: SUBJECT, ..Header::default() };
        for _ in 0..PIECES {
            let payload = Payload::Memory { ptr: piece.as_ptr(), len: PIECE };
            // SAFETY: the piece stays until the peer has all of it, and nobody changes it.
            unsafe { mesh.send(NodeId(0), header, payload) }.unwrap();
        }
        // It is answered when all is there; receiving sends what waits.
        let request = Header { kind: REQUEST, ..header };
        mesh.send_bytes(NodeId(0), request, &[1]).unwrap();
        let mut client = end(mesh);
        while client.replies == 0 {
            mesh.receive(&mut client, Timeout::Forever);
        }
        mesh.leave();
    });
    (PIECES * PIECE as u64) as f64 / start.elapsed().as_secs_f64() / 1e6
}
