//! What a fault costs (Figure 22, arcs 1 to 8, 28 to 30 and 36).

use multigrain_protocol::Input;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_types::{Access, Consistency};

use super::{eager, shared};
use crate::cluster::{Cluster, M};

#[test]
pub(super) fn the_first_reader_takes_the_home_out_of_single_writer_mode() {
    let mut cluster = eager(2);
    cluster.fault(1, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: ReadRequest",
            "0: protect ReadWrite to NoAccess",
            "0: merge",
            "0 > 1: ReadData",
            "1: install ReadOnly",
            "1: wake 1"
        ]
    );
    assert!(cluster.eager(0).1.is_idle());
    assert_eq!(cluster.eager(0).0.access(), Access::NoAccess);
    assert_eq!(cluster.eager(1).0.access(), Access::ReadOnly);
}

#[test]
pub(super) fn the_allocating_nodes_copy_goes_home_whole_for_it_has_no_twin() {
    // Node 1 allocated what node 0 is the home of.
    let mut cluster = Cluster::of(Consistency::EagerRelease, 3, 0, 1);
    cluster.fault(2, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: WriteRequest",
            "0 > 1: Invalidate",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: SingleWriterData",
            "0: store",
            "0: merge",
            "0 > 2: WriteData",
            "2: twin",
            "2: install ReadWrite",
            "2: wake 2"
        ]
    );
}

#[test]
pub(super) fn paper_figure_22_a_read_miss_is_rreq_rdat_and_disturbs_nobody() {
    let mut cluster = shared(4, &[1], &[2]);
    cluster.fault(3, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["3 > 0: ReadRequest", "0 > 3: ReadData", "3: install ReadOnly", "3: wake 3"]
    );
    assert_eq!(
        cluster.eager(2).0.access(),
        Access::ReadWrite,
        "several copies, one of them written"
    );
}

#[test]
pub(super) fn paper_figure_22_a_write_miss_is_wreq_wdat_and_disturbs_nobody() {
    let mut cluster = shared(4, &[1], &[2]);
    cluster.fault(3, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        ["3 > 0: WriteRequest", "0 > 3: WriteData", "3: twin", "3: install ReadWrite", "3: wake 3"]
    );
    assert_eq!(cluster.eager(2).0.access(), Access::ReadWrite, "two writers at once");
}

#[test]
pub(super) fn paper_figure_22_an_upgrade_makes_a_twin_and_notifies_the_home_without_waiting() {
    let mut cluster = shared(3, &[1, 2], &[]);
    cluster.fault(1, Write);
    assert_eq!(
        cluster.trace(),
        ["1: twin", "1: protect ReadOnly to ReadWrite", "1 > 0: WriteNotify", "1: wake 1"]
    );
    cluster.settle();
    assert!(cluster.trace().is_empty(), "the home has taken notice");
    let (readers, writers) = cluster.eager(0).1.holders();
    let ranks =
        |set: &multigrain_protocol::NodeSet| set.iter().map(|node| node.0).collect::<Vec<_>>();
    assert_eq!((ranks(&readers), ranks(&writers)), (vec![2], vec![1]));
}

#[test]
pub(super) fn the_home_reads_and_writes_its_own_copy_without_bytes_and_without_a_twin() {
    let mut cluster = shared(2, &[1], &[]);
    cluster.fault(0, Read);
    cluster.fault(0, Write);
    assert_eq!(
        cluster.trace(),
        [
            "0: protect NoAccess to ReadOnly",
            "0: wake 0",
            "0: protect ReadOnly to ReadWrite",
            "0: wake 0"
        ]
    );
    let mut cluster = shared(2, &[1], &[]);
    cluster.fault(0, Write);
    assert_eq!(cluster.trace(), ["0: protect NoAccess to ReadWrite", "0: wake 0"]);
}

#[test]
pub(super) fn the_home_waits_for_a_single_writers_copy_like_any_client() {
    let mut cluster = Cluster::of(Consistency::EagerRelease, 2, 0, 1);
    cluster.fault(0, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "0 > 1: Invalidate",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: SingleWriterData",
            "0: store",
            "0: merge",
            "0: protect NoAccess to ReadOnly",
            "0: wake 0"
        ]
    );
}

#[test]
pub(super) fn threads_of_a_node_share_a_request() {
    let mut cluster = eager(2);
    cluster.fault(1, Read);
    cluster.fault(1, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: ReadRequest",
            "0: protect ReadWrite to NoAccess",
            "0: merge",
            "0 > 1: ReadData",
            "1: install ReadOnly",
            "1: wake 1",
            "1: wake 1"
        ]
    );
    cluster.fault(1, Write);
    assert_eq!(
        cluster.trace(),
        ["1: twin", "1: protect ReadOnly to ReadWrite", "1 > 0: WriteNotify", "1: wake 1"],
        "the writer faults again"
    );
}

#[test]
pub(super) fn a_fault_that_is_served_already_sends_nothing() {
    let mut cluster = shared(3, &[1], &[2]);
    cluster.fault(1, Read);
    cluster.fault(2, Write);
    assert_eq!(
        cluster.trace(),
        ["1: reprotect ReadOnly", "1: wake 1", "2: reprotect ReadWrite", "2: wake 2"]
    );
    // In single-writer mode too.
    let mut cluster = eager(1);
    cluster.fault(0, Write);
    assert_eq!(cluster.trace(), ["0: reprotect ReadWrite", "0: wake 0"]);
}

#[test]
pub(super) fn a_prefetch_asks_once_and_wakes_nobody() {
    let mut cluster = eager(2);
    for kind in [Write, Read] {
        cluster.input(1, Input::Prefetch { minipage: M, kind });
    }
    cluster.settle();
    cluster.input(1, Input::Prefetch { minipage: M, kind: Read });
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: WriteRequest",
            "0: protect ReadWrite to NoAccess",
            "0: merge",
            "0 > 1: WriteData",
            "1: twin",
            "1: install ReadWrite"
        ]
    );
}

#[test]
pub(super) fn acks_pushes_and_frees_of_the_sequential_protocol_send_nothing() {
    let mut cluster = shared(2, &[1], &[]);
    cluster.resume(1);
    cluster.input(1, Input::Push { minipage: M });
    cluster.input(0, Input::Reclaim { minipage: M });
    assert_eq!(cluster.trace(), ["0: reclaimed"]);
}
