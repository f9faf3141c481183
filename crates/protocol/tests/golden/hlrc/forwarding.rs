//! Diffs and fetches at former homes, and ahead of a migration plan.

use multigrain_protocol::Input;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_types::NodeId;

use super::{come, come_to, dynamic};
use crate::cluster::M;

#[test]
fn a_copy_is_written_again_when_its_last_diff_is_at_home() {
    let mut cluster = dynamic(3, &[1]);
    cluster.access(1, Write);
    cluster.release(1);
    cluster.trace();
    // A second diff could find a shorter way to the home than the first.
    cluster.fault(1, Write);
    cluster.fault(1, Read);
    assert_eq!(cluster.trace(), ["1: reprotect ReadOnly", "1: wake 1"]);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0: buffer diff",
            "0: merge",
            "0 > 1 later: DiffAck flush 1",
            "1: twin",
            "1: protect ReadOnly to ReadWrite",
            "1: wake 1",
            "1: wake 1"
        ]
    );
    // A notice takes the copy away from a node that waits so: it asks for another when the diff is there.
    cluster.access(0, Write);
    cluster.release(0);
    cluster.input(0, Input::Notify { node: NodeId(1) });
    cluster.settle();
    cluster.release(1);
    cluster.fault(1, Write);
    cluster.trace();
    cluster.input(1, Input::Acquire);
    assert_eq!(cluster.trace(), ["1: protect ReadOnly to NoAccess"]);
}

#[test]
fn a_diff_at_a_former_home_is_forwarded_and_acknowledged_to_its_writer() {
    let mut cluster = dynamic(3, &[1]);
    cluster.access(1, Write);
    cluster.access(2, Write);
    assert_eq!(cluster.copy(2).home(), None);
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1: protect ReadWrite to ReadOnly",
            "1 > 0: Diff flush 1",
            "1: drop twin",
            "0: buffer diff",
            "0 > 2 forwarded: Diff by 1 flush 1",
            "2: buffer diff",
            "2: merge",
            "2 > 1 later: DiffAck flush 1",
            "1: wake 1"
        ]
    );
}

#[test]
fn fetches_and_diffs_follow_the_home_over_all_its_transfers() {
    let mut cluster = dynamic(4, &[1]);
    cluster.access(1, Write);
    cluster.access(2, Write);
    cluster.release(2);
    cluster.trace();
    cluster.fault(3, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "3 > 0: Fetch 3 epoch 0",
            "0 > 2: Fetch 3 epoch 0",
            "2 > 3: HomeTransfer",
            "3: install ReadWrite",
            "3: wake 3"
        ]
    );
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1: protect ReadWrite to ReadOnly",
            "1 > 0: Diff flush 1",
            "1: drop twin",
            "0: buffer diff",
            "0 > 2 forwarded: Diff by 1 flush 1",
            "2: buffer diff",
            "2 > 3 forwarded: Diff by 1 flush 1",
            "3: buffer diff",
            "3: merge",
            "3 > 1 later: DiffAck flush 1",
            "1: wake 1"
        ]
    );
}

#[test]
fn a_node_asks_for_contents_when_its_own_diff_is_at_home() {
    let mut cluster = dynamic(3, &[1, 2]);
    assert_eq!(cluster.copy(2).home(), None);
    cluster.access(2, Write);
    cluster.access(1, Write);
    cluster.release(2);
    cluster.input(2, Input::Notify { node: NodeId(1) });
    cluster.settle();
    cluster.trace();
    cluster.input(1, Input::Acquire);
    // Two homes on, the request could find what the diff has not reached.
    cluster.input(1, Input::Prefetch { minipage: M, kind: Read });
    cluster.fault(1, Read);
    cluster.input(1, Input::Prefetch { minipage: M, kind: Write });
    assert_eq!(
        cluster.trace(),
        ["1: protect ReadWrite to NoAccess", "1 > 0: Diff flush 1", "1: drop twin"]
    );
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0: buffer diff",
            "0 > 2 forwarded: Diff by 1 flush 1",
            "2: buffer diff",
            "2: merge",
            "2 > 1 later: DiffAck flush 1",
            "1 > 0: Fetch 1 epoch 0",
            "0 > 2: Fetch 1 epoch 0",
            "2 > 1: HomeTransfer",
            "1: install ReadOnly",
            "1: wake 1"
        ]
    );
}

#[test]
fn a_diff_before_the_move_that_makes_its_receiver_the_home_waits_for_it() {
    let mut cluster = dynamic(3, &[2]);
    cluster.access(2, Write);
    cluster.release(2);
    cluster.settle();
    // Node 1 has what node 2 wrote, and keeps it over the barrier.
    cluster.input(2, Input::Notify { node: NodeId(1) });
    cluster.settle();
    cluster.input(1, Input::Acquire);
    cluster.input(1, Input::Prefetch { minipage: M, kind: Read });
    cluster.settle();
    for node in [2, 1] {
        come(&mut cluster, node, 3);
        cluster.settle();
    }
    come(&mut cluster, 0, 3);
    // Node 0 has decided that node 2 is the home; node 1 receives the plan, and writes.
    cluster.deliver_from(0, 1);
    cluster.deliver_from(0, 1);
    cluster.fault(1, Write);
    cluster.release(1);
    cluster.trace();
    cluster.deliver_from(1, 2);
    assert_eq!(cluster.trace(), ["2: buffer diff"]);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["2: merge", "2 > 1 later: DiffAck flush 1", "2: wake 2", "1: wake 1"]
    );
    assert_eq!(cluster.copy(2).home(), None);
}

#[test]
fn a_diff_ahead_of_the_plan_at_a_former_home_is_forwarded_after_it() {
    let mut cluster = dynamic(3, &[1]);
    cluster.access(2, Read);
    for node in 0..3 {
        come_to(&mut cluster, 2, node, 3);
        while node < 2 && cluster.deliver() {}
    }
    // Node 2 is the home and knows that all is quiescent; node 1 receives the plan and writes, node 0 does
    // not.
    cluster.deliver_from(2, 1);
    cluster.trace();
    cluster.fault(1, Write);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    assert_eq!(
        cluster.trace(),
        [
            "1: twin",
            "1: protect ReadOnly to ReadWrite",
            "1: wake 1",
            "1: protect ReadWrite to ReadOnly",
            "1 > 0: Diff flush 1 epoch 1",
            "1: drop twin",
            "0: buffer diff"
        ]
    );
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0 > 2 forwarded: Diff by 1 flush 1 epoch 1",
            "0: wake 0",
            "2: buffer diff",
            "2: merge",
            "2 > 1 later: DiffAck flush 1",
            "1: wake 1"
        ]
    );
}
