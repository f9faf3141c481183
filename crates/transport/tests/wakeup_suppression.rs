//! Wake-up suppression: while an application thread receives, arrivals wake nobody else; whichever way that
//! is done, and whatever that thread does.
#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

mod support;

use multigrain_transport::{Mesh, Receiver, Timeout};
use multigrain_types::NodeId;
use rustix::thread::gettid;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use support::{Family, Log, conformance, header, job, wait_asleep};

conformance! {
    suppression_keeps_the_service_thread_asleep
    what_a_poller_gets_wakes_nobody
    what_comes_unread_wakes_the_service_thread_on_resume
    a_poller_that_sleeps_after_all_is_woken
    a_burst_wakes_the_service_thread_at_most_once
    a_death_is_noticed_by_a_polling_thread
    nothing_is_missed_between_pollers_and_the_service_thread
}

const BOTH: [Receiver; 2] = [Receiver::Polls, Receiver::Sleeps];

/// A job of two, the first node's service thread at rest.
fn two(family: Family) -> Vec<Mesh> {
    let (meshes, _) = job(family, 2);
    meshes[0].receive(&mut Log::default(), Timeout::Now);
    assert!(!meshes[0].service_wait(Timeout::Now));
    meshes
}

fn say(mesh: &Mesh, bytes: &[u8]) {
    mesh.send_bytes(NodeId(0), header(1, 0), bytes).unwrap();
}

fn poll(mesh: &Mesh, log: &mut Log, frames: usize) {
    let end = Instant::now() + Duration::from_secs(10);
    while log.frames.len() < frames {
        assert!(Instant::now() < end, "{} of {frames} frames", log.frames.len());
        mesh.receive(log, Timeout::Now);
    }
}

fn suppression_keeps_the_service_thread_asleep(family: Family) {
    let meshes = two(family);
    for receiver in BOTH {
        meshes[0].suppress_wakeups(receiver);
        say(&meshes[1], b"x");
        assert!(!meshes[0].service_wait(Timeout::Millis(50)), "{receiver:?}");
        meshes[0].suppress_wakeups(receiver);
        meshes[0].resume_wakeups();
        assert!(!meshes[0].service_wait(Timeout::Millis(10)), "one of two receivers is left");
        poll(&meshes[0], &mut Log::default(), 1);
        meshes[0].resume_wakeups();
        assert!(!meshes[0].service_wait(Timeout::Millis(10)), "all is read");
    }
}

fn what_a_poller_gets_wakes_nobody(family: Family) {
    let meshes = two(family);
    let mut log = Log::default();
    for number in 1..=200 {
        meshes[0].suppress_wakeups(Receiver::Polls);
        say(&meshes[1], &[1; 4096]);
        poll(&meshes[0], &mut log, number);
        meshes[0].resume_wakeups();
        assert!(!meshes[0].service_wait(Timeout::Now));
    }
}

fn what_comes_unread_wakes_the_service_thread_on_resume(family: Family) {
    let meshes = two(family);
    for receiver in BOTH {
        meshes[0].suppress_wakeups(receiver);
        let (told, sleeper) = mpsc::channel();
        std::thread::scope(|scope| {
            let service = scope.spawn(|| {
                told.send(gettid()).unwrap();
                meshes[0].service_wait(Timeout::Millis(5000))
            });
            say(&meshes[1], b"y");
            wait_asleep(sleeper.recv().unwrap());
            assert!(!service.is_finished(), "{receiver:?}");
            meshes[0].resume_wakeups();
            assert!(service.join().unwrap(), "{receiver:?}");
        });
        let mut log = Log::default();
        poll(&meshes[0], &mut log, 1);
    }
}

fn a_poller_that_sleeps_after_all_is_woken(family: Family) {
    let meshes = two(family);
    for receiver in BOTH {
        let mut log = Log::default();
        meshes[0].suppress_wakeups(receiver);
        // Before the sleep, and during it.
        say(&meshes[1], b"early");
        log.until(&meshes[0], |log| log.frames.len() == 1);
        std::thread::scope(|scope| {
            let receiver = gettid();
            let sender = &meshes[1];
            scope.spawn(move || {
                wait_asleep(receiver);
                say(sender, b"late");
            });
            let begin = Instant::now();
            while log.frames.len() == 1 {
                meshes[0].receive(&mut log, Timeout::Millis(5000));
            }
            assert!(begin.elapsed() < Duration::from_secs(4), "{receiver:?}: it slept too long");
        });
        assert!(!meshes[0].service_wait(Timeout::Millis(10)), "{receiver:?}: still suppressed");
        meshes[0].resume_wakeups();
        assert!(!meshes[0].service_wait(Timeout::Millis(10)), "{receiver:?}");
        say(&meshes[1], b"for the service");
        assert!(meshes[0].service_wait(Timeout::Millis(2000)), "{receiver:?}");
        poll(&meshes[0], &mut Log::default(), 1);
    }
}

fn a_burst_wakes_the_service_thread_at_most_once(family: Family) {
    let meshes = two(family);
    let mut log = Log::default();
    meshes[0].suppress_wakeups(Receiver::Polls);
    let burst = vec![1; 60_000];
    say(&meshes[1], &burst);
    let woken = meshes[0].service_wait(Timeout::Millis(500));
    assert_eq!(woken, family == Family::Tcp, "more than a low-water mark holds back");
    say(&meshes[1], &burst);
    assert!(!meshes[0].service_wait(Timeout::Millis(50)), "it knows now that somebody receives");
    poll(&meshes[0], &mut log, 2);
    meshes[0].resume_wakeups();
    // More of the kind is expected then.
    meshes[0].suppress_wakeups(Receiver::Polls);
    say(&meshes[1], &burst);
    assert!(!meshes[0].service_wait(Timeout::Millis(50)));
    poll(&meshes[0], &mut log, 3);
    meshes[0].resume_wakeups();
    assert!(!meshes[0].service_wait(Timeout::Millis(10)));
    say(&meshes[1], b"for the service");
    assert!(meshes[0].service_wait(Timeout::Millis(2000)));
}

fn a_death_is_noticed_by_a_polling_thread(family: Family) {
    let mut meshes = two(family);
    meshes[0].suppress_wakeups(Receiver::Polls);
    meshes.pop().unwrap().close();
    let (mut log, end) = (Log::default(), Instant::now() + Duration::from_secs(10));
    while log.lost.is_empty() && Instant::now() < end {
        meshes[0].receive(&mut log, Timeout::Now);
    }
    assert_eq!(log.lost.len(), 1);
    meshes[0].resume_wakeups();
    meshes[0].suppress_wakeups(Receiver::Polls);
    meshes[0].resume_wakeups();
}

/// A peer that asks for an answer to each frame, a thread that suppresses wake-ups and polls now and then, and a
/// service thread that does the rest: a frame that wakes nobody stops all three.
fn nothing_is_missed_between_pollers_and_the_service_thread(family: Family) {
    const ROUNDS: u32 = 3000;
    let meshes = two(family);
    let [mesh, peer] = &meshes[..] else { panic!("two nodes") };
    let (role, received, done) =
        (AtomicBool::new(false), AtomicU32::new(0), AtomicBool::new(false));
    let serve = |log: &mut Log| {
        mesh.receive(log, Timeout::Now);
        for _ in log.frames.drain(..) {
            received.fetch_add(1, Ordering::SeqCst);
            mesh.send_bytes(NodeId(1), header(1, 0), b"answer").unwrap();
        }
    };
    let take = || !role.swap(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = Log::default();
            while !done.load(Ordering::SeqCst) {
                if mesh.service_wait(Timeout::Millis(5000)) && take() {
                    serve(&mut log);
                    role.store(false, Ordering::SeqCst);
                }
            }
        });
        scope.spawn(|| {
            let (mut log, mut round) = (Log::default(), 0_u32);
            while !done.load(Ordering::SeqCst) {
                round += 1;
                if take() {
                    mesh.suppress_wakeups(Receiver::Polls);
                    for _ in 0..round % 40 {
                        serve(&mut log);
                    }
                    role.store(false, Ordering::SeqCst);
                    mesh.resume_wakeups();
                }
                // At other moments of the peer from round to round.
                (0..round % 7).for_each(|_| std::thread::yield_now());
            }
        });
        let (mut log, begin) = (Log::default(), Instant::now());
        for round in 0..ROUNDS {
            // Now and then more than a low-water mark holds back.
            say(peer, if round % 100 == 99 { &[1; 50_000] } else { b"ask" });
            log.until(peer, |log| !log.frames.is_empty());
            log.frames.clear();
        }
        done.store(true, Ordering::SeqCst);
        mesh.wake();
        assert_eq!(received.load(Ordering::SeqCst), ROUNDS);
        assert!(begin.elapsed() < Duration::from_secs(60), "somebody slept through a frame");
    });
}
