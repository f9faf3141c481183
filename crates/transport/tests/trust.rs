//! Who gets in where links are encrypted, and what it costs a node to refuse the others.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "this is test code")]

mod support;

use multigrain_transport::{
    Address, Authority, BootConfig, Credentials, Mesh, Timeout, TransportError,
};
use multigrain_types::NodeId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};
use support::{Booting, Family, JOB, Log, boot, config, encrypted, header, hello, listeners};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const PATIENCE: Duration = Duration::from_secs(10);

/// Nodes of one job that have not started, and what they need.
struct Team {
    authority: Authority,
    clear: bool,
    sockets: Vec<Option<OwnedFd>>,
    addresses: Vec<Address>,
}

impl Team {
    fn new(nodes: usize) -> Self {
        let (sockets, addresses) = listeners(Family::Tcp, nodes);
        let sockets = sockets.into_iter().map(Some).collect();
        Self { authority: Authority::new(JOB).unwrap(), clear: false, sockets, addresses }
    }

    fn own(&self, rank: usize) -> Credentials {
        let own = self.authority.issue(NodeId(rank as u16)).unwrap();
        if self.clear { own.in_clear() } else { own }
    }

    fn boot(&mut self, rank: usize) -> Booting {
        let own = self.own(rank);
        self.boot_as(rank, &own)
    }

    fn boot_as(&mut self, rank: usize, own: &Credentials) -> Booting {
        let socket = self.sockets[rank].take().unwrap();
        boot(encrypted(rank, &self.addresses, socket, own))
    }

    fn address(&self, rank: usize) -> SocketAddr {
        self.addresses[rank].to_string().strip_prefix("tcp:").unwrap().parse().unwrap()
    }
}

/// Frames go both ways between these two.
fn talk(one: &Mesh, other: &Mesh) {
    for (from, to) in [(one, other), (other, one)] {
        for size in [0, 5, 4096, 100_000] {
            let body = vec![size as u8; size];
            from.send_bytes(to.rank(), header(7, size as u64), &body).unwrap();
        }
        let mut log = Log::default();
        while log.frames.len() < 4 {
            let wait = Timeout::Millis(20);
            from.receive(&mut Log::default(), Timeout::Now);
            to.receive(&mut log, wait);
        }
        assert!(log.frames.iter().all(|(_, header, body)| header.subject == body.len() as u64));
    }
}

/// Node 0 of two accepts an unauthenticated connection, and then the peer it waits for; the one line about the former.
fn line_about(intruder: impl FnOnce(&Team)) -> String {
    let mut team = Team::new(2);
    let node = team.boot(0);
    intruder(&team);
    let (peer, lines) = team.boot(1).join().unwrap();
    assert_eq!(lines, [""; 0]);
    let (mesh, lines) = node.join().unwrap();
    talk(&mesh.unwrap(), &peer.unwrap());
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(line.starts_with("refused a connection from 127.0.0.1:"), "{line}");
    line.split_once(": ").unwrap().1.to_owned()
}

/// Believes every server: what an unauthenticated peer may do.
#[derive(Debug)]
struct Gullible;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// An unauthenticated end of a TLS connection.
fn client(own: Option<&Credentials>) -> ClientConnection {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible));
    let config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let [_, certificate, key] = parts(own);
            let key = PrivatePkcs8KeyDer::from(key).into();
            config.with_client_auth_cert(vec![certificate.into()], key).unwrap()
        }
    };
    ClientConnection::new(Arc::new(config), "anybody".try_into().unwrap()).unwrap()
}

/// Authority, certificate and key of some credentials.
fn parts(own: &Credentials) -> [Vec<u8>; 3] {
    let text = own.to_text();
    let unhex = |part: &str| -> Vec<u8> {
        let pairs = part.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    };
    let parts: Vec<Vec<u8>> = text.split('.').take(3).map(unhex).collect();
    parts.try_into().unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Until the node has hung up; what it said.
fn to_the_end(mut socket: &TcpStream) -> Vec<u8> {
    let (mut all, mut room) = (Vec::new(), [0; 4096]);
    loop {
        match socket.read(&mut room) {
            Ok(0) => return all,
            Ok(got) => all.extend(&room[..got]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("the node does not hang up: {error}"),
        }
    }
}

/// Speaks TLS as far as it gets, says HELLO as rank 1, and waits for the end.
fn intrude(address: SocketAddr, own: Option<&Credentials>) {
    let mut socket = connect(address);
    let mut client = client(own);
    client.writer().write_all(&hello(1, 2)).unwrap();
    while client.is_handshaking() && client.complete_io(&mut socket).is_ok() {}
    let _ = client.complete_io(&mut socket);
    to_the_end(&socket);
}

/// The next connection, which must come within this time.
fn accept_within(listener: &TcpListener, time: Duration) -> TcpStream {
    let until = Instant::now() + time;
    listener.set_nonblocking(true).unwrap();
    loop {
        match listener.accept() {
            Ok((accepted, _)) => {
                accepted.set_nonblocking(false).unwrap();
                return accepted;
            }
            Err(_) => assert!(Instant::now() < until, "nobody connects"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Passes on what one end sends, until either ends.
fn pass_on(mut from: TcpStream, mut to: TcpStream) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    })
}

#[test]
fn a_node_that_is_cut_off_behind_its_hello_connects_again() {
    let mut team = Team::new(2);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let between = listener.local_addr().unwrap();
    let zero = team.boot(0);
    let there = team.address(0);
    team.addresses[0] = format!("tcp:{between}").parse().unwrap();
    let one = team.boot(1);
    let mut passing = Vec::new();
    for is_cut in [true, true, false] {
        let mut client = accept_within(&listener, PATIENCE);
        let mut server = TcpStream::connect(there).unwrap();
        passing.push(pass_on(server.try_clone().unwrap(), client.try_clone().unwrap()));
        let mut said = [0; 16 << 10];
        let first = client.read(&mut said).unwrap();
        server.write_all(&said[..first]).unwrap();
        // What it says next, with its HELLO, never comes.
        if is_cut {
            assert!(client.read(&mut said).unwrap() > 0);
            client.shutdown(Shutdown::Both).unwrap();
            server.shutdown(Shutdown::Both).unwrap();
        } else {
            passing.push(pass_on(client, server));
        }
    }
    for node in [one, zero] {
        node.join().unwrap().0.unwrap();
    }
    passing.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn nodes_with_certificates_of_one_job_meet_and_talk() {
    let mut team = Team::new(3);
    let booting: Vec<Booting> = (0..3).map(|rank| team.boot(rank)).collect();
    let meshes: Vec<Mesh> = booting
        .into_iter()
        .map(|node| {
            let (mesh, lines) = node.join().unwrap();
            assert_eq!(lines, [""; 0]);
            mesh.unwrap()
        })
        .collect();
    for (one, other) in [(0, 1), (1, 2), (0, 2)] {
        talk(&meshes[one], &meshes[other]);
    }
}

/// What a node says to another, with what it needs to join, as somebody on the way receives it.
fn overheard(clear: bool, said: &[u8]) -> Vec<u8> {
    let mut team = Team { clear, ..Team::new(2) };
    let node = team.boot(0);
    let (addresses, recorded) = tapped(&team);
    let socket = team.sockets[1].take().unwrap();
    let peer = boot(encrypted(1, &addresses, socket, &team.own(1)));
    let [mesh, peer] = [node, peer].map(|node| node.join().unwrap().0.unwrap());
    peer.send_bytes(NodeId(0), header(3, 0), said).unwrap();
    let mut log = Log::default();
    log.until(&mesh, |log| log.frames.len() == 1);
    assert_eq!(log.frames[0].2, said);
    drop((mesh, peer));
    recorded.iter().flatten().collect()
}

#[test]
fn the_secret_is_never_on_the_wire_and_what_is_said_only_where_the_user_wants_that() {
    let said = b"what nobody but the peer may read";
    for clear in [false, true] {
        let wire = overheard(clear, said);
        let has = |wanted: &[u8]| wire.windows(wanted.len()).any(|bytes| bytes == wanted);
        assert!(!has(&support::SECRET));
        assert_eq!((has(said), has(b"MGRN")), (clear, clear));
    }
}

#[test]
fn who_knows_the_secret_and_has_no_certificate_is_refused_though_nothing_is_encrypted() {
    let mut team = Team { clear: true, ..Team::new(2) };
    let node = team.boot(0);
    let mut socket = connect(team.address(0));
    socket.write_all(&hello(1, 2)).unwrap();
    to_the_end(&socket);
    intrude(team.address(0), None);
    let (peer, _) = team.boot(1).join().unwrap();
    let (mesh, lines) = node.join().unwrap();
    talk(&mesh.unwrap(), &peer.unwrap());
    let why: Vec<&str> = lines.iter().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(why, ["it does not speak TLS, as this job does", "it has no certificate"]);
}

/// A way to node 0 that leads past somebody who writes down what node 1 says.
fn tapped(team: &Team) -> (Vec<Address>, mpsc::Receiver<Vec<u8>>) {
    let real = team.address(0);
    let tap = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut addresses = team.addresses.clone();
    addresses[0] = format!("tcp:{}", tap.local_addr().unwrap()).parse().unwrap();
    let (record, recorded) = mpsc::channel();
    std::thread::spawn(move || {
        let (near, _) = tap.accept().unwrap();
        let far = TcpStream::connect(real).unwrap();
        let pass = |mut from: TcpStream, mut to: TcpStream, record: Option<mpsc::Sender<_>>| {
            std::thread::spawn(move || {
                let mut room = [0; 4096];
                while let Ok(got @ 1..) = from.read(&mut room) {
                    if to.write_all(&room[..got]).is_err() {
                        break;
                    }
                    let _ = record.as_ref().map(|record| record.send(room[..got].to_vec()));
                }
                let _ = to.shutdown(Shutdown::Write);
            })
        };
        pass(far.try_clone().unwrap(), near.try_clone().unwrap(), None);
        pass(near, far, Some(record));
    });
    (addresses, recorded)
}

#[test]
fn a_peer_without_a_certificate_is_refused() {
    let line = line_about(|team| intrude(team.address(0), None));
    assert_eq!(line, "it has no certificate");
}

#[test]
fn a_certificate_of_another_authority_is_refused_though_it_names_the_job() {
    let other = Authority::new(JOB).unwrap().issue(NodeId(1)).unwrap();
    let line = line_about(|team| intrude(team.address(0), Some(&other)));
    assert_eq!(line, "its certificate is not of this job");
}

#[test]
fn a_certificate_that_is_old_or_not_valid_yet_is_refused() {
    let now = SystemTime::now();
    for valid in [[now - 9 * DAY, now - DAY], [now + DAY, now + 9 * DAY]] {
        let authority = Authority::of_time(JOB, valid).unwrap();
        let mut team = Team { authority, ..Team::new(2) };
        let own = team.own(0);
        let socket = team.sockets[0].take().unwrap();
        let config = encrypted(0, &team.addresses, socket, &own);
        let node = boot(BootConfig { deadline: Duration::from_secs(2), ..config });
        intrude(team.address(0), Some(&team.own(1)));
        let (result, lines) = node.join().unwrap();
        assert!(matches!(result, Err(TransportError::Missing { .. })));
        let why = "its certificate is not valid at this time: it is old, or the clocks of the hosts differ";
        assert!(lines.len() == 1 && lines[0].ends_with(why), "{lines:?}");
    }
}

#[test]
fn a_node_speaks_for_no_rank_but_its_own() {
    let mut team = Team::new(3);
    let node = team.boot(0);
    // Rank 2 says that it is 1: the certificate is good, and not for that.
    let own = team.own(2);
    let (result, _) = team.boot_as(1, &own).join().unwrap();
    let why = "node 0 refused this node: its certificate is not that of rank 1";
    assert_eq!(result.unwrap_err().to_string(), why);
    drop(team);
    let (_, lines) = node.join().unwrap();
    assert!(lines[0].ends_with("its certificate is not that of rank 1"), "{lines:?}");
}

#[test]
fn a_node_joins_nobody_but_the_rank_it_looks_for() {
    // Who listens at node 0's address has a certificate, but another rank's, or another authority's.
    let other = Authority::new(JOB).unwrap().issue(NodeId(0)).unwrap();
    for (own, why) in [
        (None, "node 0 is not to be trusted: its certificate is not that of rank 0"),
        (Some(other), "node 0 is not to be trusted: its certificate is not of this job"),
    ] {
        let mut team = Team::new(3);
        let own = own.unwrap_or_else(|| team.own(2));
        let node = team.boot_as(0, &own);
        let (result, _) = team.boot(1).join().unwrap();
        assert_eq!(result.unwrap_err().to_string(), why);
        drop((team, node));
    }
}

#[test]
fn plain_bytes_are_refused_where_tls_is_wanted_and_tls_where_it_is_not() {
    let line = line_about(|team| {
        let mut socket = connect(team.address(0));
        socket.write_all(&hello(1, 2)).unwrap();
        to_the_end(&socket);
    });
    assert_eq!(line, "it does not speak TLS, as this job does");
    let line = line_about(|team| {
        let mut socket = connect(team.address(0));
        socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        to_the_end(&socket);
    });
    assert_eq!(line, "it does not speak TLS, as this job does");

    let (mut sockets, addresses) = listeners(Family::Tcp, 2);
    let node = boot(config(0, &addresses, sockets.remove(0)));
    let address = addresses[0].to_string();
    intrude(address.strip_prefix("tcp:").unwrap().parse().unwrap(), None);
    let (peer, _) = boot(config(1, &addresses, sockets.remove(0))).join().unwrap();
    let (mesh, lines) = node.join().unwrap();
    talk(&mesh.unwrap(), &peer.unwrap());
    assert!(
        lines.len() == 1 && lines[0].ends_with("it speaks TLS, which this job does not"),
        "{lines:?}"
    );
}

#[test]
fn an_older_version_of_tls_is_refused() {
    let line = line_about(|team| {
        let mut socket = connect(team.address(0));
        socket.write_all(&client_hello_of_tls_1_2()).unwrap();
        let said = to_the_end(&socket);
        assert_eq!(said[0], 21, "an alert, and no ServerHello");
    });
    assert_eq!(line, "it does not speak TLS 1.3 as this job does");
}

/// A ClientHello without supported_versions: 1.2 is the most it can do.
fn client_hello_of_tls_1_2() -> Vec<u8> {
    let extensions = [
        // supported_groups: x25519; signature_algorithms: ecdsa_secp256r1_sha256; ec_point_formats.
        &[0, 10, 0, 4, 0, 2, 0, 29][..],
        &[0, 13, 0, 4, 0, 2, 4, 3],
        &[0, 11, 0, 2, 1, 0],
    ]
    .concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    // No session; ECDHE-ECDSA-AES128-GCM-SHA256; no compression.
    body.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let length = body.len() as u8;
    [&[22, 3, 1, 0, length + 4, 1, 0, 0, length][..], &body].concat()
}

#[test]
fn bytes_that_were_heard_before_let_nobody_in() {
    // A HELLO of 106 bytes, sealed.
    const SEALED_HELLO: [u8; 5] = [23, 3, 3, 0, 106 + 17];
    let mut team = Team::new(3);
    let node = team.boot(0);
    let (addresses, recorded) = tapped(&team);
    let socket = team.sockets[1].take().unwrap();
    let peer = boot(encrypted(1, &addresses, socket, &team.own(1)));
    let mut received: Vec<u8> = Vec::new();
    while !received.windows(5).any(|bytes| bytes == SEALED_HELLO) {
        received.extend(recorded.recv_timeout(PATIENCE).unwrap());
    }
    let mut again = connect(team.address(0));
    again.write_all(&received).unwrap();
    to_the_end(&again);
    let last = team.boot(2);
    let (mesh, lines) = node.join().unwrap();
    assert!(
        lines.len() == 1 && lines[0].ends_with("its part of the TLS handshake is wrong"),
        "{lines:?}"
    );
    let [peer, last] = [peer, last].map(|node| node.join().unwrap().0.unwrap());
    talk(&mesh.unwrap(), &peer);
    drop(last);
}

#[test]
fn a_slow_handshake_is_given_up() {
    let line = line_about(|team| {
        let mut socket = connect(team.address(0));
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut first = Vec::new();
        client(None).write_tls(&mut first).unwrap();
        let began = Instant::now();
        // A byte now and then is no reason to wait longer.
        for byte in first {
            let ended =
                socket.write_all(&[byte]).is_err() || matches!(socket.read(&mut [0]), Ok(0));
            if ended {
                assert!(began.elapsed() < Duration::from_secs(8));
                return;
            }
        }
        panic!("all of it was listened to");
    });
    assert_eq!(line, "it did not finish the handshake in time");
}

#[test]
fn a_flood_of_handshakes_that_nobody_ends_keeps_no_node_out() {
    let mut team = Team::new(2);
    let node = team.boot(0);
    let mut first = Vec::new();
    client(None).write_tls(&mut first).unwrap();
    let mut flood = Vec::new();
    for _ in 0..300 {
        let mut socket = connect(team.address(0));
        // The node may have hung up already.
        let _ = socket.write_all(&first);
        flood.push(socket);
    }
    let (peer, _) = team.boot(1).join().unwrap();
    let (mesh, lines) = node.join().unwrap();
    talk(&mesh.unwrap(), &peer.unwrap());
    // One that there were too many, one that they were silent.
    assert!((1..=2).contains(&lines.len()), "{}: {lines:?}", lines.len());
}

#[test]
fn who_comes_when_all_are_there_gets_no_handshake() {
    let mut team = Team::new(2);
    let (node, peer) = (team.boot(0), team.boot(1));
    let (mesh, peer) = (node.join().unwrap().0.unwrap(), peer.join().unwrap().0.unwrap());
    let address = team.address(0);
    let intruder = std::thread::spawn(move || {
        let mut socket = connect(address);
        client(None).write_tls(&mut socket).unwrap();
        to_the_end(&socket)
    });
    let mut log = Log::default();
    log.until(&mesh, |log| !log.refused.is_empty());
    assert!(log.refused[0].ends_with("all nodes of the job are here already"), "{:?}", log.refused);
    let said = intruder.join().unwrap();
    assert!(said.len() <= 40, "no certificate was sent: {} bytes", said.len());
    talk(&mesh, &peer);
}
