//! Tries for a lock, withdrawn waits, read-write locks, and threads that end while they hold locks.

use multigrain_protocol::sync::{SyncInput, Withdrawable};
use multigrain_protocol::{Input, Kind, Violation};
use multigrain_types::ThreadId;

use crate::cluster::Cluster;

/// The thread that asks has the number of its node.
fn thread(node: u16) -> ThreadId {
    ThreadId(node.into())
}

fn lock(node: u16) -> SyncInput {
    SyncInput::Lock { thread: thread(node), id: 0 }
}

fn unlock(node: u16) -> SyncInput {
    SyncInput::Unlock { thread: thread(node), id: 0 }
}

fn try_lock(node: u16) -> SyncInput {
    SyncInput::TryLock { thread: thread(node), id: 0 }
}

#[test]
fn a_try_of_a_free_lock_brings_its_token_as_a_request_does() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(1, try_lock(1));
    cluster.settle();
    assert_eq!(cluster.trace(), ["1 > 0: Lock Request tell", "0 > 1: Lock Grant", "1: wake 1"]);
}

#[test]
fn a_try_of_a_lock_that_is_kept_for_a_window_has_it() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(0, lock(0));
    cluster.call(1, try_lock(1));
    cluster.settle();
    cluster.call(0, SyncInput::UnlockToReacquire { thread: thread(0), id: 0, at_once: false });
    cluster.settle();
    cluster.trace();
    cluster.call(1, try_lock(1));
    cluster.settle();
    assert_eq!(cluster.trace(), ["1 > 0: Lock Probe", "0 > 1: Lock Grant", "1: wake 1"]);
}

#[test]
fn a_try_of_a_lock_that_is_kept_before_threads_of_its_node_lets_them_have_it() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(0, lock(0));
    cluster.call(0, SyncInput::Lock { thread: ThreadId(7), id: 0 });
    cluster.call(0, SyncInput::UnlockToReacquire { thread: thread(0), id: 0, at_once: true });
    cluster.trace();
    cluster.call(1, try_lock(1));
    cluster.settle();
    let refused =
        ["1 > 0: Lock Request tell", "0: wake 7", "0 > 1: Lock Busy", "1: refuse 1", "1: wake 1"];
    assert_eq!(cluster.trace(), refused);
}

#[test]
fn a_thread_whose_time_is_over_while_a_lock_is_kept_has_it() {
    let mut cluster = Cluster::new(1, 0, 0);
    cluster.call(0, lock(0));
    cluster.call(0, SyncInput::TimedLock { thread: ThreadId(7), id: 0 });
    cluster.call(0, SyncInput::UnlockToReacquire { thread: thread(0), id: 0, at_once: true });
    cluster.trace();
    cluster.call(0, SyncInput::Withdraw { thread: ThreadId(7), from: Withdrawable::Lock(0) });
    assert_eq!(cluster.trace(), ["0: wake 7"]);
}

#[test]
fn a_try_of_a_taken_lock_is_refused_and_its_node_gets_the_token_in_its_turn() {
    let mut cluster = Cluster::new(3, 0, 0);
    cluster.call(2, lock(2));
    cluster.settle();
    cluster.trace();
    cluster.call(1, try_lock(1));
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Lock Request tell",
            "0 > 2: Lock Recall 1 tell",
            "2 > 1: Lock Busy",
            "1: refuse 1",
            "1: wake 1",
        ]
    );
    cluster.call(1, try_lock(1));
    cluster.settle();
    let again = ["1 > 2: Lock Probe", "2 > 1: Lock Busy", "1: refuse 1", "1: wake 1"];
    assert_eq!(cluster.trace(), again, "it is in line already, and asks whom it is behind");
    cluster.call(0, try_lock(0));
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0 > 1: Lock Recall 0 tell",
            "1 > 2: Lock Probe",
            "2 > 1: Lock Busy",
            "1 > 0: Lock Busy",
            "0: refuse 0",
            "0: wake 0",
        ],
        "who waits for nobody does not know, and asks"
    );
    cluster.call(2, unlock(2));
    cluster.settle();
    assert_eq!(cluster.trace(), ["2 > 1: Lock Grant", "1 > 0: Lock Grant"], "nobody is left");
    cluster.call(0, try_lock(0));
    assert_eq!(cluster.trace(), ["0: wake 0"]);
}

#[test]
fn a_lock_that_is_free_is_had_though_the_deadline_is_over() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(1, SyncInput::TimedLock { thread: thread(1), id: 0 });
    cluster.call(1, SyncInput::Withdraw { thread: thread(1), from: Withdrawable::Lock(0) });
    cluster.settle();
    assert_eq!(cluster.trace(), ["1 > 0: Lock Request tell", "0 > 1: Lock Grant", "1: wake 1"]);
    cluster.call(1, SyncInput::Withdraw { thread: thread(1), from: Withdrawable::Lock(0) });
    assert_eq!(cluster.trace(), [""; 0], "it waits no more");
}

#[test]
fn a_withdrawal_that_meets_its_unit_counts_as_none() {
    let mut cluster = Cluster::new(2, 0, 0);
    let wait = SyncInput::SemaphoreWait { thread: thread(1), id: 0 };
    let withdraw = SyncInput::Withdraw { thread: thread(1), from: Withdrawable::Semaphore(0) };
    cluster.call(1, wait.clone());
    cluster.settle();
    cluster.call(1, withdraw.clone());
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Semaphore Request",
            "1 > 0: Semaphore Withdraw",
            "0 > 1: Semaphore Refused",
            "1: refuse 1",
            "1: wake 1",
        ]
    );
    cluster.call(1, wait);
    cluster.settle();
    cluster.call(0, SyncInput::SemaphorePost { id: 0, count: 1 });
    cluster.call(1, withdraw);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Semaphore Request",
            "0 > 1: Semaphore Grant",
            "1 > 0: Semaphore Withdraw",
            "1: wake 1",
        ]
    );
    assert_eq!((cluster.ids(0), cluster.ids(1)), (0, 0), "it rests");
}

/// Nodes 1 and 2 wait on condition 0 under lock 0, in this order.
fn two_wait() -> Cluster {
    let mut cluster = Cluster::new(3, 0, 0);
    for node in [1, 2] {
        cluster.call(node, lock(node));
        cluster.settle();
        cluster.call(node, SyncInput::ConditionWait { thread: thread(node), id: 0, lock: 0 });
        cluster.settle();
    }
    cluster.trace();
    cluster
}

const SIGNAL: SyncInput = SyncInput::ConditionSignal { id: 0, all: false };

#[test]
fn a_signal_after_a_withdrawal_wakes_another_thread() {
    let mut cluster = two_wait();
    cluster.call(1, SyncInput::Withdraw { thread: thread(1), from: Withdrawable::Condition(0) });
    cluster.settle();
    let trace = cluster.trace();
    assert!(trace.contains(&"1: refuse 1".to_owned()), "{trace:?}");
    assert_eq!(trace.last().map(String::as_str), Some("1: wake 1"), "with the lock: {trace:?}");
    cluster.call(1, unlock(1));
    cluster.call(0, SIGNAL);
    cluster.settle();
    let trace = cluster.trace();
    assert_eq!(trace.last().map(String::as_str), Some("2: wake 2"), "{trace:?}");
}

#[test]
fn a_withdrawal_after_a_signal_counts_as_none() {
    let mut cluster = two_wait();
    cluster.call(0, SIGNAL);
    cluster.call(1, SyncInput::Withdraw { thread: thread(1), from: Withdrawable::Condition(0) });
    cluster.settle();
    let trace = cluster.trace();
    let woken: Vec<_> = trace.iter().filter(|line| !line.contains('>')).collect();
    assert_eq!(woken, ["1: wake 1"], "{trace:?}");
}

#[test]
fn readers_share_a_read_write_lock_and_a_writer_has_it_alone() {
    let mut cluster = Cluster::new(3, 0, 0);
    let take =
        |node, kind, tries| SyncInput::ReadWriteLock { thread: thread(node), id: 0, kind, tries };
    let give = |node| SyncInput::ReadWriteUnlock { thread: thread(node), id: 0 };
    for node in [1, 2] {
        cluster.call(node, take(node, Kind::Read, false));
    }
    cluster.settle();
    cluster.trace();
    cluster.call(1, take(1, Kind::Read, true));
    assert_eq!(cluster.trace(), ["1: wake 1"], "who reads may read once more");
    cluster.call(0, take(0, Kind::Write, true));
    assert_eq!(cluster.trace(), ["0: refuse 0", "0: wake 0"]);
    cluster.call(0, take(0, Kind::Write, false));
    cluster.call(1, give(1));
    cluster.call(2, give(2));
    cluster.settle();
    let trace = cluster.trace();
    assert!(!trace.contains(&"0: wake 0".to_owned()), "node 1 reads still: {trace:?}");
    cluster.call(1, give(1));
    cluster.settle();
    let trace = cluster.trace();
    assert_eq!(trace.last().map(String::as_str), Some("0: wake 0"), "{trace:?}");
    let misuse = cluster.try_input(1, Input::Sync(give(1)));
    assert!(matches!(misuse, Err(Violation::Misuse(_))), "{misuse:?}");
    cluster.call(0, give(0));
    assert_eq!((cluster.ids(0), cluster.ids(1)), (0, 0), "it rests");
}

#[test]
fn a_lock_of_a_thread_that_has_ended_is_nobodys() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(1, lock(1));
    cluster.settle();
    cluster.call(1, SyncInput::End { thread: thread(1) });
    cluster.trace();
    // Another thread by now.
    let misuse = cluster.try_input(1, Input::Sync(unlock(1)));
    assert!(matches!(misuse, Err(Violation::Misuse(_))), "{misuse:?}");
    cluster.call(1, try_lock(1));
    assert_eq!(cluster.trace(), ["1: refuse 1", "1: wake 1"]);
    cluster.call(0, try_lock(0));
    cluster.settle();
    assert!(cluster.trace().contains(&"0: refuse 0".to_owned()), "nor elsewhere");
}
