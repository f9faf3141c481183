//! Dynamic homes.

use multigrain_protocol::Input;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_types::{Access, NodeId};

use super::{dynamic, quiescent_barrier};
use crate::cluster::{Cluster, M};

/// A barrier has moved the home to node 1; every further one does not matter.
fn moved_once(nodes: u16, enough: u8) -> Cluster {
    let mut cluster = Cluster::dynamic(nodes, enough);
    cluster.access(1, Write);
    quiescent_barrier(&mut cluster, nodes);
    cluster.trace();
    assert_eq!(cluster.copy(1).home(), None);
    cluster
}

#[test]
fn a_home_that_has_moved_often_enough_goes_to_the_next_that_waits_for_it() {
    let mut cluster = moved_once(3, 1);
    cluster.fault(2, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["2 > 1: Fetch 2 epoch 1", "1 > 2: HomeTransfer", "2: install ReadOnly", "2: wake 2"]
    );
    assert_eq!((cluster.copy(1).home(), cluster.copy(2).home()), (Some(NodeId(2)), None));
    assert_eq!(cluster.copy(1).access(), Access::ReadOnly, "what it has is current");
    // The new home writes without a twin, and its release sends nothing.
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
    // The former home writes as any other node.
    cluster.fault(1, Write);
    assert_eq!(cluster.trace(), ["1: twin", "1: protect ReadOnly to ReadWrite", "1: wake 1"]);
}

#[test]
fn a_write_fault_that_is_sent_the_home_writes_in_place() {
    let mut cluster = dynamic(3, &[1]);
    cluster.fault(2, Write);
    cluster.settle();
    cluster.release(2);
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Fetch 2 epoch 0",
            "0 > 2: HomeTransfer",
            "2: install ReadWrite",
            "2: wake 2",
            "2: protect ReadWrite to ReadOnly",
            "2: wake 2"
        ]
    );
}

#[test]
fn a_home_that_has_moved_less_often_stays() {
    let mut cluster = moved_once(3, 2);
    cluster.fault(2, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["2 > 1: Fetch 2 epoch 1", "1 > 2: Data", "2: install ReadOnly", "2: wake 2"]
    );
    assert_eq!(cluster.copy(1).home(), None);
}

#[test]
fn the_first_copy_leaves_the_home_where_it_was_alone() {
    let mut cluster = dynamic(2, &[]);
    cluster.fault(1, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Fetch 1 epoch 0",
            "0: protect ReadWrite to ReadOnly",
            "0 > 1: Data",
            "1: install ReadOnly",
            "1: wake 1"
        ]
    );
}

#[test]
fn a_prefetch_is_not_sent_the_home_though_a_thread_waits_by_then() {
    let mut cluster = dynamic(3, &[1]);
    cluster.input(2, Input::Prefetch { minipage: M, kind: Write });
    cluster.fault(2, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Fetch 2 epoch 0 ahead",
            "0 > 2: Data",
            "2: twin",
            "2: install ReadWrite",
            "2: wake 2"
        ]
    );
    assert_eq!(cluster.copy(0).home(), None);
}

#[test]
fn a_home_that_is_written_stays_until_its_release() {
    let mut cluster = dynamic(4, &[1]);
    cluster.access(0, Write);
    cluster.fault(2, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["2 > 0: Fetch 2 epoch 0", "0 > 2: Data", "2: install ReadOnly", "2: wake 2"]
    );
    cluster.release(0);
    cluster.trace();
    cluster.fault(3, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["3 > 0: Fetch 3 epoch 0", "0 > 3: HomeTransfer", "3: install ReadOnly", "3: wake 3"]
    );
}

#[test]
fn a_home_sent_to_a_reader_stays_until_the_next_barrier() {
    let mut cluster = moved_once(4, 1);
    cluster.access(2, Read);
    assert_eq!(cluster.copy(2).home(), None);
    // Node 0 knows the home of the last barrier.
    cluster.fault(0, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0 > 1: Fetch 0 epoch 1",
            "1 > 2: Fetch 0 epoch 1",
            "2 > 0: Data",
            "0: install ReadOnly",
            "0: wake 0"
        ]
    );
    cluster.fault(3, Write);
    cluster.settle();
    assert!(cluster.trace().contains(&"2 > 3: Data".to_owned()), "all read it now");
    assert_eq!(cluster.copy(2).home(), None);
}

#[test]
fn a_home_transferred_before_the_last_barrier_is_transferred_again() {
    let mut cluster = moved_once(3, 1);
    cluster.access(2, Read);
    quiescent_barrier(&mut cluster, 3);
    cluster.trace();
    cluster.fault(0, Read);
    cluster.settle();
    assert!(cluster.trace().contains(&"2 > 0: HomeTransfer".to_owned()));
}

#[test]
fn a_home_that_comes_back_to_its_writer_is_dynamic_no_more() {
    let mut cluster = moved_once(3, 1);
    cluster.access(2, Read);
    cluster.access(1, Write);
    quiescent_barrier(&mut cluster, 3);
    assert_eq!(cluster.copy(1).home(), None, "the only writer, as the time before");
    cluster.trace();
    cluster.fault(0, Read);
    cluster.settle();
    assert!(cluster.trace().contains(&"1 > 0: Data".to_owned()));
}

#[test]
fn an_awaited_prefetch_may_be_sent_the_home_and_wakes_nobody() {
    let mut cluster = dynamic(3, &[1]);
    cluster.input(2, Input::AwaitedPrefetch { minipage: M });
    cluster.input(2, Input::AwaitedPrefetch { minipage: M });
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["2 > 0: Fetch 2 epoch 0", "0 > 2: HomeTransfer", "2: install ReadOnly"]
    );
    assert_eq!(cluster.copy(2).home(), None);
}

#[test]
fn a_home_that_comes_after_a_notice_is_current() {
    let mut cluster = dynamic(3, &[2]);
    cluster.access(2, Write);
    cluster.fault(1, Read);
    // The request is slow. Node 2 releases, and notifies node 1 by other means.
    cluster.release(2);
    cluster.deliver_from(2, 0);
    cluster.deliver_from(0, 2);
    cluster.input(2, Input::Notify { node: NodeId(1) });
    cluster.deliver_from(2, 1);
    cluster.input(1, Input::Acquire);
    cluster.trace();
    cluster.settle();
    assert_eq!(cluster.trace(), ["0 > 1: HomeTransfer", "1: install ReadOnly", "1: wake 1"]);
}

#[test]
fn a_barrier_after_which_nobody_wrote_does_not_repeat_the_moves_of_the_last() {
    let mut cluster = moved_once(3, 1);
    cluster.access(2, Read);
    quiescent_barrier(&mut cluster, 3);
    assert!(cluster.trace().iter().all(|line| !line.contains("moves")));
    assert_eq!((cluster.copy(1).home(), cluster.copy(2).home()), (Some(NodeId(2)), None));
}

#[test]
fn a_barrier_migrates_a_home_that_was_transferred() {
    let mut cluster = dynamic(3, &[1]);
    cluster.access(2, Read);
    cluster.access(1, Write);
    quiescent_barrier(&mut cluster, 3);
    assert_eq!((cluster.copy(1).home(), cluster.copy(2).home()), (None, Some(NodeId(1))));
    assert_eq!(cluster.copy(0).home(), Some(NodeId(1)));
}
