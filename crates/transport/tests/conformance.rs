//! What every mesh promises, over each family of sockets.
#![expect(unsafe_code, reason = "sends from and receives into raw memory")]
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

mod support;

use multigrain_transport::{
    Header, LinkError, LostReason, Mesh, Payload, Receiver, Timeout, TransportError,
};
use multigrain_types::NodeId;
use rustix::thread::gettid;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use support::{
    Family, Log, boot, config, conformance, connect, header, hello, job, listeners, send_memory,
    spoilt, wait_asleep,
};

conformance! {
    every_node_reaches_every_other
    frames_of_a_link_arrive_in_order
    big_payloads_both_ways_at_once_do_not_deadlock
    a_frame_may_come_byte_by_byte
    unauthenticated_connections_at_boot_are_refused_and_boot_goes_on
    unauthenticated_connections_after_boot_are_refused_and_the_job_goes_on
    missing_ranks_are_named
    a_wrong_node_learns_why
    a_dead_peer_is_noticed_once
    leaving_is_not_dying
    leaving_nodes_still_deliver_what_is_queued
    a_peer_that_breaks_the_protocol_is_cut_off
    wake_ends_both_sleeps
    a_sleeper_wakes_when_its_request_was_taken
}

fn every_node_reaches_every_other(family: Family) {
    let (meshes, _) = job(family, 4);
    for mesh in &meshes {
        assert_eq!((mesh.nodes(), mesh.links_alive()), (4, 3));
        for to in (0..4).map(NodeId).filter(|to| *to != mesh.rank()) {
            mesh.send_bytes(to, header(1, mesh.rank().0.into()), b"hello").unwrap();
        }
        let own = mesh.rank();
        let alone = mesh.send_bytes(own, header(1, 0), b"");
        assert_eq!(alone, Err(LinkError::NoLink { to: own }));
    }
    for mesh in &meshes {
        let mut log = Log::default();
        log.until(mesh, |log| log.frames.len() == 3);
        let mut from: Vec<u16> = log.frames.iter().map(|(from, ..)| from.0).collect();
        from.sort_unstable();
        from.push(mesh.rank().0);
        from.sort_unstable();
        assert_eq!(from, [0, 1, 2, 3]);
        assert!(log.frames.iter().all(|(from, header, body)| {
            header.subject == u64::from(from.0) && header.from == from.0 && body == b"hello"
        }));
        let counters = mesh.counters();
        assert_eq!((counters.frames_sent, counters.bytes_sent), (3, 3 * 45));
        assert_eq!((counters.frames_received, counters.bytes_received), (3, 3 * 45));
    }
}

fn frames_of_a_link_arrive_in_order(family: Family) {
    let (meshes, _) = job(family, 2);
    let sizes = [0, 1, 100, 9000, 70_000];
    let count = 2000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..count {
                let bytes = vec![number as u8; sizes[number % sizes.len()]];
                let owned = Payload::Owned(bytes);
                // SAFETY: no raw memory here.
                unsafe { meshes[1].send(NodeId(0), header(1, number as u64), owned) }.unwrap();
            }
            // Somebody must receive to flush the queue.
            Log::default().until(&meshes[1], |log| !log.frames.is_empty());
        });
        // All of it is more than any socket holds; so some is queued before a byte is received.
        while meshes[1].counters().frames_queued == 0 {
            std::thread::yield_now();
        }
        let mut log = Log::default();
        log.until(&meshes[0], |log| log.frames.len() == count);
        for (number, (_, header, body)) in log.frames.iter().enumerate() {
            assert_eq!(header.subject, number as u64);
            assert_eq!(body.len(), sizes[number % sizes.len()]);
            assert!(body.iter().all(|byte| *byte == number as u8));
        }
        meshes[0].send_bytes(NodeId(1), header(2, 0), b"").unwrap();
    });
}

fn big_payloads_both_ways_at_once_do_not_deadlock(family: Family) {
    const BYTES: usize = 32 << 20;
    let (meshes, _) = job(family, 2);
    std::thread::scope(|scope| {
        for (own, mesh) in meshes.iter().enumerate() {
            scope.spawn(move || {
                let bytes = vec![own as u8 + 1; BYTES];
                let big = Header { flags: 1, ..header(1, 7) };
                send_memory(mesh, 1 - own as u16, big, &bytes);
                let mut log = Log::with_memory(BYTES);
                log.until(mesh, |log| !log.frames.is_empty());
                assert!(log.placed.iter().all(|byte| *byte == 2 - own as u8));
                mesh.send_bytes(NodeId(1 - own as u16), header(2, 0), b"").unwrap();
                log.until(mesh, |log| log.frames.len() == 2);
            });
        }
    });
}

fn a_frame_may_come_byte_by_byte(family: Family) {
    let (mut sockets, addresses) = listeners(family, 2);
    let node = boot(config(0, &addresses, sockets.remove(0)));
    let mut peer = connect(&addresses[0]);
    for byte in hello(1, 2) {
        peer.write_all(&[byte]).unwrap();
    }
    let mut answer = [0; 40];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!((answer[0], answer[4]), (241, 6), "WELCOME of version 6");
    let mesh = node.join().unwrap().0.unwrap();
    let sent = Header { from: 1, payload: 20, flags: 1, ..header(9, 4) };
    let bytes = [&sent.encode()[..], &[6; 20]].concat();
    let mut log = Log::with_memory(20);
    for byte in &bytes {
        assert!(log.frames.is_empty());
        peer.write_all(&[*byte]).unwrap();
        mesh.receive(&mut log, Timeout::Millis(1000));
    }
    log.until(&mesh, |log| log.frames.len() == 1);
    assert_eq!((log.frames[0].1, &log.placed), (sent, &vec![6; 20]));
    // A cut frame, then death.
    peer.write_all(&bytes[..40]).unwrap();
    drop(peer);
    log.until(&mesh, |log| !log.lost.is_empty());
    assert_eq!(log.lost, [(NodeId(1), LostReason::Died)]);
    assert_eq!(log.frames.len(), 1);
}

fn unauthenticated_connections_at_boot_are_refused_and_boot_goes_on(family: Family) {
    let (mut sockets, addresses) = listeners(family, 3);
    // They come first, all of them, before a single right peer.
    let silent = connect(&addresses[0]);
    let mut wrong: Vec<(&str, Vec<u8>)> = vec![
        ("does not speak Multigrain", b"GET / HTTP/1.0\r\n\r\n".to_vec()),
        ("does not speak Multigrain", vec![0xff; 1000]),
        ("does not speak Multigrain", spoilt(hello(1, 3), 40)),
        ("speaks version", spoilt(hello(1, 3), 44)),
        ("no node of rank", spoilt(hello(1, 3), 46)),
        ("no node of rank 0", hello(0, 3)),
        ("counts 67 nodes", spoilt(hello(1, 3), 48)),
        ("another job", spoilt(hello(1, 3), 50)),
        ("secret", spoilt(hello(1, 3), 66)),
        ("another build", spoilt(hello(1, 3), 98)),
    ];
    let mut connections: Vec<_> = wrong
        .iter()
        .map(|(_, bytes)| {
            let mut other = connect(&addresses[0]);
            other.write_all(bytes).unwrap();
            other
        })
        .collect();
    let mut cut = connect(&addresses[0]);
    cut.write_all(&hello(1, 3)[..50]).unwrap();
    drop(cut);
    wrong.push(("hung up", Vec::new()));
    let started = Instant::now();
    let nodes: Vec<_> = sockets
        .drain(..)
        .enumerate()
        .map(|(rank, socket)| boot(config(rank, &addresses, socket)))
        .collect();
    let mut results = nodes.into_iter().map(|node| node.join().unwrap());
    let (mesh, lines) = results.next().unwrap();
    assert_eq!(mesh.unwrap().links_alive(), 2);
    assert!(results.all(|(mesh, lines)| mesh.is_ok() && lines.is_empty()));
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "the silent one delayed the others: boot may take 10 s"
    );
    for (why, _) in &wrong {
        assert!(lines.iter().any(|line| line.contains(why)), "{why}: {lines:#?}");
    }
    // The silent one is told off at the end of boot; what several are refused for is said once.
    let whys: BTreeSet<&str> = wrong.iter().map(|&(why, _)| why).collect();
    assert_eq!(lines.len(), whys.len() + 1, "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains('\n')));
    let mut answer = Vec::new();
    connections[3].read_to_end(&mut answer).unwrap();
    assert_eq!((answer.len(), answer[0], answer[16]), (40, 242, 2), "REFUSED for the version");
    drop(silent);
}

fn unauthenticated_connections_after_boot_are_refused_and_the_job_goes_on(family: Family) {
    let (meshes, addresses) = job(family, 2);
    let mut log = Log::default();
    let garbage = vec![0xff; 1000];
    let late = [
        ("does not speak Multigrain", garbage),
        ("is connected already", hello(1, 2)),
        ("secret", spoilt(hello(1, 2), 66)),
        ("speaks version", spoilt(hello(1, 2), 44)),
        ("are here already", hello(1, 2)[..50].to_vec()),
    ];
    for (number, (why, bytes)) in late.iter().enumerate() {
        let mut other = connect(&addresses[0]);
        other.write_all(bytes).unwrap();
        meshes[1].send_bytes(NodeId(0), header(1, 0), b"work").unwrap();
        log.until(&meshes[0], |log| log.frames.len() > number && log.refused.len() > number);
        assert!(log.refused[number].contains(why), "{why}: {:?}", log.refused);
        let mut answer = Vec::new();
        let _ = other.read_to_end(&mut answer);
        assert_eq!(answer.first(), Some(&242), "REFUSED: {why}");
    }
    assert_eq!(log.refused.len(), late.len());
    // Found by polling too, and by the service thread, which does not spin on it; refused without a line, for who says nothing
    // is refused for what the last one was.
    let mut quiet = connect(&addresses[0]);
    assert!(meshes[0].service_wait(Timeout::Millis(2000)));
    meshes[0].receive(&mut log, Timeout::Now);
    let mut answer = Vec::new();
    let _ = quiet.read_to_end(&mut answer);
    assert_eq!((answer.first(), log.refused.len()), (Some(&242), late.len()));
    assert!(!meshes[0].service_wait(Timeout::Millis(20)));
    assert_eq!((meshes[0].links_alive(), log.lost.len()), (1, 0));
}

fn missing_ranks_are_named(family: Family) {
    let (mut sockets, addresses) = listeners(family, 4);
    let mut first = config(0, &addresses, sockets.remove(0));
    first.deadline = Duration::from_millis(400);
    let first = boot(first);
    let mut third = config(2, &addresses, sockets.remove(1));
    third.deadline = Duration::from_millis(400);
    let third = boot(third);
    let error = first.join().unwrap().0.unwrap_err();
    assert!(error.to_string().contains("in 0.4 s; still missing: 1 and 3"), "{error}");
    assert!(matches!(third.join().unwrap().0, Err(TransportError::Missing { .. })));
}

fn a_wrong_node_learns_why(family: Family) {
    let (mut sockets, addresses) = listeners(family, 2);
    let mut wrong = config(1, &addresses, sockets.remove(1));
    wrong.secret[0] ^= 1;
    let right = boot(config(0, &addresses, sockets.remove(0)));
    let error = boot(wrong).join().unwrap().0.unwrap_err();
    assert_eq!(error.to_string(), "node 0 refused this node: it does not know the job's secret");
    let spare = listeners(family, 1).0.remove(0);
    boot(config(1, &addresses, spare)).join().unwrap().0.unwrap();
    let (mesh, lines) = right.join().unwrap();
    assert_eq!((mesh.unwrap().links_alive(), lines.len()), (1, 1));
}

fn a_dead_peer_is_noticed_once(family: Family) {
    let (mut meshes, _) = job(family, 3);
    meshes[2].send_bytes(NodeId(0), header(1, 3), b"last words").unwrap();
    drop(meshes.remove(2));
    let mut log = Log::default();
    log.until(&meshes[0], |log| !log.lost.is_empty());
    assert_eq!(log.frames.len(), 1, "what was sent before the end counts");
    for _ in 0..5 {
        meshes[0].receive(&mut log, Timeout::Now);
        meshes[0].receive(&mut log, Timeout::Millis(1));
    }
    assert_eq!(log.lost, [(NodeId(2), LostReason::Died)]);
    let gone = meshes[0].send_bytes(NodeId(2), header(1, 0), b"");
    assert_eq!(gone, Err(LinkError::Gone { to: NodeId(2) }));
    assert_eq!(meshes[0].links_alive(), 1);
    assert!(!meshes[0].service_wait(Timeout::Millis(20)), "a dead link keeps nobody awake");
    meshes[0].send_bytes(NodeId(1), header(1, 0), b"").unwrap();
}

fn leaving_is_not_dying(family: Family) {
    let (mut meshes, _) = job(family, 3);
    meshes[0].leave();
    let gone = meshes[0].send_bytes(NodeId(1), header(1, 0), b"");
    assert_eq!(gone, Err(LinkError::Gone { to: NodeId(1) }));
    let mut log = Log::default();
    log.until(&meshes[1], |log| !log.lost.is_empty());
    assert_eq!(log.lost, [(NodeId(0), LostReason::Left)]);
    // The first one stays to see the others leave.
    meshes[1].leave();
    meshes[2].leave();
    let mut first = Log::default();
    first.until(&meshes[0], |log| log.lost.len() == 2);
    assert!(first.lost.iter().all(|(_, reason)| *reason == LostReason::Left));
    meshes[0].close();
    assert_eq!(meshes[0].receive(&mut first, Timeout::Forever), 0);
    assert_eq!(meshes[0].links_alive(), 0);
    drop(meshes.remove(0));
    log.until(&meshes[0], |log| log.lost.len() == 2);
    assert_eq!(log.lost[1], (NodeId(2), LostReason::Left));
}

fn leaving_nodes_still_deliver_what_is_queued(family: Family) {
    const BYTES: usize = 16 << 20;
    let (meshes, _) = job(family, 2);
    let big = vec![3; BYTES];
    send_memory(&meshes[1], 0, Header { flags: 1, ..header(1, 0) }, &big);
    meshes[1].leave();
    std::thread::scope(|scope| {
        scope.spawn(|| meshes[1].close());
        let mut log = Log::with_memory(BYTES);
        log.until(&meshes[0], |log| !log.lost.is_empty());
        assert_eq!(log.lost, [(NodeId(1), LostReason::Left)]);
        assert!(log.frames.len() == 1 && log.placed == big);
    });
}

fn a_peer_that_breaks_the_protocol_is_cut_off(family: Family) {
    let (meshes, _) = job(family, 2);
    let zero = meshes[1].send_bytes(NodeId(0), header(0, 0), b"");
    assert!(matches!(zero, Err(LinkError::Frame { .. })));
    meshes[1].send_bytes(NodeId(0), header(66, 0), b"evil").unwrap();
    let (mut log, mut other) = (Log::default(), Log::default());
    log.until(&meshes[0], |log| !log.lost.is_empty());
    let why = LostReason::Violation("kind 66 is evil".to_owned());
    assert_eq!(log.lost, [(NodeId(1), why)]);
    other.until(&meshes[1], |log| !log.lost.is_empty());
    assert_eq!(other.lost, [(NodeId(0), LostReason::Died)]);
}

fn wake_ends_both_sleeps(family: Family) {
    let (meshes, _) = job(family, 2);
    let alone = Mesh::single();
    for mesh in [&meshes[0], &alone] {
        mesh.suppress_wakeups(Receiver::Sleeps);
        let (told, sleepers) = mpsc::channel();
        let tell = || told.send(gettid()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                tell();
                mesh.service_wait(Timeout::Forever)
            });
            scope.spawn(|| {
                tell();
                mesh.receive(&mut Log::default(), Timeout::Forever)
            });
            sleepers.iter().take(2).for_each(wait_asleep);
            mesh.wake();
        });
        mesh.resume_wakeups();
        mesh.receive(&mut Log::default(), Timeout::Now);
        assert!(!mesh.service_wait(Timeout::Now), "one wake, one waking");
    }
}

fn a_sleeper_wakes_when_its_request_was_taken(family: Family) {
    let (meshes, _) = job(family, 2);
    let mut log = Log::default();
    meshes[0].wake_when_taken().unwrap();
    // What is new at the start: every socket is writable.
    meshes[0].receive(&mut log, Timeout::Millis(10));
    assert!(!wakes(&meshes[0], &mut log), "nothing was sent");
    meshes[0].send_bytes(NodeId(1), header(1, 0), b"request").unwrap();
    Log::default().until(&meshes[1], |log| !log.frames.is_empty());
    assert_eq!(wakes(&meshes[0], &mut log), family == Family::Unix, "TCP does not tell");
    assert!(!wakes(&meshes[0], &mut log), "it is told once");
    meshes[1].send_bytes(NodeId(0), header(1, 0), b"reply").unwrap();
    log.until(&meshes[0], |log| !log.frames.is_empty());
}

/// Whether a sleep ends before its time, with nothing.
fn wakes(mesh: &Mesh, log: &mut Log) -> bool {
    let begin = Instant::now();
    assert_eq!(mesh.receive(log, Timeout::Millis(200)), 0);
    begin.elapsed() < Duration::from_millis(150)
}
