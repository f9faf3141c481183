//! What a release costs (Figure 22, arcs 8 to 10, 16 to 27 and 31 to 36; MGS 3.2.3).

use multigrain_protocol::Kind::{Read, Write};
use multigrain_types::Access;

use super::{eager, shared};
use crate::cluster::{M, N};

#[test]
pub(super) fn a_release_of_nothing_costs_nothing() {
    let mut cluster = shared(2, &[1], &[]);
    cluster.release(1);
    assert_eq!(cluster.trace(), ["1: wake 1"]);
}

#[test]
pub(super) fn paper_s3_2_3_the_only_copy_is_granted_single_writer_mode() {
    let mut cluster = shared(2, &[], &[1]);
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 1: SingleWriterGrant",
            "1 > 0: SingleWriterAck",
            "0 > 1: ReleaseAck",
            "1: wake 1"
        ]
    );
    assert!(cluster.eager(1).0.is_single_writer());
    assert_eq!(cluster.eager(1).0.access(), Access::ReadWrite);
}

#[test]
pub(super) fn paper_s3_2_3_releases_ignore_a_copy_in_single_writer_mode() {
    let mut cluster = shared(2, &[], &[1]);
    cluster.release(1);
    cluster.settle();
    cluster.trace();
    cluster.fault(1, Write);
    cluster.release(1);
    assert_eq!(cluster.trace(), ["1: reprotect ReadWrite", "1: wake 1", "1: wake 1"]);
}

#[test]
pub(super) fn paper_s3_2_3_a_third_party_ends_single_writer_mode_and_is_served_after_the_diff() {
    for (kind, answer) in [(Read, "0 > 2: ReadData"), (Write, "0 > 2: WriteData")] {
        let mut cluster = shared(3, &[], &[1]);
        cluster.release(1);
        cluster.settle();
        cluster.trace();
        cluster.fault(2, kind);
        cluster.settle();
        let trace = cluster.trace();
        assert_eq!(
            trace[1..7],
            [
                "0 > 1: Invalidate",
                "1: protect ReadWrite to NoAccess",
                "1 > 0: Diff",
                "1: drop twin",
                "0: buffer diff",
                "0: merge"
            ]
        );
        assert_eq!(trace[7], answer);
    }
}

#[test]
pub(super) fn a_single_writer_with_readers_sends_its_page_and_keeps_it_read_only() {
    let mut cluster = shared(4, &[2, 3], &[1]);
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 2: Invalidate",
            "0 > 3: Invalidate",
            "0 > 1: SingleWriterInvalidate",
            "2: protect ReadOnly to NoAccess",
            "2 > 0: Ack",
            "3: protect ReadOnly to NoAccess",
            "3 > 0: Ack",
            "1: protect ReadWrite to ReadOnly",
            "1: drop twin",
            "1 > 0: SingleWriterData",
            "0: store",
            "0: merge",
            "0 > 1: ReleaseAck",
            "1: wake 1"
        ]
    );
    assert_eq!(cluster.eager(1).0.access(), Access::ReadOnly);
}

#[test]
pub(super) fn the_next_write_of_a_kept_copy_asks_nobody() {
    let mut cluster = shared(3, &[2], &[1]);
    cluster.release(1);
    cluster.settle();
    cluster.trace();
    cluster.fault(1, Write);
    assert_eq!(cluster.trace(), ["1: twin", "1: protect ReadOnly to ReadWrite", "1: wake 1"]);
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 1: SingleWriterGrant",
            "1 > 0: SingleWriterAck",
            "0 > 1: ReleaseAck",
            "1: wake 1"
        ],
        "alone by now"
    );
}

#[test]
pub(super) fn a_kept_copy_that_was_not_written_again_is_given_up_with_an_ack() {
    let mut cluster = shared(4, &[2], &[1]);
    cluster.release(1);
    cluster.settle();
    cluster.access(3, Write);
    cluster.release(3);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "3 > 0: Release",
            "0 > 1: Invalidate",
            "0 > 3: Invalidate",
            "1: protect ReadOnly to NoAccess",
            "1 > 0: Ack",
            "3: protect ReadWrite to NoAccess",
            "3 > 0: Diff",
            "3: drop twin",
            "0: buffer diff",
            "0: merge",
            "0 > 3: ReleaseAck",
            "3: wake 3"
        ]
    );
}

#[test]
pub(super) fn two_writers_and_a_reader_are_invalidated_and_their_diffs_merged() {
    let mut cluster = shared(4, &[3], &[1, 2]);
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 3: Invalidate",
            "0 > 1: Invalidate",
            "0 > 2: Invalidate",
            "3: protect ReadOnly to NoAccess",
            "3 > 0: Ack",
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
            "1: wake 1"
        ]
    );
    for node in 1..=3 {
        assert_eq!(cluster.eager(node).0.access(), Access::NoAccess);
    }
}

#[test]
pub(super) fn three_writers_merge_three_diffs_once() {
    let mut cluster = shared(4, &[], &[1, 2, 3]);
    for node in 1..=3 {
        cluster.release(node);
    }
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "2 > 0: Release",
            "3 > 0: Release",
            "0 > 1: Invalidate",
            "0 > 2: Invalidate",
            "0 > 3: Invalidate",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: Diff",
            "1: drop twin",
            "2: protect ReadWrite to NoAccess",
            "2 > 0: Diff",
            "2: drop twin",
            "3: protect ReadWrite to NoAccess",
            "3 > 0: Diff",
            "3: drop twin",
            "0: buffer diff",
            "0: buffer diff",
            "0: buffer diff",
            "0: merge",
            "0 > 1: ReleaseAck",
            "0 > 2: ReleaseAck",
            "0 > 3: ReleaseAck",
            "1: wake 1",
            "2: wake 2",
            "3: wake 3"
        ]
    );
    assert!(cluster.eager(0).1.is_idle());
}

#[test]
pub(super) fn the_home_writes_alone_without_a_message() {
    let mut cluster = shared(2, &[], &[0]);
    cluster.fault(0, Write);
    cluster.release(0);
    assert_eq!(cluster.trace(), ["0: reprotect ReadWrite", "0: wake 0", "0: wake 0"]);
    let mut cluster = shared(3, &[1], &[0]);
    cluster.release(0);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0 > 1: Invalidate",
            "0: protect ReadWrite to ReadOnly",
            "1: protect ReadOnly to NoAccess",
            "1 > 0: Ack",
            "0: merge",
            "0: wake 0"
        ],
        "a reader is invalidated, the home keeps its copy"
    );
    cluster.release(0);
    cluster.fault(2, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["0: wake 0", "2 > 0: ReadRequest", "0 > 2: ReadData", "2: install ReadOnly", "2: wake 2"],
        "the home is up to date"
    );
}

#[test]
pub(super) fn the_home_in_single_writer_mode_gives_its_copy_up_without_a_diff() {
    let mut cluster = shared(3, &[1], &[0]);
    for _ in 0..2 {
        cluster.release(0);
        cluster.settle();
        cluster.fault(0, Write);
    }
    cluster.release(0);
    assert!(cluster.eager(0).0.is_single_writer());
    cluster.trace();
    cluster.fault(2, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: ReadRequest",
            "0: protect ReadWrite to NoAccess",
            "0: merge",
            "0 > 2: ReadData",
            "2: install ReadOnly",
            "2: wake 2"
        ]
    );
}

#[test]
pub(super) fn the_home_and_another_writer_cost_one_diff() {
    let mut cluster = shared(2, &[1], &[1, 0]);
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "0 > 1: Invalidate",
            "0: protect ReadWrite to NoAccess",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: Diff",
            "1: drop twin",
            "0: buffer diff",
            "0: merge",
            "0 > 1: ReleaseAck",
            "1: wake 1"
        ]
    );
}

#[test]
pub(super) fn a_release_of_several_minipages_asks_for_all_at_once_and_waits_for_all() {
    let mut cluster = eager(2);
    for minipage in [N, M] {
        cluster.fault_on(1, minipage, Write);
        cluster.settle();
    }
    cluster.trace();
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Release",
            "1 > 0: Release of 1",
            "0 > 1: SingleWriterGrant",
            "0 > 1: SingleWriterGrant of 1",
            "1 > 0: SingleWriterAck",
            "1 > 0: SingleWriterAck of 1",
            "0 > 1: ReleaseAck",
            "0 > 1: ReleaseAck of 1",
            "1: wake 1"
        ]
    );
}
