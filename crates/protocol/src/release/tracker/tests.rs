//! Which messages wait for which flushes.

use multigrain_types::{MinipageId, NodeId, ThreadId};

use super::{Ready, ReleaseTracker};
use crate::effect::AckFrom;
use crate::message::{LockMessage, SemaphoreMessage, SyncMessage};

const M: MinipageId = MinipageId(0);
const N: MinipageId = MinipageId(1);
const HOME: AckFrom = AckFrom::Node(NodeId(4));

fn post(to: u16, count: u32) -> Ready {
    let body = SyncMessage::Semaphore(SemaphoreMessage::Post { count });
    Ready::Send { to: NodeId(to), id: 0, body }
}

fn ask(to: u16) -> Ready {
    Ready::Send {
        to: NodeId(to),
        id: 0,
        body: SyncMessage::Lock(LockMessage::Request { tell: false }),
    }
}

fn ready(tracker: &mut ReleaseTracker) -> Vec<Ready> {
    core::iter::from_fn(|| tracker.pop_ready()).collect()
}

/// Begins a flush of a minipage that one acknowledgement will end.
fn open(tracker: &mut ReleaseTracker, minipage: MinipageId) -> u64 {
    tracker.dirty(minipage);
    let (flush, minipages) = tracker.begin().expect("there is something to flush");
    assert_eq!(minipages, [minipage]);
    tracker.flushed(minipage, flush, Some(HOME), false);
    tracker.sent();
    flush
}

#[test]
fn a_node_with_nothing_outstanding_holds_nothing() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    assert_eq!(tracker.begin(), None);
    tracker.hold(post(1, 1));
    assert_eq!(ready(&mut tracker), [post(1, 1)]);
    assert!(tracker.is_settled());
}

#[test]
fn what_is_held_goes_when_its_flush_and_all_older_ones_have_ended() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    let first = open(&mut tracker, M);
    tracker.hold(post(1, 1));
    let second = open(&mut tracker, N);
    tracker.hold(post(2, 2));
    assert!(tracker.acked(second, 1, HOME));
    assert!(ready(&mut tracker).is_empty(), "the older one is open");
    assert!(tracker.acked(first, 1, HOME));
    assert_eq!(ready(&mut tracker), [post(1, 1), post(2, 2)]);
    assert!(!tracker.acked(first, 1, HOME), "nothing is awaited any more");
}

#[test]
fn what_its_receiver_alone_has_to_acknowledge_is_not_waited_for() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    let first = open(&mut tracker, M);
    tracker.hold(post(4, 1));
    assert_eq!(ready(&mut tracker), [post(4, 1)], "behind the writes on the same link");
    tracker.hold(post(1, 1));
    tracker.hold(Ready::Wake { thread: ThreadId(3) });
    assert!(ready(&mut tracker).is_empty(), "it could ask before they are there");
    tracker.hold(post(4, 2));
    assert_eq!(ready(&mut tracker), [post(4, 2)]);
    assert!(tracker.acked(first, 1, HOME));
    assert_eq!(ready(&mut tracker), [post(1, 1), Ready::Wake { thread: ThreadId(3) }]);
}

#[test]
fn no_more_than_so_many_flushes_are_open_while_messages_leave() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    let flushes: Vec<u64> = (0..20)
        .map(|count| {
            let flush = open(&mut tracker, M);
            tracker.hold(post(4, count));
            flush
        })
        .collect();
    assert_eq!((ready(&mut tracker).len(), tracker.withheld()), (16, 4));
    assert!(flushes.iter().all(|&flush| tracker.acked(flush, 1, HOME)));
    assert_eq!(ready(&mut tracker), [16, 17, 18, 19].map(|count| post(4, count)));
    assert!(tracker.is_settled());
}

#[test]
fn what_another_node_has_to_acknowledge_too_is_waited_for_in_order() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    let other = AckFrom::Node(NodeId(2));
    tracker.dirty(M);
    let (flush, _) = tracker.begin().expect("there is something to flush");
    tracker.flushed(M, flush, Some(HOME), true);
    tracker.flushed(N, flush, Some(other), true);
    tracker.sent();
    tracker.hold(post(4, 1));
    assert!(tracker.acked(flush, 1, other));
    // What is held for it goes first.
    tracker.hold(post(4, 2));
    assert!(ready(&mut tracker).is_empty());
    assert!(tracker.acked(flush, 1, HOME));
    assert_eq!(ready(&mut tracker), [post(4, 1), post(4, 2)]);
}

#[test]
fn only_who_has_the_writes_is_told_of_an_interval_before_it_is_acknowledged() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    let told = |tracker: &mut ReleaseTracker, to| {
        let notices = tracker.log_mut().notices_for(NodeId(to), 5, None);
        notices.map(|batch| (batch.clock, batch.notices.len()))
    };
    tracker.dirty(M);
    let (flush, _) = tracker.begin().expect("there is something to flush");
    tracker.flushed(M, flush, Some(HOME), true);
    tracker.sent();
    tracker.hold(post(4, 1));
    assert_eq!(told(&mut tracker, 1), None);
    assert_eq!(told(&mut tracker, 4), Some((vec![1], 1)));
    assert!(tracker.acked(flush, 1, HOME));
    assert_eq!((told(&mut tracker, 1), told(&mut tracker, 4)), (Some((vec![1], 1)), None));
}

#[test]
fn a_minipage_that_is_written_again_before_the_acknowledgement_is_told_of_as_before() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    let clocks = |tracker: &mut ReleaseTracker, to| {
        let notices = tracker.log_mut().notices_for(NodeId(to), 5, None);
        notices.map(|batch| (batch.clock, batch.notices.len()))
    };
    let write = |tracker: &mut ReleaseTracker| {
        tracker.dirty(M);
        let (flush, _) = tracker.begin().expect("there is something to flush");
        tracker.flushed(M, flush, Some(HOME), true);
        tracker.sent();
        tracker.hold(post(4, 1));
        flush
    };
    let first = write(&mut tracker);
    tracker.hold(post(1, 1));
    let second = write(&mut tracker);
    assert!(tracker.acked(first, 1, HOME));
    // Named by its last interval, which node 1 does not know yet.
    assert_eq!(clocks(&mut tracker, 1), Some((vec![1], 1)));
    assert!(tracker.acked(second, 1, HOME));
    assert_eq!(clocks(&mut tracker, 1), Some((vec![2], 1)));
}

#[test]
fn one_acknowledgement_may_stand_for_several() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    for minipage in [M, N] {
        tracker.dirty(minipage);
    }
    let (flush, _) = tracker.begin().expect("there is something to flush");
    for minipage in [M, N] {
        tracker.flushed(minipage, flush, Some(HOME), false);
    }
    tracker.sent();
    tracker.hold(post(1, 1));
    assert!(!tracker.acked(flush, 3, HOME), "two are awaited");
    assert!(ready(&mut tracker).is_empty());
    assert!(tracker.acked(flush, 2, HOME));
    assert_eq!(ready(&mut tracker), [post(1, 1)]);
}

#[test]
fn a_message_without_a_release_waits_for_those_before_it_to_the_same_node_alone() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    let first = open(&mut tracker, M);
    tracker.hold(post(1, 1));
    let second = open(&mut tracker, N);
    tracker.hold(post(2, 2));
    tracker.hold(Ready::Wake { thread: ThreadId(3) });
    for to in [1, 2, 3] {
        tracker.follow(ask(to));
    }
    assert_eq!(ready(&mut tracker), [ask(3)]);
    assert!(tracker.acked(first, 1, HOME));
    assert_eq!(ready(&mut tracker), [post(1, 1), ask(1)]);
    assert!(tracker.acked(second, 1, HOME));
    assert_eq!(ready(&mut tracker), [post(2, 2), Ready::Wake { thread: ThreadId(3) }, ask(2)]);
}

#[test]
fn writes_that_left_before_a_flush_began_keep_it_open() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    tracker.dirty(M);
    let early = tracker.next_flush();
    tracker.flushed(M, early, Some(HOME), true);
    assert!(tracker.queue().is_empty());
    tracker.hold(post(1, 1));
    assert_eq!(ready(&mut tracker), [post(1, 1)], "no release has begun");
    assert_eq!(tracker.begin(), Some((early, Vec::new())));
    tracker.sent();
    tracker.hold(post(1, 2));
    assert!(ready(&mut tracker).is_empty());
    assert!(tracker.acked(early, 1, HOME));
    assert_eq!((ready(&mut tracker), tracker.log_mut().notices()), (vec![post(1, 2)], 1));
}

#[test]
fn writes_that_leave_while_a_flush_sweeps_belong_to_it() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    tracker.dirty(M);
    let (flush, _) = tracker.begin().expect("there is something to flush");
    // The sweep waits for the lock of the minipage; an invalidation has it.
    let own = tracker.next_flush();
    assert_eq!(own, flush);
    tracker.flushed(M, own, Some(HOME), false);
    tracker.sent();
    tracker.hold(post(1, 1));
    assert!(ready(&mut tracker).is_empty());
    assert!(tracker.acked(flush, 1, HOME));
    assert_eq!(ready(&mut tracker), [post(1, 1)]);
}

#[test]
fn writes_entered_after_the_sweep_open_its_flush_again_in_its_place() {
    let mut tracker = ReleaseTracker::new(NodeId(0));
    tracker.dirty(M);
    let (flush, _) = tracker.begin().expect("there is something to flush");
    tracker.sent();
    let early = tracker.next_flush();
    tracker.flushed(M, early, Some(HOME), false);
    tracker.flushed(N, flush, Some(HOME), false);
    assert_eq!(tracker.begin(), Some((early, Vec::new())), "the early one is the last still");
    tracker.sent();
    tracker.hold(post(1, 1));
    assert!(tracker.acked(early, 1, HOME));
    assert!(ready(&mut tracker).is_empty());
    assert!(tracker.acked(flush, 1, HOME));
    assert_eq!(ready(&mut tracker), [post(1, 1)]);
    assert!(tracker.is_settled());
}

/// Numbers have 64 bits, and none of them stands for "no flush".
#[test]
fn flushes_go_on_where_32_bits_end() {
    let mut tracker = ReleaseTracker::starting_at(NodeId(0), 2, u64::from(u32::MAX) - 2);
    for count in 1..6 {
        let first = open(&mut tracker, M);
        tracker.hold(post(1, count));
        let second = open(&mut tracker, N);
        tracker.hold(post(2, count));
        assert!(ready(&mut tracker).is_empty(), "flush {first} is open");
        assert!(tracker.acked(first, 1, HOME));
        assert_eq!(ready(&mut tracker), [post(1, count)], "flush {second} is open");
        assert!(tracker.acked(second, 1, HOME));
        assert_eq!(ready(&mut tracker), [post(2, count)]);
        assert!(tracker.is_settled());
    }
}
