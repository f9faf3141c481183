//! How nodes find each other at boot: peers that listen late, and nodes that listen at several addresses.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

mod support;

use multigrain_transport::{Transport, TransportError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;
use support::{Family, boot, config, conformance, listeners};

conformance! {
    a_peer_that_does_not_listen_yet_is_tried_again
    a_peer_that_never_listens_is_named_with_its_address
}

fn a_peer_that_does_not_listen_yet_is_tried_again(family: Family) {
    let (mut sockets, addresses) = listeners(family, 3);
    let late = sockets.remove(0);
    drop(late);
    let [one, two] = <[_; 2]>::try_from(sockets).unwrap();
    let waiting = one.try_clone().unwrap();
    let last = boot(config(2, &addresses, two));
    // It connects to node 0 first, where nobody listens, and then to node 1.
    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&waiting, PollFlags::IN)], Some(&limit)), Ok(1));
    let (late, _) = Transport::AUTO.bind(&addresses[0]).unwrap();
    let first = boot(config(0, &addresses, late));
    let middle = boot(config(1, &addresses, one));
    for booting in [first, middle, last] {
        let (mesh, lines) = booting.join().unwrap();
        assert_eq!((mesh.unwrap().links_alive(), lines.len()), (2, 0));
    }
}

fn a_peer_that_never_listens_is_named_with_its_address(family: Family) {
    let (mut sockets, addresses) = listeners(family, 2);
    let own = sockets.pop().unwrap();
    drop(sockets);
    let mut config = config(1, &addresses, own);
    config.deadline = Duration::from_millis(200);
    let error = boot(config).join().unwrap().0.unwrap_err();
    assert!(matches!(error, TransportError::Connect { .. }), "{error}");
    assert!(error.to_string().contains(&addresses[0].to_string()), "{error}");
}

#[test]
fn a_node_is_reached_at_each_address_it_listens_at() {
    let (unix, unix_addresses) = listeners(Family::Unix, 3);
    let (tcp, tcp_addresses) = listeners(Family::Tcp, 3);
    // Nodes 0 and 1 are neighbours, and node 2 is not.
    let near = [&unix_addresses[0], &unix_addresses[1], &tcp_addresses[2]].map(Clone::clone);
    let booting: Vec<_> = unix
        .into_iter()
        .zip(tcp)
        .enumerate()
        .map(|(rank, (unix, tcp))| {
            let peers = if rank == 2 { &tcp_addresses[..] } else { &near[..] };
            let mut config = config(rank, peers, unix);
            config.listeners.push(tcp);
            boot(config)
        })
        .collect();
    for booting in booting {
        let (mesh, lines) = booting.join().unwrap();
        assert_eq!((mesh.unwrap().links_alive(), lines.len()), (2, 0));
    }
}
