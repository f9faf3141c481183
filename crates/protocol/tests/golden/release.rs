//! The tracker: what waits for the writes of a node to arrive, and in which order it goes.

use multigrain_protocol::Input;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_protocol::sync::SyncInput;
use multigrain_types::{Consistency, ThreadId};

use crate::cluster::{Cluster, N};

/// Node 0 is the home and manages lock 0, node 1 locks 1, node 2 locks 2; nodes 1 and 2 have
/// written the minipage, so that a release of node 1 takes four messages.
fn contended() -> Cluster {
    let mut cluster = Cluster::of(Consistency::EagerRelease, 3, 0, 0);
    cluster.access(2, Write);
    cluster.access(1, Write);
    cluster
}

fn lock(cluster: &mut Cluster, node: u16, id: u64) {
    cluster.call(node, SyncInput::Lock { thread: ThreadId(node.into()), id });
}

fn unlock(cluster: &mut Cluster, node: u16, id: u64) {
    cluster.call(node, SyncInput::Unlock { thread: ThreadId(node.into()), id });
}

#[test]
fn a_lock_grant_is_held_until_every_copy_of_what_was_written_is_gone() {
    let mut cluster = contended();
    lock(&mut cluster, 1, 0);
    cluster.settle();
    lock(&mut cluster, 2, 0);
    cluster.settle();
    cluster.trace();
    unlock(&mut cluster, 1, 0);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 1: Invalidate",
            "0 > 2: Invalidate",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: Diff",
            "1: drop twin",
            "2 > 0: Release",
            "2: protect ReadWrite to NoAccess",
            "2 > 0: Diff",
            "2: drop twin",
            "0: buffer diff",
            "0: buffer diff",
            "0: merge",
            "0 > 1: ReleaseAck",
            "0 > 2: ReleaseAck",
            "1 > 2: Lock Grant",
            "2: wake 2"
        ]
    );
}

#[test]
fn within_a_node_nothing_is_held() {
    let mut cluster = contended();
    lock(&mut cluster, 1, 0);
    cluster.settle();
    cluster.trace();
    cluster.call(1, SyncInput::Lock { thread: ThreadId(9), id: 0 });
    unlock(&mut cluster, 1, 0);
    assert_eq!(cluster.trace(), ["1: wake 9"]);
}

#[test]
fn a_message_without_a_release_stays_behind_those_held_for_its_node_and_no_other() {
    let mut cluster = contended();
    // Node 1 posts to a semaphore of node 0, which is held, then asks for a lock of node 0 and for
    // one of node 2.
    cluster.call(1, SyncInput::SemaphorePost { id: 3, count: 1 });
    lock(&mut cluster, 1, 0);
    lock(&mut cluster, 1, 2);
    assert_eq!(cluster.trace(), ["1 > 0: Release", "1 > 2: Lock Request"]);
    cluster.settle();
    let trace = cluster.trace();
    let sent: Vec<_> = trace.iter().filter(|line| line.starts_with("1 > 0: ")).collect();
    assert_eq!(sent[1..], ["1 > 0: Semaphore Post 1", "1 > 0: Lock Request"]);
}

#[test]
fn a_release_waits_for_all_older_flushes() {
    let mut cluster = contended();
    cluster.call(1, SyncInput::SemaphorePost { id: 3, count: 1 });
    // Another minipage, of which node 1 has the only copy, is written and released quickly.
    cluster.fault_on(1, N, Write);
    for (from, to) in [(1, 0), (1, 0), (0, 1)] {
        cluster.deliver_from(from, to);
    }
    cluster.trace();
    cluster.call(1, SyncInput::SemaphorePost { id: 6, count: 1 });
    assert!(cluster.trace().is_empty(), "held too");
    cluster.settle();
    let trace = cluster.trace();
    let sent: Vec<_> = trace.iter().filter(|line| line.contains("Post")).collect();
    assert_eq!(sent, ["1 > 0: Semaphore Post 1", "1 > 0: Semaphore Post 1"]);
}

#[test]
fn who_comes_to_a_barrier_on_its_managers_node_comes_with_all_it_wrote() {
    let mut cluster = Cluster::of(Consistency::EagerRelease, 2, 0, 0);
    cluster.access(1, Read);
    cluster.access(0, Write);
    for node in [1, 0] {
        let thread = ThreadId(node.into());
        let barrier = SyncInput::Barrier { thread, id: 0, local: 1, total: 2, quiescent: false };
        cluster.call(node, barrier);
        cluster.deliver();
    }
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Barrier Arrive 1 2",
            "0 > 1: Invalidate",
            "0: protect ReadWrite to ReadOnly",
            "1: protect ReadOnly to NoAccess",
            "1 > 0: Ack",
            "0: merge",
            "0 > 1: Barrier Release 1",
            "0: wake 0",
            "1: wake 1"
        ]
    );
}

#[test]
fn writes_that_leave_before_a_flush_begins_belong_to_the_next() {
    let mut cluster = contended();
    // Node 2 releases; the invalidation takes what node 1 wrote and has not released.
    cluster.release(2);
    cluster.deliver_from(2, 0);
    cluster.deliver_from(0, 1);
    cluster.trace();
    assert!(
        cluster.release_tracker(1).queue().is_empty() && !cluster.release_tracker(1).is_settled()
    );
    // They are acknowledged before the flush begins.
    cluster.settle();
    cluster.trace();
    assert!(!cluster.release_tracker(1).is_settled(), "a flush that has not begun may still grow");
    cluster.release(1);
    assert_eq!(cluster.trace(), ["1: wake 1"]);
    assert!(cluster.release_tracker(1).is_settled());
}

#[test]
fn a_release_of_several_minipages_goes_when_the_last_is_acknowledged() {
    let mut cluster = contended();
    cluster.fault_on(1, N, Write);
    cluster.settle();
    cluster.trace();
    cluster.input(1, Input::Release { thread: ThreadId(7) });
    assert_eq!(cluster.release_tracker(1).queue().len(), 0);
    cluster.settle();
    let trace = cluster.trace();
    assert_eq!(trace.last(), Some(&"1: wake 7".to_owned()));
    let acknowledged = |line: &&String| line.starts_with("0 > 1: ReleaseAck");
    assert_eq!(trace.iter().filter(acknowledged).count(), 2, "{trace:#?}");
}
