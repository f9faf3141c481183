//! Releases, acquires and write notices.

use multigrain_protocol::Input;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_protocol::sync::SyncInput;
use multigrain_types::{Access, NodeId, ThreadId};

use super::{lazy, lock, quiescent_barrier, read_by, unlock};
use crate::cluster::{Cluster, M};

#[test]
fn a_release_sends_a_diff_home_and_waits_for_its_acknowledgement() {
    let mut cluster = read_by(2, &[1]);
    cluster.access(1, Write);
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1: protect ReadWrite to ReadOnly",
            "1 > 0: Diff flush 1",
            "1: drop twin",
            "0: buffer diff",
            "0: merge",
            "0 > 1 later: DiffAck flush 1",
            "1: wake 1"
        ]
    );
}

#[test]
fn a_release_of_the_home_sends_nothing() {
    let mut cluster = read_by(2, &[1]);
    cluster.access(0, Write);
    cluster.release(0);
    assert_eq!(cluster.trace(), ["0: protect ReadWrite to ReadOnly", "0: wake 0"]);
}

/// Node 0 writes and makes a release; notices that it has in its log then.
fn write_and_release(cluster: &mut Cluster) -> usize {
    cluster.fault(0, Write);
    cluster.release(0);
    cluster.release_tracker(0).log().notices()
}

#[test]
fn a_home_that_nobody_got_since_its_release_is_written_without_notices() {
    let mut cluster = read_by(3, &[1, 2]);
    assert_eq!(write_and_release(&mut cluster), 1);
    cluster.trace();
    // Whoever learns of this write has heard of the first one.
    assert_eq!(write_and_release(&mut cluster), 1);
    let opened = ["0: protect ReadOnly to ReadWrite", "0: wake 0", "0: wake 0"];
    assert_eq!(cluster.trace(), opened, "and the release leaves it open");
    lock(&mut cluster, 1);
    cluster.settle();
    cluster.fault(1, Read);
    cluster.settle();
    let trace = cluster.trace();
    assert!(trace.contains(&"0 > 1: Data".to_owned()), "{trace:#?}");
    assert_eq!(cluster.copy(0).access(), Access::ReadOnly);
    // Node 1 has a copy that no notice names.
    cluster.fault(0, Write);
    cluster.release(0);
    assert_eq!(
        cluster.trace(),
        [
            "0: protect ReadOnly to ReadWrite",
            "0: wake 0",
            "0: protect ReadWrite to ReadOnly",
            "0: wake 0"
        ]
    );
}

#[test]
fn a_diff_of_a_copy_that_a_notice_names_is_merged_and_leaves_the_home_open() {
    let mut cluster = read_by(2, &[1]);
    cluster.access(1, Write);
    for _ in 0..2 {
        write_and_release(&mut cluster);
    }
    cluster.release(1);
    cluster.settle();
    assert_eq!(cluster.copy(0).access(), Access::ReadWrite, "merged as it was open");
    cluster.trace();
    cluster.release(0);
    assert_eq!(cluster.trace(), ["0: wake 0"], "no notice");
    lock(&mut cluster, 1);
    cluster.settle();
    assert_eq!(cluster.copy(1).access(), Access::NoAccess, "by the notice of the first write");
}

/// Node 1 has written under a lock, and unlocks it for this node, which waits; the home is node 0.
fn written_and_unlocked_for(next: u16) -> Cluster {
    let mut cluster = read_by(3, &[1, 2]);
    lock(&mut cluster, 1);
    cluster.settle();
    cluster.access(1, Write);
    lock(&mut cluster, next);
    cluster.settle();
    cluster.trace();
    unlock(&mut cluster, 1);
    cluster
}

#[test]
fn a_lock_grant_brings_write_notices_and_the_next_owner_invalidates() {
    let mut cluster = written_and_unlocked_for(2);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1: protect ReadWrite to ReadOnly",
            "1 > 0: Diff flush 1",
            "1: drop twin",
            "0: buffer diff",
            "0: merge",
            "0 > 1 later: DiffAck flush 1",
            "1 > 2: WriteNotices [0, 1], 1 wrote 0 in 1",
            "1 > 2: Lock Grant",
            "2: protect ReadOnly to NoAccess",
            "2: wake 2"
        ],
        "the diff is home before the lock goes"
    );
    cluster.fault(2, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["2 > 0: Fetch 2 epoch 0", "0 > 2: Data", "2: install ReadOnly", "2: wake 2"]
    );
}

#[test]
fn a_grant_to_the_home_of_all_that_was_written_waits_for_no_acknowledgement() {
    let mut cluster = written_and_unlocked_for(0);
    assert_eq!(
        cluster.trace(),
        [
            "1: protect ReadWrite to ReadOnly",
            "1 > 0: Diff flush 1",
            "1: drop twin",
            "1 > 0: WriteNotices [0, 1], 1 wrote 0 in 1",
            "1 > 0: Lock Grant",
        ]
    );
    // Any other node may ask the home before the diff is there: it hears of nothing yet.
    cluster.call(1, SyncInput::SemaphorePost { id: 2, count: 1 });
    cluster.input(1, Input::Notify { node: NodeId(2) });
    assert!(cluster.trace().is_empty());
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0: buffer diff",
            "0: merge",
            "0 > 1 later: DiffAck flush 1",
            "0: wake 0",
            "1 > 2: WriteNotices [0, 1], 1 wrote 0 in 1",
            "1 > 2: Semaphore Post 1",
        ]
    );
}

#[test]
fn a_grant_without_notices_travels_alone() {
    let mut cluster = read_by(3, &[1, 2]);
    for _ in 0..2 {
        for node in [1, 2] {
            lock(&mut cluster, node);
            cluster.settle();
            unlock(&mut cluster, node);
            cluster.settle();
        }
    }
    assert!(cluster.trace().iter().all(|line| !line.contains("WriteNotices")), "nobody wrote");
    cluster.access(1, Write);
    let mut sent = 0;
    for _ in 0..3 {
        for node in [1, 2] {
            lock(&mut cluster, node);
            cluster.settle();
            unlock(&mut cluster, node);
            cluster.settle();
        }
        let trace = cluster.trace();
        sent += trace.iter().filter(|line| line.starts_with("1 > 2: WriteNotices")).count();
    }
    assert_eq!(sent, 1, "nothing is sent twice");
}

#[test]
fn a_barrier_gathers_and_spreads_what_all_wrote() {
    let mut cluster = read_by(3, &[1, 2]);
    cluster.access(1, Write);
    cluster.access(2, Write);
    quiescent_barrier(&mut cluster, 3);
    assert_eq!(
        cluster.trace(),
        [
            "1: protect ReadWrite to ReadOnly",
            "1 > 0: Diff flush 1",
            "1: drop twin",
            "1 > 0: WriteNotices [0, 1], 1 wrote 0 in 1",
            "1 > 0: Barrier Arrive 1 3 quiescent",
            "2: protect ReadWrite to ReadOnly",
            "2 > 0: Diff flush 1",
            "2: drop twin",
            "2 > 0: WriteNotices [0, 0, 1], 2 wrote 0 in 1",
            "2 > 0: Barrier Arrive 1 3 quiescent",
            "0: buffer diff",
            "0: merge",
            "0 > 1 later: DiffAck flush 1",
            "0: buffer diff",
            "0: merge",
            "0 > 2 later: DiffAck flush 1",
            "0 > 1: WriteNotices [0, 1, 1], 2 wrote 0 in 1, all know [0, 0, 0]",
            "0 > 1: Barrier Release 1 quiescent",
            "0 > 2: WriteNotices [0, 1, 1], 1 wrote 0 in 1, all know [0, 0, 0]",
            "0 > 2: Barrier Release 1 quiescent",
            "0: wake 0",
            "1: protect ReadOnly to NoAccess",
            "1: wake 1",
            "2: protect ReadOnly to NoAccess",
            "2: wake 2"
        ]
    );
}

#[test]
fn an_answer_that_is_older_than_a_notice_is_asked_for_again() {
    let mut cluster = read_by(3, &[2]);
    cluster.access(2, Write);
    cluster.fault(1, Read);
    cluster.deliver_from(1, 0);
    // The answer of the home is slow. Node 2 releases, and notifies node 1 by other means.
    cluster.release(2);
    cluster.deliver_from(2, 0);
    cluster.deliver_from(0, 2);
    cluster.input(2, Input::Notify { node: NodeId(1) });
    cluster.deliver_from(2, 1);
    cluster.input(1, Input::Acquire);
    cluster.trace();
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["1 > 0: Fetch 1 epoch 0", "0 > 1: Data", "1: install ReadOnly", "1: wake 1"]
    );
}

#[test]
fn an_old_answer_that_nobody_waits_for_is_dropped() {
    let mut cluster = read_by(3, &[2]);
    cluster.access(2, Write);
    cluster.input(1, Input::Prefetch { minipage: M, kind: Read });
    cluster.deliver_from(1, 0);
    cluster.release(2);
    cluster.deliver_from(2, 0);
    cluster.deliver_from(0, 2);
    cluster.input(2, Input::Notify { node: NodeId(1) });
    cluster.deliver_from(2, 1);
    cluster.input(1, Input::Acquire);
    cluster.trace();
    cluster.settle();
    assert!(cluster.trace().is_empty());
    assert_eq!(cluster.copy(1).access(), Access::NoAccess);
}

#[test]
fn a_notice_of_what_is_written_here_too_sends_a_diff_before_the_copy_goes() {
    let mut cluster = read_by(3, &[1, 2]);
    cluster.access(1, Write);
    cluster.access(2, Write);
    cluster.release(1);
    cluster.settle();
    cluster.input(1, Input::Notify { node: NodeId(2) });
    cluster.settle();
    cluster.trace();
    cluster.input(2, Input::Acquire);
    assert_eq!(
        cluster.trace(),
        ["2: protect ReadWrite to NoAccess", "2 > 0: Diff flush 1", "2: drop twin"]
    );
    // The node's next release waits for it, and says that it was written.
    cluster.release(2);
    assert!(cluster.trace().is_empty());
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["0: buffer diff", "0: merge", "0 > 2 later: DiffAck flush 1", "2: wake 2"]
    );
    cluster.input(2, Input::Notify { node: NodeId(1) });
    assert_eq!(cluster.trace(), ["2 > 1: WriteNotices [0, 1, 1], 2 wrote 0 in 1"]);
}

#[test]
fn the_home_need_not_forget_what_others_wrote() {
    let mut cluster = read_by(2, &[1]);
    cluster.access(1, Write);
    cluster.release(1);
    cluster.settle();
    cluster.input(1, Input::Notify { node: NodeId(0) });
    cluster.settle();
    cluster.trace();
    cluster.input(0, Input::Acquire);
    assert!(cluster.trace().is_empty());
    assert_eq!(cluster.copy(0).access(), Access::ReadOnly);
}

#[test]
fn notifying_of_what_is_known_costs_nothing() {
    let mut cluster = read_by(2, &[1]);
    cluster.input(1, Input::Notify { node: NodeId(0) });
    assert!(cluster.trace().is_empty(), "nobody wrote");
    cluster.access(1, Write);
    cluster.release(1);
    cluster.settle();
    cluster.input(1, Input::Notify { node: NodeId(0) });
    cluster.input(1, Input::Notify { node: NodeId(0) });
    let trace = cluster.trace();
    assert_eq!(trace.iter().filter(|line| line.contains("WriteNotices")).count(), 1);
}

#[test]
fn notices_are_forgotten_when_all_have_received_them() {
    let mut cluster = read_by(3, &[1, 2]);
    let kept = |cluster: &crate::cluster::Cluster| {
        [0, 1, 2].map(|node| cluster.release_tracker(node).log().notices())
    };
    let mut most = [0; 3];
    for round in 0..20u16 {
        cluster.access(1 + round % 2, Write);
        quiescent_barrier(&mut cluster, 3);
        most = core::array::from_fn(|node| most[node].max(kept(&cluster)[node]));
    }
    assert!(most.iter().all(|&notices| notices <= 2), "{most:?}");
    quiescent_barrier(&mut cluster, 3);
    quiescent_barrier(&mut cluster, 3);
    assert_eq!(kept(&cluster), [0; 3]);
}

#[test]
fn a_thread_that_waits_for_its_release_goes_on_when_the_home_has_the_diff() {
    let mut cluster = lazy(2);
    cluster.access(1, Write);
    cluster.input(1, Input::Release { thread: ThreadId(7) });
    cluster.deliver_from(1, 0);
    assert!(!cluster.trace().contains(&"1: wake 7".to_owned()));
    cluster.deliver_from(0, 1);
    assert_eq!(cluster.trace(), ["1: wake 7"]);
}
