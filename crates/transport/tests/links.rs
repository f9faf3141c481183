//! Links that are made when first used, in jobs of more than 8 nodes: how many there are, that nothing is lost or
//! reordered, whoever connects to whom, and what becomes of those who leave or die meanwhile.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "this is test code")]

mod support;

use multigrain_transport::{
    Authority, BootConfig, LinkError, LinkEvent, LostReason, Mesh, Timeout,
};
use multigrain_types::NodeId;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use support::{Family, JOB, Log, boot, config, encrypted, header, listeners};

/// How links are made.
#[derive(Clone, Copy, Debug)]
enum Over {
    Unix,
    Tcp,
    Tls,
}

macro_rules! over_each {
    ($($name:ident)*) => {
        mod unix { $( #[test] fn $name() { super::$name(super::Over::Unix); } )* }
        mod tcp { $( #[test] fn $name() { super::$name(super::Over::Tcp); } )* }
        mod tls { $( #[test] fn $name() { super::$name(super::Over::Tls); } )* }
    };
}

over_each! {
    a_large_job_begins_with_the_links_of_a_tree_and_makes_the_others_when_they_are_used
    nodes_that_all_reach_for_each_other_at_once_get_one_link_each_in_order
    who_leaves_while_links_are_made_is_seen_to_leave
    who_leaves_before_it_knows_of_its_welcome_is_seen_to_leave
}

/// A job of so many nodes that have booted.
fn booted(over: Over, nodes: usize) -> Vec<Mesh> {
    let family = if matches!(over, Over::Unix) { Family::Unix } else { Family::Tcp };
    let (sockets, addresses) = listeners(family, nodes);
    let authority = Authority::new(JOB).unwrap();
    let booting = sockets.into_iter().enumerate().map(|(rank, socket)| match over {
        Over::Unix | Over::Tcp => boot(config(rank, &addresses, socket)),
        Over::Tls => {
            let own = authority.issue(NodeId(rank as u16)).unwrap();
            boot(encrypted(rank, &addresses, socket, &own))
        }
    });
    let booting: Vec<_> = booting.collect();
    let meshes = booting.into_iter().map(|one| {
        let (mesh, lines) = one.join().unwrap();
        assert_eq!(lines, [""; 0]);
        mesh.unwrap()
    });
    meshes.collect()
}

/// Closes them in the end.
struct Closing<'a>(&'a [Mesh]);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(Mesh::close);
    }
}

/// Runs `act` while every node makes links; what they had to tell comes back: links made after boot, and
/// lines.
fn while_making_links(meshes: &[Mesh], act: impl FnOnce()) -> (usize, Vec<String>) {
    let told = Mutex::new((0, Vec::new()));
    std::thread::scope(|scope| {
        for mesh in meshes {
            scope.spawn(|| {
                let mut tell = |event| match event {
                    LinkEvent::Made(descriptors) => {
                        assert!(!descriptors.is_empty());
                        told.lock().unwrap().0 += 1;
                    }
                    LinkEvent::Refused(line) => told.lock().unwrap().1.push(line),
                };
                mesh.make_links(&mut tell).unwrap();
            });
        }
        // A test that fails ends them, too.
        let _closing = Closing(meshes);
        act();
    });
    told.into_inner().unwrap()
}

/// Links of the whole job.
fn links(meshes: &[Mesh]) -> usize {
    meshes.iter().map(Mesh::links_alive).sum::<usize>() / 2
}

fn a_large_job_begins_with_the_links_of_a_tree_and_makes_the_others_when_they_are_used(over: Over) {
    const NODES: u16 = 16;
    let meshes = booted(over, NODES.into());
    assert!(meshes.iter().all(Mesh::makes_links));
    assert_eq!(links(&meshes), 15, "a tree");
    let next = |rank: u16| NodeId((rank + 1) % NODES);
    let (made, lines) = while_making_links(&meshes, || {
        for mesh in &meshes {
            for number in 0..50 {
                let body = vec![number as u8; 100 * number];
                mesh.send_bytes(next(mesh.rank().0), header(7, number as u64), &body).unwrap();
            }
        }
        for mesh in &meshes {
            let mut log = Log::default();
            log.until(mesh, |log| log.frames.len() == 50);
            let rank = mesh.rank();
            assert!(log.frames.iter().all(|(from, ..)| next(from.0) == rank));
            assert!((0..50).eq(log.frames.iter().map(|(_, header, _)| header.subject)), "{rank}");
        }
        // Of a ring's links, the tree has 0 to 1 alone.
        assert_eq!(links(&meshes), 15 + 15);
    });
    assert_eq!((made, lines), (2 * 15, Vec::new()));
}

fn nodes_that_all_reach_for_each_other_at_once_get_one_link_each_in_order(over: Over) {
    const NODES: u16 = 12;
    const FRAMES: u64 = 20;
    let meshes = booted(over, NODES.into());
    let (made, lines) = while_making_links(&meshes, || {
        std::thread::scope(|scope| {
            for mesh in &meshes {
                scope.spawn(|| {
                    for number in 0..FRAMES {
                        for to in (0..NODES).filter(|&to| to != mesh.rank().0) {
                            let to = NodeId(to);
                            match number % 3 {
                                0 => mesh.send_bytes(to, header(7, number), &[1; 5000]).unwrap(),
                                1 => mesh.send_bytes(to, header(7, number), &[]).unwrap(),
                                _ => mesh.defer(to, header(7, number)).unwrap(),
                            }
                        }
                    }
                    mesh.flush_deferred();
                    let mut log = Log::default();
                    let all = u64::from(NODES - 1) * FRAMES;
                    log.until(mesh, |log| log.frames.len() as u64 == all);
                    let mut next = BTreeMap::<NodeId, u64>::new();
                    for (from, header, _) in &log.frames {
                        let next = next.entry(*from).or_default();
                        assert_eq!(header.subject, *next, "{from} to {}", mesh.rank());
                        *next += 1;
                    }
                    assert_eq!((log.lost.len(), log.refused.len()), (0, 0));
                    // Others may still wait for what this one queues.
                    while mesh.links_alive() < usize::from(NODES - 1) {
                        mesh.receive(&mut log, Timeout::Millis(5));
                    }
                });
            }
        });
        assert_eq!(links(&meshes), 66);
    });
    assert_eq!((made, lines), (2 * (66 - 11), Vec::new()));
}

fn who_leaves_while_links_are_made_is_seen_to_leave(over: Over) {
    const NODES: u16 = 10;
    for _ in 0..3 {
        let meshes = booted(over, NODES.into());
        let (_, lines) = while_making_links(&meshes, || {
            std::thread::scope(|scope| {
                for mesh in &meshes {
                    scope.spawn(|| {
                        for to in (0..NODES).filter(|&to| to != mesh.rank().0) {
                            // Some have left by now.
                            let sent = mesh.send_bytes(NodeId(to), header(7, 0), &[]);
                            assert!(
                                matches!(sent, Ok(()) | Err(LinkError::Gone { .. })),
                                "{sent:?}"
                            );
                        }
                        mesh.leave();
                        let mut log = Log::default();
                        log.until(mesh, |_| mesh.links_alive() == 0);
                        let leaves = |reason: &LostReason| {
                            matches!(reason, LostReason::Left | LostReason::Unreached(_))
                        };
                        assert!(log.lost.iter().all(|(_, why)| leaves(why)), "{:?}", log.lost);
                    });
                }
            });
        });
        assert!(lines.iter().all(|line| line.contains("hung up")), "{lines:?}");
    }
}

fn who_leaves_before_it_knows_of_its_welcome_is_seen_to_leave(over: Over) {
    for _ in 0..5 {
        let meshes = booted(over, 9);
        let (_, lines) = while_making_links(&meshes, || {
            for [leaves, stays] in [[1, 2], [4, 3], [5, 6], [8, 7]] {
                let (leaves, stays) = (&meshes[leaves], &meshes[stays]);
                assert_eq!((leaves.links_alive(), stays.links_alive()), (1, 1), "node 0 alone");
                leaves.send_bytes(stays.rank(), header(7, 0), &[]).unwrap();
                while stays.links_alive() == 1 {
                    std::thread::yield_now();
                }
                leaves.leave();
                let mut log = Log::default();
                log.until(stays, |log| !log.lost.is_empty());
                assert_eq!(log.lost, [(leaves.rank(), LostReason::Left)]);
            }
        });
        assert_eq!(lines, [""; 0]);
    }
}

#[test]
fn a_peer_that_is_dead_when_it_is_first_used_is_lost_with_its_address() {
    let (sockets, addresses) = listeners(Family::Unix, 9);
    let booting = sockets.into_iter().enumerate().map(|(rank, socket)| {
        let config = config(rank, &addresses, socket);
        boot(BootConfig { deadline: Duration::from_secs(5), ..config })
    });
    let booting: Vec<_> = booting.collect();
    let mut meshes: Vec<_> =
        booting.into_iter().map(|one| one.join().unwrap().0.unwrap()).collect();
    drop(meshes.pop());
    let since = Instant::now();
    let (_, lines) = while_making_links(&meshes, || {
        meshes[3].send_bytes(NodeId(8), header(7, 0), &[]).unwrap();
        let mut log = Log::default();
        log.until(&meshes[3], |log| !log.lost.is_empty());
        let [(NodeId(8), LostReason::Unreached(why))] = &log.lost[..] else {
            panic!("{:?}", log.lost)
        };
        assert!(why.contains(&addresses[8].to_string()), "{why}");
        assert!(meshes[3].send_bytes(NodeId(8), header(7, 0), &[]).is_err());
        assert!(since.elapsed() < Duration::from_secs(8));
    });
    assert_eq!(lines, [""; 0]);
}

#[test]
fn a_small_job_has_all_its_links_from_the_start() {
    let (meshes, _) = support::job(Family::Unix, 8);
    assert_eq!(links(&meshes), 28);
    assert!(!meshes.iter().any(Mesh::makes_links));
    meshes[0].make_links(&mut |event| panic!("{event:?}")).unwrap();
}
