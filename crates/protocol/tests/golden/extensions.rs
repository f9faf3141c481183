//! Prefetch, push and reclaim: what a real system adds to the paper's protocol.

use multigrain_protocol::Input;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_types::Access;

use crate::cluster::{Cluster, M};

#[test]
fn a_prefetch_nobody_waits_for_is_acknowledged_at_once() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.input(1, Input::Prefetch { minipage: M, kind: Read });
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Request Read",
            "0: protect ReadWrite to ReadOnly",
            "0 > 1: Reply Read Page",
            "1: install ReadOnly",
            "1 > 0: Ack",
        ]
    );
}

#[test]
fn a_fault_joins_the_prefetch_that_is_on_its_way() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.input(1, Input::Prefetch { minipage: M, kind: Write });
    cluster.fault(1, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Request Write",
            "0: protect ReadWrite to NoAccess",
            "0 > 1: Reply Write Page",
            "1: install ReadWrite",
            "1: wake 1",
        ]
    );
}

#[test]
fn a_prefetch_of_what_is_there_or_under_way_sends_nothing() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.input(0, Input::Prefetch { minipage: M, kind: Write });
    cluster.input(1, Input::Prefetch { minipage: M, kind: Read });
    cluster.input(1, Input::Prefetch { minipage: M, kind: Write });
    assert_eq!(cluster.trace(), ["1 > 0: Request Read"]);
}

#[test]
fn paper_s4_3_a_push_hands_a_read_copy_to_every_node_without_one() {
    let mut cluster = Cluster::new(4, 0, 1);
    cluster.access(3, Read);
    cluster.input(1, Input::Push { minipage: M });
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: PushRequest",
            "0 > 1: PushForward 0",
            "0 > 1: PushForward 2",
            "1 > 0: PushReply",
            "1 > 2: PushReply",
            "0: install ReadOnly",
            "2: install ReadOnly",
            "2 > 0: Ack",
        ]
    );
    assert!(cluster.entry(0).is_idle());
    assert_eq!(cluster.copyset(0), [0, 1, 2, 3]);
}

#[test]
fn a_push_makes_the_writer_a_reader_first() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.input(0, Input::Push { minipage: M });
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0: protect ReadWrite to ReadOnly",
            "0 > 1: PushReply",
            "1: install ReadOnly",
            "1 > 0: Ack",
        ]
    );
}

#[test]
fn a_push_by_who_lost_its_copy_meanwhile_is_dropped() {
    let mut cluster = Cluster::new(3, 0, 1);
    cluster.fault(2, Write);
    cluster.input(1, Input::Push { minipage: M });
    cluster.settle();
    cluster.resume(2);
    cluster.settle();
    assert!(cluster.entry(0).is_idle());
    assert_eq!(cluster.copyset(0), [2]);
    assert_eq!(cluster.holder(2).access(), Access::ReadWrite);
    assert!(cluster.trace().iter().all(|line| !line.contains("PushReply")));
}

#[test]
fn a_request_that_a_push_overtook_is_answered_without_data() {
    let mut cluster = Cluster::new(3, 0, 1);
    cluster.input(1, Input::Push { minipage: M });
    cluster.fault(2, Read);
    cluster.settle();
    cluster.resume(2);
    cluster.settle();
    let trace = cluster.trace();
    assert!(trace.contains(&"0 > 2: Reply Read Nothing".to_owned()), "{trace:#?}");
    assert_eq!(cluster.copyset(0), [0, 1, 2]);
    assert!(cluster.entry(0).is_idle() && cluster.holder(2).is_idle());
}

#[test]
fn waiting_pushes_of_a_node_become_one() {
    let mut cluster = Cluster::new(2, 1, 0);
    cluster.fault(1, Write);
    for _ in 0..3 {
        cluster.input(0, Input::Push { minipage: M });
    }
    cluster.deliver();
    cluster.deliver();
    cluster.deliver();
    assert_eq!(cluster.entry(1).queued(), 1);
}

#[test]
fn a_reclaim_takes_every_copy_away_and_moves_no_data() {
    let mut cluster = Cluster::new(3, 1, 0);
    cluster.access(1, Write);
    cluster.access(2, Read);
    cluster.input(0, Input::Reclaim { minipage: M });
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0 > 1: ReclaimRequest",
            "1 > 2: InvalidateRequest",
            "1: protect ReadOnly to NoAccess",
            "2: protect ReadOnly to NoAccess",
            "2 > 1: InvalidateReply",
            "1 > 0: Reply Write Nothing",
            "0: protect NoAccess to ReadWrite",
            "0: reclaimed",
            "0 > 1: Ack",
        ]
    );
    assert_eq!(cluster.copyset(1), [0]);
}

#[test]
fn a_reclaim_of_the_own_writable_copy_sends_nothing() {
    let mut cluster = Cluster::new(2, 1, 0);
    cluster.input(0, Input::Reclaim { minipage: M });
    assert_eq!(cluster.trace(), ["0: reclaimed"]);
}

#[test]
fn a_reclaim_during_a_fetch_follows_it() {
    let mut cluster = Cluster::new(2, 1, 0);
    cluster.access(1, Write);
    cluster.fault(0, Read);
    cluster.input(0, Input::Reclaim { minipage: M });
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0 > 1: Request Read",
            "1: protect ReadWrite to ReadOnly",
            "1 > 0: Reply Read Page",
            "0: install ReadOnly",
            "0: wake 0",
            "0 > 1: Ack",
            "0 > 1: ReclaimRequest",
            "1: protect ReadOnly to NoAccess",
            "1 > 0: Reply Write Nothing",
            "0: protect ReadOnly to ReadWrite",
            "0: reclaimed",
            "0 > 1: Ack",
        ]
    );
}

#[test]
fn a_reclaim_on_a_grant_acknowledges_it_first() {
    let mut cluster = Cluster::new(2, 1, 0);
    cluster.access(1, Write);
    cluster.fault(0, Read);
    cluster.settle();
    cluster.trace();
    cluster.input(0, Input::Reclaim { minipage: M });
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0 > 1: Ack",
            "0 > 1: ReclaimRequest",
            "1: protect ReadOnly to NoAccess",
            "1 > 0: Reply Write Nothing",
            "0: protect ReadOnly to ReadWrite",
            "0: reclaimed",
            "0 > 1: Ack",
        ]
    );
}

#[test]
fn a_push_without_a_copy_sends_nothing() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.input(1, Input::Push { minipage: M });
    assert!(cluster.trace().is_empty());
}
