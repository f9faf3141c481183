//! Links on a network that is emulated: lower bounds on time, and nothing else is different.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "this is test code")]

mod support;

use multigrain_transport::{
    Authority, BootConfig, Conditions, LostReason, Mesh, Receiver, Timeout,
};
use multigrain_types::NodeId;
use std::time::{Duration, Instant};
use support::{Family, JOB, Log, boot, config, encrypted, header, listeners};

/// What carries the messages below.
#[derive(Clone, Copy, Debug)]
enum Below {
    Unix,
    Tcp,
    Tls,
}

const ALL: [Below; 3] = [Below::Unix, Below::Tcp, Below::Tls];

/// Two nodes on such a network.
fn pair(below: Below, network: &str) -> [Mesh; 2] {
    let family = if matches!(below, Below::Unix) { Family::Unix } else { Family::Tcp };
    let (sockets, addresses) = listeners(family, 2);
    let authority = Authority::new(JOB).unwrap();
    let booting: Vec<_> = sockets
        .into_iter()
        .enumerate()
        .map(|(rank, socket)| {
            let plain = match below {
                Below::Unix | Below::Tcp => config(rank, &addresses, socket),
                Below::Tls => {
                    let own = authority.issue(NodeId(rank as u16)).unwrap();
                    encrypted(rank, &addresses, socket, &own)
                }
            };
            let emulate = Some(network.parse().unwrap());
            boot(BootConfig { conditions: Conditions { emulate, part: None }, ..plain })
        })
        .collect();
    let meshes: Vec<Mesh> = booting.into_iter().map(|one| one.join().unwrap().0.unwrap()).collect();
    meshes.try_into().unwrap()
}

/// Answers every frame with its body until the peer is gone.
fn echo(mesh: &Mesh) -> Log {
    let mut log = Log::default();
    while log.lost.is_empty() {
        let seen = log.frames.len();
        mesh.receive(&mut log, Timeout::Millis(1000));
        for (from, header, body) in &log.frames[seen..] {
            let _ = mesh.send_bytes(*from, *header, body);
        }
    }
    log
}

/// A request, and an answer of a page, sleeping or polling; the time it took.
fn fetch(mesh: &Mesh, number: u64, polls: bool) -> Duration {
    let begin = Instant::now();
    let mut log = Log::default();
    mesh.send_bytes(NodeId(1), header(7, number), &[3; 4096]).unwrap();
    let done = |log: &Log| log.frames.len() == 1;
    if polls {
        mesh.suppress_wakeups(Receiver::Polls);
        log.polls_until(mesh, done);
        mesh.resume_wakeups();
    } else {
        log.until(mesh, done);
    }
    assert_eq!((log.frames[0].1.subject, log.frames[0].2.len()), (number, 4096));
    begin.elapsed()
}

#[test]
fn a_round_trip_takes_twice_the_latency_whoever_waits_for_it() {
    for below in ALL {
        let [near, far] = pair(below, "2ms");
        std::thread::scope(|scope| {
            scope.spawn(|| echo(&far));
            for number in 0..6 {
                let time = fetch(&near, number, number % 2 == 1);
                assert!(time >= Duration::from_millis(4), "{below:?}: {time:?}");
            }
            near.leave();
            near.close();
        });
    }
}

#[test]
fn a_service_thread_that_sleeps_is_woken_when_something_is_due() {
    let [near, far] = pair(Below::Unix, "20ms");
    let begin = Instant::now();
    near.send_bytes(NodeId(1), header(7, 0), b"x").unwrap();
    let mut log = Log::default();
    while log.frames.is_empty() {
        assert!(far.service_wait(Timeout::Millis(10_000)), "nothing woke it");
        far.receive(&mut log, Timeout::Now);
    }
    assert!(begin.elapsed() >= Duration::from_millis(20));
    // Nor does it find something for ever.
    while far.service_wait(Timeout::Now) {
        far.receive(&mut log, Timeout::Now);
    }
    assert!(!far.service_wait(Timeout::Millis(30)));
}

#[test]
fn bytes_take_as_long_as_the_bandwidth_says() {
    // A megabyte at 80 megabits a second.
    const SIZE: usize = 1 << 20;
    for below in ALL {
        let [near, far] = pair(below, "80M");
        let begin = Instant::now();
        for number in 0..16 {
            let body = vec![number as u8; SIZE / 16];
            near.send_bytes(NodeId(1), header(7, number), &body).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut log = Log::default();
                log.until(&near, |log| !log.lost.is_empty());
            });
            let mut log = Log::default();
            log.until(&far, |log| log.frames.len() == 16);
            let time = begin.elapsed();
            assert!(time >= Duration::from_millis(104), "{below:?}: {time:?}");
            for (number, (_, header, body)) in log.frames.iter().enumerate() {
                assert_eq!(header.subject, number as u64);
                assert_eq!(*body, vec![number as u8; SIZE / 16]);
            }
            far.close();
        });
    }
}

#[test]
fn all_that_was_said_comes_in_order_before_the_goodbye() {
    const FRAMES: u64 = 3000;
    for below in ALL {
        let [near, far] = pair(below, "5ms,200M");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..FRAMES {
                    let body = vec![number as u8; (number % 700) as usize];
                    near.send_bytes(NodeId(1), header(7, number), &body).unwrap();
                }
                near.leave();
                Log::default().until(&near, |log| !log.lost.is_empty());
                near.close();
            });
            let mut log = Log::default();
            log.until(&far, |log| !log.lost.is_empty());
            assert_eq!(log.lost, [(NodeId(0), LostReason::Left)], "{below:?}");
            assert_eq!(log.frames.len() as u64, FRAMES);
            for (number, (_, header, body)) in (0..).zip(&log.frames) {
                assert_eq!(header.subject, number);
                assert_eq!(*body, vec![number as u8; (number % 700) as usize]);
            }
            far.leave();
            far.close();
        });
    }
}

#[test]
fn a_peer_that_dies_is_lost_when_its_last_words_have_come() {
    for below in ALL {
        let [near, far] = pair(below, "10ms");
        near.send_bytes(NodeId(1), header(7, 0), b"last words").unwrap();
        let begin = Instant::now();
        near.close();
        let mut log = Log::default();
        log.until(&far, |log| !log.lost.is_empty());
        assert_eq!(log.lost, [(NodeId(0), LostReason::Died)], "{below:?}");
        assert_eq!(log.frames[0].2, b"last words");
        assert!(begin.elapsed() >= Duration::from_millis(10));
        // Nobody is woken for it any more.
        while far.service_wait(Timeout::Now) {
            far.receive(&mut log, Timeout::Now);
        }
        assert!(!far.service_wait(Timeout::Millis(30)), "{below:?}");
    }
}

#[test]
fn what_does_not_fit_on_the_wire_waits_where_it_is_sent() {
    // 64 MiB take a minute at this rate: most of it neither the receiver nor the kernel takes.
    let [near, far] = pair(Below::Unix, "8M");
    for number in 0..64 {
        near.send_bytes(NodeId(1), header(7, number), &[1; 1 << 20]).unwrap();
    }
    let receive = |mesh: &Mesh| mesh.receive(&mut Log::default(), Timeout::Now);
    let mut before = usize::MAX;
    while near.waiting_bytes(NodeId(1)) < before {
        before = near.waiting_bytes(NodeId(1));
        for _ in 0..1000 {
            receive(&far);
            receive(&near);
        }
    }
    assert!(before > 32 << 20, "{before} bytes wait");
    // Who sleeps is woken for packets, of 4 ms each, and not all the time.
    let end = Instant::now() + Duration::from_millis(100);
    let mut woken = 0;
    while Instant::now() < end {
        woken += u32::from(far.service_wait(Timeout::Millis(10)));
        receive(&far);
    }
    assert!((1..200).contains(&woken), "woken {woken} times");
}
