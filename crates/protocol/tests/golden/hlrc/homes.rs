//! Faults, first touch, and homes that move.

use multigrain_protocol::Kind::{Read, Write};
use multigrain_protocol::sync::{SyncInput, SyncTables};
use multigrain_protocol::{BarrierMessage, Effect, Effects, Input};
use multigrain_types::{Access, NodeId, ThreadId};

use super::{come, lazy, quiescent_barrier, read_by};
use crate::cluster::M;

#[test]
fn the_first_to_touch_zeros_becomes_their_home_without_bytes() {
    let mut cluster = lazy(3);
    cluster.hold_zeros(true);
    cluster.fault(1, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Fetch 1 epoch 0",
            "0: close, all zeros",
            "0 > 1: FirstTouch",
            "1: install zeros ReadWrite",
            "1: wake 1"
        ]
    );
    assert_eq!((cluster.copy(0).home(), cluster.copy(1).home()), (Some(NodeId(1)), None));
    // It writes what it likes, for nobody else has it.
    cluster.fault(1, Write);
    cluster.release(1);
    assert_eq!(cluster.trace(), ["1: reprotect ReadWrite", "1: wake 1", "1: wake 1"]);
}

#[test]
fn who_asks_the_allocating_node_is_sent_on_and_learns_who_the_home_is() {
    let mut cluster = lazy(3);
    cluster.hold_zeros(true);
    cluster.access(1, Write);
    cluster.hold_zeros(false);
    cluster.fault(2, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Fetch 2 epoch 0",
            "0 > 1: Fetch 2 epoch 0",
            "1: protect ReadWrite to ReadOnly",
            "1 > 2: Data",
            "2: install ReadOnly",
            "2: wake 2"
        ]
    );
    assert_eq!(cluster.copy(2).home(), Some(NodeId(1)));
    // From now on the home's writes are noticed.
    assert_eq!(cluster.copy(1).access(), Access::ReadOnly);
}

#[test]
fn zeros_transfer_the_home_once_and_are_then_copied() {
    let mut cluster = lazy(3);
    cluster.hold_zeros(true);
    cluster.access(1, Read);
    cluster.fault(2, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Fetch 2 epoch 0",
            "0 > 1: Fetch 2 epoch 0",
            "1: protect ReadWrite to ReadOnly",
            "1 > 2: Data",
            "2: twin",
            "2: install ReadWrite",
            "2: wake 2"
        ]
    );
}

#[test]
fn a_miss_is_fetch_and_data_and_closes_the_homes_door_to_writes_once() {
    let mut cluster = lazy(3);
    cluster.fault(1, Read);
    cluster.settle();
    cluster.fault(2, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Fetch 1 epoch 0",
            "0: protect ReadWrite to ReadOnly",
            "0 > 1: Data",
            "1: install ReadOnly",
            "1: wake 1",
            "2 > 0: Fetch 2 epoch 0",
            "0 > 2: Data",
            "2: install ReadOnly",
            "2: wake 2"
        ]
    );
    assert_eq!(cluster.copy(0).access(), Access::ReadOnly);
}

#[test]
fn a_write_miss_installs_a_twin_with_the_copy() {
    let mut cluster = lazy(2);
    cluster.fault(1, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Fetch 1 epoch 0",
            "0: protect ReadWrite to ReadOnly",
            "0 > 1: Data",
            "1: twin",
            "1: install ReadWrite",
            "1: wake 1"
        ]
    );
}

#[test]
fn the_first_write_to_a_copy_makes_a_twin_and_asks_nobody() {
    let mut cluster = read_by(2, &[1]);
    cluster.fault(1, Write);
    cluster.fault(0, Write);
    assert_eq!(
        cluster.trace(),
        [
            "1: twin",
            "1: protect ReadOnly to ReadWrite",
            "1: wake 1",
            "0: protect ReadOnly to ReadWrite",
            "0: wake 0"
        ],
        "the home has no twin"
    );
}

#[test]
fn threads_of_a_node_share_a_fetch_and_the_strongest_wish_counts() {
    let mut cluster = lazy(2);
    cluster.fault(1, Read);
    cluster.fault(1, Write);
    cluster.fault(1, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Fetch 1 epoch 0",
            "0: protect ReadWrite to ReadOnly",
            "0 > 1: Data",
            "1: twin",
            "1: install ReadWrite",
            "1: wake 1",
            "1: wake 1",
            "1: wake 1"
        ]
    );
}

#[test]
fn a_fault_that_is_served_already_sends_nothing() {
    let mut cluster = read_by(2, &[1]);
    for node in [0, 1] {
        cluster.fault(node, Read);
        cluster.access(node, Write);
        cluster.fault(node, Write);
    }
    assert_eq!(cluster.trace(), ["1: reprotect ReadWrite", "1: wake 1"]);
    let mut cluster = lazy(1);
    cluster.fault(0, Write);
    assert_eq!(cluster.trace(), ["0: reprotect ReadWrite", "0: wake 0"], "the home alone");
}

#[test]
fn a_prefetch_wakes_nobody() {
    let mut cluster = lazy(2);
    for kind in [Read, Read] {
        cluster.input(1, Input::Prefetch { minipage: M, kind });
    }
    cluster.settle();
    for node in [0, 1] {
        cluster.input(node, Input::Prefetch { minipage: M, kind: Read });
    }
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Fetch 1 epoch 0 ahead",
            "0: protect ReadWrite to ReadOnly",
            "0 > 1: Data",
            "1: install ReadOnly"
        ]
    );
}

#[test]
fn paper_parade_the_home_moves_at_a_barrier_to_the_only_node_that_wrote() {
    let mut cluster = read_by(3, &[1, 2]);
    cluster.access(2, Write);
    quiescent_barrier(&mut cluster, 3);
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Barrier Arrive 1 3 quiescent",
            "2: protect ReadWrite to ReadOnly",
            "2 > 0: Diff flush 1",
            "2: drop twin",
            // Its writes are ahead of it on the same link.
            "2 > 0: WriteNotices [0, 0, 1], 2 wrote 0 in 1",
            "2 > 0: Barrier Arrive 1 3 quiescent",
            "0: buffer diff",
            "0: merge",
            "0 > 2 later: DiffAck flush 1",
            // Before anybody learns of it: who does may fetch from the new home at once.
            "0: protect ReadOnly to NoAccess",
            "0 > 1: WriteNotices [0, 0, 1], 2 wrote 0 in 1, all know [0, 0, 0], 0 moves to 2",
            "0 > 1: Barrier Release 1 quiescent",
            "0 > 2: WriteNotices [0, 0, 1], all know [0, 0, 0], 0 moves to 2",
            "0 > 2: Barrier Release 1 quiescent",
            "0: wake 0",
            "1: protect ReadOnly to NoAccess",
            "1: wake 1",
            "2: wake 2"
        ]
    );
    assert_eq!(cluster.copy(2).home(), None);
    for node in [0, 1] {
        assert_eq!(cluster.copy(node).home(), Some(NodeId(2)));
    }
    // The new home's writes need no diff any more.
    cluster.fault(2, Write);
    cluster.release(2);
    assert_eq!(
        cluster.trace(),
        [
            "2: protect ReadOnly to ReadWrite",
            "2: wake 2",
            "2: protect ReadWrite to ReadOnly",
            "2: wake 2"
        ]
    );
}

#[test]
fn what_two_nodes_wrote_stays_where_it_is() {
    let mut cluster = read_by(3, &[1, 2]);
    cluster.access(1, Write);
    cluster.access(2, Write);
    quiescent_barrier(&mut cluster, 3);
    assert!(cluster.trace().iter().all(|line| !line.contains("moves")));
    assert_eq!(cluster.copy(0).home(), None);
    // Each received the other's writes.
    assert_eq!(cluster.copy(1).access(), Access::NoAccess);
    assert_eq!(cluster.copy(2).access(), Access::NoAccess);
}

#[test]
fn a_fetch_that_overtakes_the_notices_of_a_move_waits_for_it() {
    let mut cluster = read_by(3, &[1, 2]);
    cluster.access(2, Write);
    for node in [2, 1, 0] {
        super::come(&mut cluster, node, 3);
        // All has come, and nothing of the answer.
        while node > 0 && cluster.deliver() {}
    }
    // Node 0 has decided. Node 1 receives the plan and asks the new home, which has not.
    cluster.trace();
    cluster.deliver_from(0, 1);
    cluster.deliver_from(0, 1);
    cluster.fault(1, Read);
    cluster.deliver_from(1, 2);
    assert_eq!(
        cluster.trace(),
        ["1: protect ReadOnly to NoAccess", "1: wake 1", "1 > 2: Fetch 1 epoch 1"]
    );
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["2 > 1: Data", "2: wake 2", "1: install ReadOnly", "1: wake 1"],
        "node 2 turns, and then it answers"
    );
}

#[test]
fn data_that_a_migration_plan_overtook_still_names_the_home() {
    let mut cluster = lazy(3);
    cluster.hold_zeros(true);
    cluster.access(1, Write);
    cluster.hold_zeros(false);
    // Nobody waits for it, so that its node can come to a barrier.
    cluster.input(2, Input::Prefetch { minipage: M, kind: Read });
    cluster.deliver_from(2, 0);
    cluster.deliver_from(0, 1);
    for node in 0..3 {
        super::come(&mut cluster, node, 3);
    }
    for (from, to) in [(2, 0), (0, 2)] {
        cluster.deliver_from(from, to);
        if from == 2 {
            cluster.deliver_from(1, 0);
        }
    }
    cluster.trace();
    cluster.fault(2, Read);
    cluster.settle();
    assert_eq!(cluster.trace(), ["2: install ReadOnly", "2: wake 2", "1: wake 1"]);
    assert_eq!(cluster.copy(2).home(), Some(NodeId(1)));
}

/// A thread begins on a node whose only thread waits at a barrier already, and writes.
#[test]
fn a_thread_that_begins_at_a_quiescent_node_retracts_that_before_it_runs() {
    let mut cluster = read_by(2, &[1]);
    come(&mut cluster, 1, 2);
    cluster.settle();
    assert_eq!(cluster.trace(), ["1 > 0: Barrier Arrive 1 2 quiescent"]);
    cluster.call(1, SyncInput::Begin { thread: ThreadId(7) });
    assert_eq!(cluster.trace(), ["1 > 0: Barrier Retract"]);
    cluster.settle();
    assert_eq!(cluster.trace(), ["0 > 1: Barrier Retracted", "1: wake 7"]);
    // Another one need not ask again.
    cluster.call(1, SyncInput::Begin { thread: ThreadId(8) });
    assert_eq!(cluster.trace(), ["1: wake 8"]);
    come(&mut cluster, 0, 2);
    cluster.settle();
    assert_eq!(cluster.trace(), ["0 > 1: Barrier Release 1", "0: wake 0", "1: wake 1"]);
}

/// The release is on its way: the thread that begins finds the homes moved.
#[test]
fn a_thread_that_begins_after_the_decision_runs_behind_the_release() {
    let mut cluster = read_by(2, &[1]);
    cluster.fault(1, Write);
    cluster.settle();
    come(&mut cluster, 1, 2);
    cluster.settle();
    come(&mut cluster, 0, 2);
    cluster.trace();
    cluster.call(1, SyncInput::Begin { thread: ThreadId(7) });
    cluster.settle();
    let trace = cluster.trace();
    let at = |wanted: &str| trace.iter().position(|line| line == wanted).unwrap_or(usize::MAX);
    assert!(at("1: wake 1") < at("1: wake 7") && at("1: wake 7") < trace.len(), "{trace:#?}");
    assert_eq!(cluster.copy(1).home(), None, "it is the home: it was the only writer");
}

/// The node that came first looked later, and found that others run: a thread unknown to this node has begun since.
#[test]
fn a_node_is_quiescent_only_if_all_who_come_together_found_it_so() {
    for looks in [[true, true], [true, false], [false, true]] {
        let mut tables = SyncTables::with_threads(2);
        let mut out = Effects::new();
        for (thread, quiescent) in [0, 1].map(ThreadId).into_iter().zip(looks) {
            assert!(out.is_empty(), "they are told of together");
            let come = SyncInput::Barrier { thread, id: 0, local: 2, total: 4, quiescent };
            tables.ask(NodeId(1), 2, &come, &mut out).expect("it may come");
        }
        let quiescent = if looks == [true, true] { 2 } else { 0 };
        let message = BarrierMessage::Arrive { arrivals: 2, total: 4, quiescent }.about(0);
        assert_eq!(out[..], [Effect::Send { to: NodeId(0), message }]);
    }
}

/// The manager's own node says that it is quiescent when its flush has ended; what a thread that begins
/// meanwhile takes back must not overtake that.
#[test]
fn a_retraction_to_its_own_manager_follows_the_arrival() {
    let mut cluster = lazy(2);
    cluster.hold_zeros(true);
    cluster.access(1, Write);
    cluster.access(0, Write);
    cluster.trace();
    come(&mut cluster, 0, 2);
    cluster.call(0, SyncInput::Begin { thread: ThreadId(7) });
    assert!(!cluster.trace().contains(&"0: wake 7".to_owned()), "the arrival is held");
    cluster.settle();
    assert!(cluster.trace().contains(&"0: wake 7".to_owned()));
    come(&mut cluster, 1, 2);
    cluster.settle();
    let trace = cluster.trace();
    assert!(trace.contains(&"0 > 1: Barrier Release 1".to_owned()), "not quiescent: {trace:#?}");
}
