//! What meets a release in progress (Figure 22, arc 33, and what the figure does not say).

use multigrain_protocol::EngineContext;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_protocol::mgs::{Client, ClientEvent};
use multigrain_protocol::{Effects, Input, MgsMessage};
use multigrain_types::{Access, NodeId};

use super::shared;
use crate::cluster::M;

#[test]
pub(super) fn requests_wait_at_the_home_until_the_release_has_ended() {
    let mut cluster = shared(5, &[], &[1, 2]);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    cluster.fault(3, Read);
    cluster.fault(4, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 1: Invalidate",
            "0 > 2: Invalidate",
            "3 > 0: ReadRequest",
            "4 > 0: WriteRequest",
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
            "0 > 3: ReadData",
            "0 > 4: WriteData",
            "1: wake 1",
            "3: install ReadOnly",
            "3: wake 3",
            "4: twin",
            "4: install ReadWrite",
            "4: wake 4"
        ]
    );
}

#[test]
pub(super) fn a_single_writer_that_others_wait_for_is_invalidated_at_once() {
    let mut cluster = shared(3, &[], &[1]);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    cluster.fault(2, Read);
    cluster.deliver_from(2, 0);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 1: SingleWriterGrant",
            "2 > 0: ReadRequest",
            "1 > 0: SingleWriterAck",
            "0 > 1: Invalidate",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: Diff",
            "1: drop twin",
            "0: buffer diff",
            "0: merge",
            "0 > 1: ReleaseAck",
            "0 > 2: ReadData",
            "1: wake 1",
            "2: install ReadOnly",
            "2: wake 2"
        ]
    );
}

#[test]
pub(super) fn a_release_before_its_senders_answer_joins_the_round() {
    let mut cluster = shared(3, &[], &[1, 2]);
    cluster.release(2);
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Release",
            "1 > 0: Release",
            "0 > 1: Invalidate",
            "0 > 2: Invalidate",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: Diff",
            "1: drop twin",
            "2: protect ReadWrite to NoAccess",
            "2 > 0: Diff",
            "2: drop twin",
            "0: buffer diff",
            "0: buffer diff",
            "0: merge",
            "0 > 1: ReleaseAck",
            "0 > 2: ReleaseAck",
            "1: wake 1",
            "2: wake 2"
        ]
    );
}

#[test]
pub(super) fn a_release_after_its_senders_answer_gets_a_round_of_its_own() {
    let mut cluster = shared(3, &[2], &[1]);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    // 1WINV and 1WDATA arrive, the reader is slow.
    cluster.deliver_from(0, 1);
    cluster.deliver_from(1, 0);
    cluster.trace();
    cluster.fault(1, Write);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    assert_eq!(
        cluster.trace(),
        ["1: twin", "1: protect ReadOnly to ReadWrite", "1: wake 1", "1 > 0: Release"]
    );
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2: protect ReadOnly to NoAccess",
            "2 > 0: Ack",
            "0: merge",
            "0 > 1: ReleaseAck",
            "0 > 1: SingleWriterGrant",
            "1: wake 1",
            "1 > 0: SingleWriterAck",
            "0 > 1: ReleaseAck",
            "1: wake 1"
        ],
        "two rounds, two acknowledgements, two threads"
    );
}

#[test]
pub(super) fn an_invalidation_releases_what_was_written_and_not_released() {
    let mut cluster = shared(3, &[], &[1, 2]);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    cluster.deliver_from(0, 2);
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 1: Invalidate",
            "0 > 2: Invalidate",
            "2 > 0: Release",
            "2: protect ReadWrite to NoAccess",
            "2 > 0: Diff",
            "2: drop twin"
        ]
    );
    // The other copy is still there: node 2's own release must wait.
    cluster.release(2);
    assert!(cluster.trace().is_empty());
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1: protect ReadWrite to NoAccess",
            "1 > 0: Diff",
            "1: drop twin",
            "0: buffer diff",
            "0: buffer diff",
            "0: merge",
            "0 > 1: ReleaseAck",
            "0 > 2: ReleaseAck",
            "1: wake 1",
            "2: wake 2"
        ]
    );
}

#[test]
pub(super) fn an_upgrade_that_meets_an_invalidation_makes_the_kept_copy_old() {
    let mut cluster = shared(3, &[2], &[1]);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    // INV is on its way to the reader.
    cluster.fault(2, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 2: Invalidate",
            "0 > 1: SingleWriterInvalidate",
            "2: twin",
            "2: protect ReadOnly to ReadWrite",
            "2 > 0: WriteNotify",
            "2: wake 2",
            "2 > 0: Release",
            "2: protect ReadWrite to NoAccess",
            "2 > 0: Diff",
            "2: drop twin",
            "1: protect ReadWrite to ReadOnly",
            "1: drop twin",
            "1 > 0: SingleWriterData",
            "0: buffer diff",
            "0: store",
            "0 > 1: ReleaseAck",
            "0 > 1: Invalidate",
            "1: wake 1",
            "1: protect ReadOnly to NoAccess",
            "1 > 0: Ack",
            "0: merge",
            "0 > 2: ReleaseAck"
        ]
    );
    assert_eq!(cluster.eager(1).0.access(), Access::NoAccess, "it lacked what node 2 wrote");
}

#[test]
pub(super) fn an_old_kept_copy_brings_what_was_written_to_it_since() {
    let mut cluster = shared(3, &[2], &[1]);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    cluster.fault(2, Write);
    cluster.deliver_from(0, 1);
    cluster.deliver_from(1, 0);
    cluster.fault(1, Write);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    cluster.trace();
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Release",
            "2: protect ReadWrite to NoAccess",
            "2 > 0: Diff",
            "2: drop twin",
            "0: buffer diff",
            "0 > 1: ReleaseAck",
            "0 > 1: Invalidate",
            "1: wake 1",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: Diff",
            "1: drop twin",
            "0: buffer diff",
            "0: merge",
            "0 > 1: ReleaseAck",
            "0 > 2: ReleaseAck",
            "1: wake 1"
        ]
    );
    assert!(cluster.release_tracker(1).is_settled() && cluster.eager(0).1.is_idle());
}

#[test]
pub(super) fn a_release_that_crosses_the_invalidation_of_an_old_kept_copy_joins_the_round() {
    let mut cluster = shared(3, &[2], &[1]);
    cluster.release(1);
    cluster.deliver_from(1, 0);
    cluster.fault(2, Write);
    cluster.deliver_from(0, 1);
    cluster.deliver_from(1, 0);
    cluster.fault(1, Write);
    // The reader's WNOTIFY, INV, REL and DIFF.
    cluster.deliver_from(2, 0);
    cluster.deliver_from(0, 2);
    cluster.deliver_from(2, 0);
    cluster.deliver_from(2, 0);
    cluster.trace();
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "1: wake 1",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: Diff",
            "1: drop twin",
            "0: buffer diff",
            "0: merge",
            "0 > 1: ReleaseAck",
            "0 > 2: ReleaseAck",
            "1: wake 1"
        ]
    );
    assert!(cluster.release_tracker(1).is_settled() && cluster.eager(0).1.is_idle());
}

#[test]
pub(super) fn a_release_waits_for_an_older_one_of_its_node() {
    let mut cluster = shared(3, &[2], &[1]);
    cluster.release(1);
    cluster.release(1);
    assert_eq!(
        cluster.trace(),
        ["1 > 0: Release"],
        "the second may have written what the first has sent"
    );
    cluster.settle();
    assert_eq!(
        cluster.trace()[5..],
        [
            "1: drop twin",
            "1 > 0: SingleWriterData",
            "0: store",
            "0: merge",
            "0 > 1: ReleaseAck",
            "1: wake 1",
            "1: wake 1"
        ]
    );
}

#[test]
pub(super) fn a_release_passes_by_what_was_taken_off_the_queue_meanwhile() {
    let context = EngineContext {
        me: NodeId(1),
        nodes: 2,
        minipage: M,
        manager: NodeId(0),
        invalidations: TreeShape::default(),
        dynamic_after: None,
        tracked: false,
    };
    for mut client in [Client::default(), Client::owner()] {
        let (before, mut out) = (client.clone(), Effects::new());
        assert_eq!(client.handle(&context, &ClientEvent::Release { flush: 1 }, &mut out), Ok(()));
        assert!(out.is_empty() && client == before);
    }
}

#[test]
pub(super) fn paper_figure_22_a_release_in_state_read_invalidates_the_readers() {
    // No correct client sends it here; the home does what arc 32 says.
    let mut cluster = shared(3, &[1, 2], &[]);
    let message = MgsMessage::Release.about(M);
    cluster.input(0, Input::Message { from: NodeId(2), message });
    assert_eq!(cluster.trace(), ["0 > 1: Invalidate", "0 > 2: Invalidate"]);
}

#[test]
pub(super) fn a_single_writer_invalidation_of_a_copy_not_written_since_is_answered_again() {
    let mut cluster = shared(3, &[2], &[1]);
    cluster.release(1);
    cluster.settle();
    cluster.trace();
    let message = MgsMessage::SingleWriterInvalidate.about(M);
    cluster.input(1, Input::Message { from: NodeId(0), message });
    assert_eq!(cluster.trace(), ["1 > 0: SingleWriterData"]);
}
