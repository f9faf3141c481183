//! Long payloads: as one stream, whose first bytes are in their place while later ones travel, and in parts that are
//! acknowledged one by one (MIRAGE+ 3.1, 3.2).
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "this is test code")]

mod support;

use core::num::NonZeroUsize;
use multigrain_transport::{Authority, BootConfig, Conditions, Header, LostReason, Mesh, Timeout};
use multigrain_types::NodeId;
use std::time::{Duration, Instant};
use support::{
    Family, JOB, Log, boot, config, conformance, encrypted, header, listeners, send_memory,
};

const PART: usize = 1024;

conformance! {
    the_first_bytes_of_a_payload_are_in_their_place_while_later_ones_wait_at_the_sender
    a_part_is_not_sent_before_the_one_before_it_is_acknowledged
    in_parts_both_directions_at_once_arrive_whole_and_frames_keep_their_order
    a_node_that_leaves_has_said_all_though_it_went_in_parts
    a_node_that_has_left_keeps_no_other_from_leaving_whose_parts_it_does_not_acknowledge
    encrypted_links_carry_parts_as_well
    encrypted_nodes_with_parts_under_way_leave_in_any_order
}

/// Two nodes that send payloads in parts of this length, or as streams.
fn pair(family: Family, part: Option<usize>, tls: bool) -> [Mesh; 2] {
    let (sockets, addresses) = listeners(family, 2);
    let authority = Authority::new(JOB).unwrap();
    let booting: Vec<_> = (0..2)
        .zip(sockets)
        .map(|(rank, socket)| {
            let plain = if tls {
                let own = authority.issue(NodeId(u16::try_from(rank).unwrap())).unwrap();
                encrypted(rank, &addresses, socket, &own)
            } else {
                config(rank, &addresses, socket)
            };
            let part = part.and_then(NonZeroUsize::new);
            boot(BootConfig { conditions: Conditions { emulate: None, part }, ..plain })
        })
        .collect();
    let meshes: Vec<Mesh> = booting.into_iter().map(|one| one.join().unwrap().0.unwrap()).collect();
    meshes.try_into().unwrap()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (1..=251).cycle().take(bytes).collect()
}

/// A frame whose payload goes to the receiver's memory.
fn placed(subject: u64) -> Header {
    Header { flags: 1, ..header(7, subject) }
}

/// Receives until this node has received nothing more for a while.
fn receive_all(mesh: &Mesh, log: &mut Log) {
    let before = || mesh.counters().bytes_received;
    loop {
        let seen = before();
        let end = Instant::now() + Duration::from_millis(60);
        while Instant::now() < end {
            mesh.receive(log, Timeout::Millis(10));
        }
        if before() == seen {
            return;
        }
    }
}

fn the_first_bytes_of_a_payload_are_in_their_place_while_later_ones_wait_at_the_sender(
    family: Family,
) {
    const BYTES: usize = 64 << 20;
    let [one, other] = pair(family, None, false);
    let bytes = pattern(BYTES);
    let mut log = Log::with_memory(BYTES);
    send_memory(&one, 1, placed(1), &bytes);
    assert_eq!(one.counters().frames_queued, 1, "more than fits between two nodes");
    receive_all(&other, &mut log);
    assert!(log.frames.is_empty(), "the sender has not sent the rest");
    let early = usize::try_from(other.counters().bytes_placed_early).unwrap();
    assert!(early > 64 << 10 && early < BYTES, "{early}");
    assert!(log.placed[..early] == bytes[..early], "they are in their place");
    assert!(log.placed[early..].iter().all(|&byte| byte == 0), "and no more than is counted");
    std::thread::scope(|scope| {
        let sends = scope.spawn(|| {
            let mut log = Log::default();
            log.until(&one, |log| !log.frames.is_empty());
        });
        log.until(&other, |log| !log.frames.is_empty());
        other.send_bytes(NodeId(0), header(7, 2), &[]).unwrap();
        sends.join().unwrap();
    });
    assert!(log.placed == bytes);
    assert_eq!(other.counters().parts_acknowledged, 0);
}

fn a_part_is_not_sent_before_the_one_before_it_is_acknowledged(family: Family) {
    let [one, other] = pair(family, Some(PART), false);
    let bytes = pattern(3 * PART + 5);
    let (mut there, mut here) = (Log::with_memory(bytes.len()), Log::default());
    send_memory(&one, 1, placed(1), &bytes);
    let since = Instant::now();
    one.wait_for_room(NodeId(1));
    assert!(
        since.elapsed() >= Duration::from_millis(1),
        "there is room in the link, and nothing that may go"
    );
    for parts in 1..=3 {
        receive_all(&other, &mut there);
        let (known, unknown) = there.placed.split_at(parts * PART);
        assert!(known == &bytes[..parts * PART], "part {parts}");
        assert!(unknown.iter().all(|&byte| byte == 0), "part {parts} alone");
        assert!(there.frames.is_empty());
        receive_all(&one, &mut here);
    }
    receive_all(&other, &mut there);
    assert_eq!(there.frames.len(), 1);
    assert!(there.placed == bytes);
    assert_eq!(other.counters().parts_acknowledged, 3, "the last one needs none");
    let [sent, received] = [one.counters(), other.counters()];
    assert_eq!(
        (sent.frames_sent, received.frames_received),
        (1, 1),
        "it is one message all the same"
    );
    // What is not longer than a part goes as ever.
    send_memory(&one, 1, placed(2), &bytes[..PART]);
    there.until(&other, |log| log.frames.len() == 2);
    assert_eq!(other.counters().parts_acknowledged, 3);
}

/// Two nodes that send to each other at once: frames of their own, and others between them.
fn exchange(meshes: &[Mesh; 2]) {
    const BYTES: usize = 100_000;
    const ROUNDS: u64 = 20;
    std::thread::scope(|scope| {
        for (rank, mesh) in (0..).zip(meshes) {
            scope.spawn(move || {
                let (bytes, peer) = (pattern(BYTES), 1 - rank);
                let mut log = Log::with_memory(BYTES);
                for round in 0..ROUNDS {
                    send_memory(mesh, peer, placed(3 * round), &bytes);
                    mesh.send_bytes(NodeId(peer), header(8, 3 * round + 1), &bytes[..3 * PART])
                        .unwrap();
                    mesh.defer(NodeId(peer), header(9, 3 * round + 2)).unwrap();
                }
                mesh.flush_deferred();
                log.until(mesh, |log| log.frames.len() >= 3 * 20 || !log.lost.is_empty());
                assert_eq!(log.lost, []);
                let subjects: Vec<u64> =
                    log.frames[..3 * 20].iter().map(|(_, header, _)| header.subject).collect();
                assert_eq!(subjects, (0..3 * ROUNDS).collect::<Vec<_>>());
                assert!(log.placed == bytes);
                assert!(
                    log.frames.iter().all(|(_, header, body)| {
                        header.kind != 8 || body == &bytes[..3 * PART]
                    })
                );
                // Its peer may lack the end of what this node has said.
                mesh.send_bytes(NodeId(peer), header(10, 0), &[]).unwrap();
                log.until(mesh, |log| log.frames.len() == 3 * 20 + 1);
            });
        }
    });
    let parts = ROUNDS * ((BYTES - 1) / PART + 2) as u64;
    for mesh in meshes {
        assert_eq!(mesh.counters().parts_acknowledged, parts);
    }
}

fn in_parts_both_directions_at_once_arrive_whole_and_frames_keep_their_order(family: Family) {
    exchange(&pair(family, Some(PART), false));
}

fn encrypted_links_carry_parts_as_well(family: Family) {
    exchange(&pair(family, Some(PART), family == Family::Tcp));
}

fn a_node_that_leaves_has_said_all_though_it_went_in_parts(family: Family) {
    let [one, other] = pair(family, Some(PART), false);
    let bytes = pattern(10 * PART);
    let mut there = Log::with_memory(bytes.len());
    send_memory(&one, 1, placed(1), &bytes);
    one.leave();
    std::thread::scope(|scope| {
        scope.spawn(|| Log::default().until(&one, |log| !log.lost.is_empty()));
        there.until(&other, |log| !log.lost.is_empty());
        other.leave();
    });
    assert_eq!(there.lost, [(NodeId(0), LostReason::Left)]);
    assert!(there.placed == bytes);
}

fn a_node_that_has_left_keeps_no_other_from_leaving_whose_parts_it_does_not_acknowledge(
    family: Family,
) {
    leave_with_parts_under_way(family, false);
}

fn encrypted_nodes_with_parts_under_way_leave_in_any_order(family: Family) {
    leave_with_parts_under_way(family, family == Family::Tcp);
    // Node 0 has parts to acknowledge while its goodbye waits behind more than a link takes, and so has node 1.
    let meshes = pair(family, Some(PART), family == Family::Tcp);
    let bytes = pattern(4 << 20);
    for (peer, mesh) in [(1, &meshes[0]), (0, &meshes[1])] {
        send_memory(mesh, peer, placed(1), &bytes[..10 * PART]);
        for part in bytes.chunks(PART).cycle().take(1 << 15) {
            mesh.send_bytes(NodeId(peer), header(8, 2), part).unwrap();
        }
        mesh.leave();
        assert!(mesh.says_goodbye());
    }
    std::thread::scope(|scope| {
        for mesh in &meshes {
            scope.spawn(|| {
                let mut log = Log::with_memory(10 * PART);
                log.until(mesh, |log| !log.lost.is_empty() && !mesh.says_goodbye());
                assert_eq!((log.lost[0].1.clone(), log.lost.len()), (LostReason::Left, 1));
            });
        }
    });
}

fn leave_with_parts_under_way(family: Family, tls: bool) {
    let [one, other] = pair(family, Some(PART), tls);
    let bytes = pattern(10 * PART);
    let mut there = Log::with_memory(bytes.len());
    send_memory(&one, 1, placed(1), &bytes);
    other.leave();
    one.leave();
    assert!(one.says_goodbye() && !other.says_goodbye());
    std::thread::scope(|scope| {
        scope.spawn(|| Log::default().until(&one, |log| !log.lost.is_empty()));
        there.until(&other, |log| !log.lost.is_empty());
    });
    assert_eq!(there.lost, [(NodeId(0), LostReason::Left)]);
    assert!(!one.says_goodbye());
}
