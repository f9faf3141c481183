//! Locks, barriers, semaphores, condition variables. Synchronization id n is managed by node n mod
//! nodes.

use multigrain_protocol::sync::{LOCAL_HANDOVERS, LOCAL_RETURNS, RETURNS, SyncInput};
use multigrain_types::ThreadId;

use crate::cluster::Cluster;

fn lock(thread: u32) -> SyncInput {
    SyncInput::Lock { thread: ThreadId(thread), id: 0 }
}

fn unlock(thread: u32) -> SyncInput {
    SyncInput::Unlock { thread: ThreadId(thread), id: 0 }
}

#[test]
fn an_uncontended_lock_costs_two_messages_once_and_none_again() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(1, lock(1));
    cluster.settle();
    assert_eq!(cluster.trace(), ["1 > 0: Lock Request", "0 > 1: Lock Grant", "1: wake 1"]);
    cluster.call(1, unlock(1));
    cluster.call(1, lock(2));
    cluster.call(1, unlock(2));
    assert_eq!(cluster.trace(), ["1: wake 2"], "the token stays where nobody else asks for it");
}

#[test]
fn locks_are_granted_to_nodes_in_the_order_of_their_requests() {
    let mut cluster = Cluster::new(4, 0, 0);
    cluster.call(3, lock(3));
    cluster.settle();
    cluster.trace();
    cluster.call(2, lock(2));
    cluster.call(0, lock(0));
    cluster.call(1, lock(1));
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Lock Request",
            "0 > 3: Lock Recall 0",
            "1 > 0: Lock Request",
            "0 > 2: Lock Recall 1",
        ],
        "node 0 took its own request first, and recalled the token for node 2"
    );
    for (node, next) in [(3u16, 0u16), (0, 2), (2, 1)] {
        cluster.call(node, unlock(node.into()));
        cluster.settle();
        assert_eq!(
            cluster.trace(),
            [format!("{node} > {next}: Lock Grant"), format!("{next}: wake {next}")]
        );
    }
}

#[test]
fn threads_of_a_node_hand_a_lock_over_but_not_for_ever() {
    let mut cluster = Cluster::new(2, 0, 0);
    let threads = u32::from(LOCAL_HANDOVERS) + 3;
    (0..threads).for_each(|thread| cluster.call(0, lock(thread)));
    cluster.call(1, lock(99));
    cluster.settle();
    assert_eq!(cluster.trace(), ["0: wake 0", "1 > 0: Lock Request"]);
    for thread in 0..u32::from(LOCAL_HANDOVERS) {
        cluster.call(0, unlock(thread));
        assert_eq!(cluster.trace(), [format!("0: wake {}", thread + 1)]);
    }
    cluster.call(0, unlock(LOCAL_HANDOVERS.into()));
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["0 > 1: Lock Grant", "0 > 1: Lock Recall 0", "1: wake 99"],
        "the other node's turn, and this one is in line again"
    );
    cluster.call(1, unlock(99));
    cluster.settle();
    let next = u32::from(LOCAL_HANDOVERS) + 1;
    assert_eq!(cluster.trace(), ["1 > 0: Lock Grant".to_owned(), format!("0: wake {next}")]);
}

#[test]
fn a_lock_is_taken_again_in_its_window_but_not_for_ever() {
    let back = SyncInput::UnlockToReacquire { thread: ThreadId(0), id: 0, at_once: false };
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(0, lock(0));
    cluster.call(1, lock(99));
    cluster.settle();
    cluster.trace();
    for _ in 0..RETURNS {
        cluster.call(0, back.clone());
        cluster.call(0, lock(0));
        cluster.settle();
        assert_eq!(cluster.trace(), ["0: wake 0"], "without a message");
    }
    cluster.call(0, back);
    cluster.settle();
    assert_eq!(cluster.trace(), ["0 > 1: Lock Grant", "1: wake 99"]);
    cluster.call(0, SyncInput::LockWindowOver { id: 0 });
    cluster.settle();
    assert_eq!(cluster.trace(), [""; 0], "there is none any more");
}

#[test]
fn threads_that_come_back_hand_a_lock_over_as_often_as_one_takes_it_again() {
    let back =
        |thread| SyncInput::UnlockToReacquire { thread: ThreadId(thread), id: 0, at_once: false };
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(0, lock(0));
    cluster.call(0, lock(1));
    cluster.call(1, lock(99));
    cluster.settle();
    cluster.trace();
    for turn in 0..u32::from(RETURNS) {
        cluster.call(0, back(turn % 2));
        cluster.call(0, lock(turn % 2));
        cluster.settle();
        assert_eq!(cluster.trace(), [format!("0: wake {}", (turn + 1) % 2)], "without a message");
    }
    cluster.call(0, back(0));
    cluster.settle();
    assert_eq!(cluster.trace()[..2], ["0 > 1: Lock Grant", "0 > 1: Lock Recall 0"]);
}

fn back_at_once(thread: u32) -> SyncInput {
    SyncInput::UnlockToReacquire { thread: ThreadId(thread), id: 0, at_once: true }
}

#[test]
fn threads_of_a_node_wait_for_the_window_of_one_that_is_back_at_once() {
    let mut cluster = Cluster::new(1, 0, 0);
    cluster.call(0, lock(0));
    cluster.call(0, lock(1));
    cluster.call(0, lock(2));
    cluster.trace();
    for next in [1, 2] {
        for _ in 0..LOCAL_RETURNS {
            cluster.call(0, back_at_once(next - 1));
            cluster.call(0, lock(next - 1));
            assert_eq!(cluster.trace(), [format!("0: wake {}", next - 1)]);
        }
        cluster.call(0, back_at_once(next - 1));
        assert_eq!(cluster.trace(), [format!("0: wake {next}")], "but not for ever");
    }
    cluster.call(0, lock(0));
    cluster.call(0, back_at_once(2));
    cluster.call(0, SyncInput::LockWindowOver { id: 0 });
    assert_eq!(cluster.trace(), ["0: wake 0"], "it did not come back");
}

#[test]
fn a_request_meets_a_window_of_threads() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(0, lock(0));
    cluster.call(0, lock(1));
    cluster.call(0, back_at_once(0));
    cluster.trace();
    cluster.call(1, lock(99));
    cluster.settle();
    assert_eq!(cluster.trace(), ["1 > 0: Lock Request"], "it waits, too");
    cluster.call(0, SyncInput::LockWindowOver { id: 0 });
    assert_eq!(cluster.trace(), ["0: wake 1"]);
    cluster.call(0, unlock(1));
    cluster.settle();
    assert_eq!(cluster.trace(), ["0 > 1: Lock Grant", "1: wake 99"]);
}

#[test]
fn the_end_of_a_window_passes_the_token_on_and_nobody_waiting_means_none() {
    let back =
        |thread| SyncInput::UnlockToReacquire { thread: ThreadId(thread), id: 0, at_once: false };
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(0, lock(0));
    cluster.call(0, back(0));
    cluster.trace();
    cluster.call(1, lock(99));
    cluster.settle();
    let free = ["1 > 0: Lock Request", "0 > 1: Lock Grant", "1: wake 99"];
    assert_eq!(cluster.trace(), free, "it was free");
    cluster.call(0, lock(0));
    cluster.settle();
    cluster.call(1, back(99));
    cluster.settle();
    assert_eq!(cluster.trace(), ["0 > 1: Lock Recall 0"]);
    cluster.call(1, SyncInput::LockWindowOver { id: 0 });
    cluster.settle();
    assert_eq!(cluster.trace(), ["1 > 0: Lock Grant", "0: wake 0"]);
}

#[test]
fn nobody_else_waiting_means_hand_overs_without_bound() {
    let mut cluster = Cluster::new(2, 0, 0);
    let threads = u32::from(LOCAL_HANDOVERS) * 3;
    (0..threads).for_each(|thread| cluster.call(0, lock(thread)));
    (0..threads).for_each(|thread| cluster.call(0, unlock(thread)));
    assert!(cluster.trace().iter().all(|line| line.starts_with("0: wake")));
}

#[test]
fn a_barrier_costs_one_message_a_node_each_way() {
    let mut cluster = Cluster::new(3, 0, 0);
    let come = |thread| SyncInput::Barrier {
        thread: ThreadId(thread),
        id: 0,
        local: 2,
        total: 6,
        quiescent: false,
    };
    for (node, thread) in [(1, 0), (0, 0), (1, 1), (2, 0), (0, 1), (2, 1)] {
        cluster.call(node, come(thread));
    }
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Barrier Arrive 2 6",
            "2 > 0: Barrier Arrive 2 6",
            "0 > 1: Barrier Release 2",
            "0 > 2: Barrier Release 2",
            "0: wake 0",
            "0: wake 1",
            "1: wake 0",
            "1: wake 1",
            "2: wake 0",
            "2: wake 1",
        ]
    );
}

#[test]
fn a_barrier_can_be_met_again_at_once() {
    let mut cluster = Cluster::new(2, 0, 0);
    let come = |thread| SyncInput::Barrier {
        thread: ThreadId(thread),
        id: 1,
        local: 1,
        total: 2,
        quiescent: false,
    };
    for _ in 0..2 {
        cluster.call(0, come(0));
        cluster.settle();
        assert_eq!(cluster.trace(), ["0 > 1: Barrier Arrive 1 2"]);
        cluster.call(1, come(1));
        cluster.settle();
        assert_eq!(cluster.trace(), ["1 > 0: Barrier Release 1", "1: wake 1", "0: wake 0"]);
    }
}

#[test]
fn a_semaphore_wakes_who_asked_first_and_keeps_what_nobody_wants() {
    let mut cluster = Cluster::new(3, 0, 0);
    let down = |thread| SyncInput::SemaphoreWait { thread: ThreadId(thread), id: 0 };
    cluster.call(2, down(2));
    cluster.call(1, down(1));
    cluster.settle();
    cluster.trace();
    cluster.call(1, SyncInput::SemaphorePost { id: 0, count: 3 });
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Semaphore Post 3",
            "0 > 2: Semaphore Grant",
            "0 > 1: Semaphore Grant",
            "2: wake 2",
            "1: wake 1",
        ]
    );
    cluster.call(0, down(0));
    assert_eq!(cluster.trace(), ["0: wake 0"]);
    cluster.call(0, down(0));
    assert!(cluster.trace().is_empty(), "three units, three threads, and none for a fourth");
}

#[test]
fn a_signal_under_the_lock_is_never_lost() {
    let mut cluster = Cluster::new(3, 0, 0);
    cluster.call(1, lock(1));
    cluster.call(2, lock(2));
    cluster.settle();
    cluster.trace();
    cluster.call(1, SyncInput::ConditionWait { thread: ThreadId(1), id: 3, lock: 0 });
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["1 > 0: Condition Enqueue", "0 > 1: Condition Queued", "1 > 2: Lock Grant", "2: wake 2",],
        "queued first, then the lock goes"
    );
    cluster.call(2, SyncInput::ConditionSignal { id: 3, all: false });
    cluster.call(2, unlock(2));
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Condition Signal false",
            "0 > 1: Condition Wake",
            "1 > 0: Lock Request",
            "0 > 2: Lock Recall 1",
            "2 > 1: Lock Grant",
            "1: wake 1",
        ]
    );
}

#[test]
fn a_signal_wakes_the_longest_waiter_and_a_broadcast_all() {
    let mut cluster = Cluster::new(2, 0, 0);
    for thread in 1..=3 {
        cluster.call(1, lock(thread));
        cluster.settle();
        cluster.call(1, SyncInput::ConditionWait { thread: ThreadId(thread), id: 1, lock: 0 });
        cluster.settle();
    }
    cluster.trace();
    cluster.call(1, SyncInput::ConditionSignal { id: 1, all: false });
    assert_eq!(cluster.trace(), ["1: wake 1"], "the token was still here");
    cluster.call(1, SyncInput::ConditionSignal { id: 1, all: true });
    cluster.call(1, unlock(1));
    cluster.call(1, unlock(2));
    assert_eq!(cluster.trace(), ["1: wake 2", "1: wake 3"]);
}

#[test]
fn a_signal_nobody_waits_for_is_forgotten() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(1, SyncInput::ConditionSignal { id: 0, all: true });
    cluster.settle();
    assert_eq!(cluster.trace(), ["1 > 0: Condition Signal true"]);
}
