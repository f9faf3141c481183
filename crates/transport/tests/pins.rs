//! Nodes without an authority: each believes the certificates whose digests it was told, each for its rank.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "this is test code")]

mod support;

use multigrain_transport::{Address, BootConfig, Credentials, Mesh, Pin, TransportError};
use multigrain_types::NodeId;
use std::os::fd::OwnedFd;
use std::time::Duration;
use support::{Family, Log, boot, encrypted, header, listeners};

/// Three nodes that have told each other their digests.
struct Nodes {
    made: Vec<(Credentials, Pin)>,
    sockets: Vec<Option<OwnedFd>>,
    addresses: Vec<Address>,
}

impl Nodes {
    fn new() -> Self {
        let made = (0..3).map(|_| Credentials::of_its_own().unwrap()).collect();
        let (sockets, addresses) = listeners(Family::Tcp, 3);
        Self { made, sockets: sockets.into_iter().map(Some).collect(), addresses }
    }

    fn pins(&self) -> Vec<Pin> {
        self.made.iter().map(|(_, pin)| *pin).collect()
    }

    /// A node that has the key of `key`, and was told these digests.
    fn boot(&mut self, rank: usize, key: usize, pins: Vec<Pin>) -> support::Booting {
        let own = self.made[key].0.clone().trusting(pins);
        let socket = self.sockets[rank].take().unwrap();
        let config = encrypted(rank, &self.addresses, socket, &own);
        boot(BootConfig { deadline: Duration::from_secs(2), ..config })
    }
}

fn why(result: Result<Mesh, TransportError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn nodes_that_know_each_others_digests_meet_and_talk() {
    let mut nodes = Nodes::new();
    let booting: Vec<_> = (0..3).map(|rank| nodes.boot(rank, rank, nodes.pins())).collect();
    let meshes: Vec<Mesh> = booting.into_iter().map(|one| one.join().unwrap().0.unwrap()).collect();
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        meshes[from].send_bytes(NodeId(to), header(7, 0), b"words").unwrap();
        let mut log = Log::default();
        log.until(&meshes[usize::from(to)], |log| log.frames.len() == 1);
        assert_eq!(
            (log.frames[0].0, log.frames[0].2.as_slice()),
            (NodeId(from as u16), &b"words"[..])
        );
    }
}

#[test]
fn a_node_whose_digest_is_another_is_believed_by_nobody() {
    let mut nodes = Nodes::new();
    let mut told = nodes.pins();
    told[1] = Credentials::of_its_own().unwrap().1;
    let node = nodes.boot(0, 0, told);
    let other = nodes.boot(1, 1, nodes.pins());
    let other = why(other.join().unwrap().0);
    assert_eq!(other, "node 0 is not to be trusted: it does not trust this node's certificate");
    let (result, lines) = node.join().unwrap();
    assert!(matches!(result, Err(TransportError::Missing { .. })));
    assert!(lines[0].ends_with("its certificate is not of this job"), "{lines:?}");
}

#[test]
fn who_listens_with_a_key_that_nobody_was_told_of_is_not_joined() {
    let mut nodes = Nodes::new();
    let told = nodes.pins();
    nodes.made.push(Credentials::of_its_own().unwrap());
    let _listens = nodes.boot(0, 3, told.clone());
    let result = nodes.boot(1, 1, told).join().unwrap().0;
    assert_eq!(why(result), "node 0 is not to be trusted: its certificate is not of this job");
}

#[test]
fn a_node_of_the_job_speaks_for_no_other_rank() {
    let mut nodes = Nodes::new();
    let told = nodes.pins();
    // Who has the key of rank 2 says that it is 1, and another one listens where 0 should.
    let node = nodes.boot(0, 0, told.clone());
    let result = nodes.boot(1, 2, told.clone()).join().unwrap().0;
    assert_eq!(why(result), "node 0 refused this node: its certificate is not that of rank 1");
    let (_, lines) = node.join().unwrap();
    assert!(lines[0].ends_with("its certificate is not that of rank 1"), "{lines:?}");

    let mut nodes = Nodes::new();
    let told = nodes.pins();
    let _listens = nodes.boot(0, 2, told.clone());
    let result = nodes.boot(1, 1, told).join().unwrap().0;
    assert_eq!(why(result), "node 0 is not to be trusted: its certificate is not that of rank 0");
}
