//! A release and its judges, under schedules of shuttle; see [`crate::shuttle_tests`].

#![expect(unsafe_code, reason = "the other node's sink, and a write that traps nowhere")]

use std::sync::Arc;

use multigrain_memory::{Area, GuardChoice, Memory, Shape, VIEWS_BASE, diff};
use multigrain_protocol::{HlrcMessage, Input, Kind, SemaphoreMessage};
use multigrain_transport::{Destination, Header, LostReason, Sink, Timeout, pair};
use multigrain_types::{AreaId, Consistency, MinipageId, NodeId, ThreadId};
use shuttle::thread;

use super::clock::Clock;
use crate::area::{AreaRecord, Items, Origin};
use crate::config::Config;
use crate::frames::{DriverFrame, header_of};
use crate::job::Runtime;
use crate::receiver::slots;
use crate::shuttle_tests::play_random;

/// Headers that came at the other node, in order.
#[derive(Default)]
struct Received(Vec<Header>);

// SAFETY: it names no place.
unsafe impl Sink for Received {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, _: NodeId, header: &Header, _: Option<&[u8]>) -> Result<(), String> {
        self.0.push(*header);
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        panic!("{reason}");
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

/// A lazily consistent page of that node.
fn adopt(runtime: &Runtime, owner: NodeId) -> MinipageId {
    let (id, shape) = (AreaId(0), Shape::Pages { pages: 1 });
    let area = Area { id, base: VIEWS_BASE, file_offset: 0, bytes: 4096, shape };
    let items = Items { bytes: 4096, count: 1, chunk: 1, array: false };
    let consistency = Consistency::LazyRelease;
    assert_eq!(
        runtime.adopt(AreaRecord { area, owner, items, consistency, origin: Origin::Heap }),
        0
    );
    MinipageId::new(id, 0)
}

/// Node 0 writes what node 1 judges, and posts to a semaphore of node 1.
fn write_and_post() {
    slots::forget_all();
    let [ours, theirs] = pair(None);
    let memory = multigrain_memory::Config::new(4096, GuardChoice::Mprotect);
    let config = Config { check_races: true, ..Config::single() };
    let memory = Memory::new(&memory).unwrap();
    let runtime = Arc::new(Runtime::assemble(&config, 2, memory, ours, None).unwrap());
    let minipage = adopt(&runtime, NodeId(1));
    let cell = runtime.driver.tables().lock(minipage);
    runtime.driver.races().watch(minipage);
    // SAFETY: the privileged view is writable for the length of the minipage.
    unsafe { runtime.driver.memory().privileged(minipage).0.write(7) };
    drop(cell);

    let poster = {
        let runtime = Arc::clone(&runtime);
        thread::spawn(move || runtime.semaphore_post(1, 1).unwrap())
    };
    let mut received = Received::default();
    while received.0.last().is_none_or(|header| header.kind != DriverFrame::RaceJudged.number()) {
        theirs.receive(&mut received, Timeout::Forever);
    }
    thread::yield_now();
    theirs.receive(&mut received, Timeout::Now);
    let kinds =
        |received: &Received| received.0.iter().map(|header| header.kind).collect::<Vec<_>>();
    assert_eq!(
        kinds(&received),
        [DriverFrame::RaceWrites.number(), DriverFrame::RaceJudged.number()],
        "the post waits"
    );
    let answer = Header {
        kind: DriverFrame::Answer.number(),
        thread: received.0[1].thread,
        ..Header::default()
    };
    theirs.send_bytes(NodeId(0), answer, &[]).unwrap();
    poster.join().unwrap();
    received.0.clear();
    theirs.receive(&mut received, Timeout::Now);
    let post = header_of(SemaphoreMessage::Post { count: 1 }.about(1));
    assert_eq!(kinds(&received), [DriverFrame::RaceClock.number(), post.kind]);
    assert_eq!(received.0[0].value, u64::from(post.kind), "the clock says what it belongs to");
}

#[test]
fn a_release_leaves_when_the_judges_have_what_was_written_before_it() {
    play_random(write_and_post, 20);
}

/// Node 0 writes a page whose home it is, and then merges what node 1 wrote to it.
fn write_and_merge() {
    slots::forget_all();
    let [ours, _theirs] = pair(None);
    let memory = multigrain_memory::Config::new(4096, GuardChoice::Mprotect);
    let config = Config { check_races: true, ..Config::single() };
    let runtime = Runtime::assemble(&config, 2, Memory::new(&memory).unwrap(), ours, None).unwrap();
    let minipage = adopt(&runtime, NodeId(0));
    let fault = Input::Fault { thread: ThreadId(0), minipage, kind: Kind::Write };
    runtime.driver.engine().step_sure(fault.clone());
    // SAFETY: the privileged view is writable for the length of the minipage.
    unsafe { runtime.driver.memory().privileged(minipage).0.write(7) };
    let fetch = HlrcMessage::Fetch { requester: NodeId(1), epoch: 0, waits: true };
    runtime.driver.engine().step_received(NodeId(1), fetch.about(minipage), None);
    runtime.driver.engine().step_sure(fault);
    let watched = || runtime.driver.races().is_watched(minipage);
    assert!(watched(), "a node that writes is watched");
    let (before, mut after, mut bytes) = ([0; 4096], [0; 4096], Vec::new());
    after[8] = 1;
    // SAFETY: both have the length of the minipage.
    unsafe { diff::encode(&before, after.as_ptr(), &mut bytes) };
    let message = HlrcMessage::Diff { writer: NodeId(1), flush: 1, epoch: 0 }.about(minipage);
    runtime.driver.engine().step_received(NodeId(1), message, Some(&bytes));
    assert!(!watched(), "what is written from now on traps, and finds the page as merged");
    // SAFETY: the privileged view is readable for the length of the minipage.
    assert_eq!(unsafe { runtime.driver.memory().privileged(minipage).0.wrapping_add(8).read() }, 1);
}

#[test]
fn a_merge_into_a_page_that_is_written_here_closes_it_first() {
    play_random(write_and_merge, 1);
}

/// Two threads of node 0 have answers of node 1 that bring the same clock, while a page is watched.
fn follow_together() {
    slots::forget_all();
    let [ours, _theirs] = pair(None);
    let memory = multigrain_memory::Config::new(4096, GuardChoice::Mprotect);
    let config = Config { check_races: true, ..Config::single() };
    let memory = Memory::new(&memory).unwrap();
    let runtime = Arc::new(Runtime::assemble(&config, 2, memory, ours, None).unwrap());
    let minipage = adopt(&runtime, NodeId(0));
    let cell = runtime.driver.tables().lock(minipage);
    runtime.driver.races().watch(minipage);
    drop(cell);
    let clock = Clock::from([0, 1]).to_bytes();
    let kind = DriverFrame::Answer.number();
    let followers: Vec<_> = [1, 2]
        .map(|thread| {
            let header = Header { thread, value: kind.into(), ..Header::default() };
            let came = runtime.driver.races().receive_clock(NodeId(1), &header, &clock, |_| true);
            assert!(came);
            let runtime = Arc::clone(&runtime);
            thread::spawn(move || {
                runtime.driver.races().answered(NodeId(1), ThreadId(thread));
                let watched = runtime.driver.races().is_watched(minipage);
                assert!(!watched, "what is written from now on comes after what was followed");
            })
        })
        .into();
    followers.into_iter().for_each(|follower| follower.join().unwrap());
}

#[test]
fn who_follows_what_another_thread_is_following_waits_until_the_watch_is_renewed() {
    play_random(follow_together, 20);
}
