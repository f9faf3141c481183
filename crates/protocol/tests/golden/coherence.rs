//! Millipage section 3.3 and Figure 3.

use multigrain_protocol::Input;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_types::{Access, ThreadId};

use crate::cluster::{Cluster, M};

#[test]
fn paper_s3_3_a_read_miss_that_the_managers_copy_serves_is_request_data_ack() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.fault(1, Read);
    cluster.settle();
    cluster.resume(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Request Read",
            "0: protect ReadWrite to ReadOnly",
            "0 > 1: Reply Read Page",
            "1: install ReadOnly",
            "1: wake 1",
            "1 > 0 later: Ack",
        ]
    );
    assert_eq!(cluster.copyset(0), [0, 1]);
}

#[test]
fn paper_s3_3_a_read_miss_elsewhere_is_forwarded_and_the_holder_answers_the_requester() {
    let mut cluster = Cluster::new(3, 0, 1);
    cluster.fault(2, Read);
    cluster.settle();
    cluster.resume(2);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Request Read",
            "0 > 1: Forward Read 2",
            "1: protect ReadWrite to ReadOnly",
            "1 > 2: Reply Read Page",
            "2: install ReadOnly",
            "2: wake 2",
            "2 > 0 later: Ack",
        ]
    );
    assert_eq!(cluster.copyset(0), [1, 2]);
}

#[test]
fn paper_s3_3_a_write_miss_takes_the_only_copy_away_from_its_holder() {
    let mut cluster = Cluster::new(3, 0, 1);
    cluster.fault(2, Write);
    cluster.settle();
    cluster.resume(2);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Request Write",
            "0 > 1: Forward Write 2",
            "1: protect ReadWrite to NoAccess",
            "1 > 2: Reply Write Page",
            "2: install ReadWrite",
            "2: wake 2",
            "2 > 0 later: Ack",
        ]
    );
    assert_eq!(cluster.copyset(0), [2]);
}

#[test]
fn paper_s3_3_a_write_miss_invalidates_all_readers_but_one_at_once() {
    let mut cluster = Cluster::new(5, 4, 0);
    cluster.access(1, Read);
    cluster.access(2, Read);
    cluster.fault(3, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "3 > 4: Request Write",
            "4 > 1: InvalidateRequest",
            "4 > 2: InvalidateRequest",
            "1: protect ReadOnly to NoAccess",
            "1 > 4: InvalidateReply",
            "2: protect ReadOnly to NoAccess",
            "2 > 4: InvalidateReply",
            "4 > 0: Forward Write 3",
            "0: protect ReadOnly to NoAccess",
            "0 > 3: Reply Write Page",
            "3: install ReadWrite",
            "3: wake 3",
        ]
    );
}

#[test]
fn paper_s3_3_the_managers_own_copy_supplies_without_a_message_to_itself() {
    let mut cluster = Cluster::new(3, 0, 0);
    cluster.access(1, Read);
    cluster.fault(2, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Request Write",
            "0 > 1: InvalidateRequest",
            "1: protect ReadOnly to NoAccess",
            "1 > 0: InvalidateReply",
            "0: protect ReadOnly to NoAccess",
            "0 > 2: Reply Write Page",
            "2: install ReadWrite",
            "2: wake 2",
        ]
    );
}

#[test]
fn paper_s3_3_the_managers_own_fault_costs_two_messages() {
    let mut cluster = Cluster::new(2, 0, 1);
    cluster.fault(0, Write);
    cluster.settle();
    cluster.resume(0);
    assert_eq!(
        cluster.trace(),
        [
            "0 > 1: Forward Write 0",
            "1: protect ReadWrite to NoAccess",
            "1 > 0: Reply Write Page",
            "0: install ReadWrite",
            "0: wake 0",
        ]
    );
    assert!(cluster.entry(0).is_idle());
    assert_eq!(cluster.copyset(0), [0]);
}

#[test]
fn an_upgrade_moves_no_data() {
    let mut cluster = Cluster::new(3, 0, 0);
    cluster.access(1, Read);
    cluster.access(2, Read);
    cluster.fault(1, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Request Write",
            "0 > 2: InvalidateRequest",
            "0: protect ReadOnly to NoAccess",
            "2: protect ReadOnly to NoAccess",
            "2 > 0: InvalidateReply",
            "0 > 1: Reply Write Nothing",
            "1: protect ReadOnly to ReadWrite",
            "1: wake 1",
        ]
    );
}

#[test]
fn paper_s3_3_competing_requests_wait_at_the_manager_and_nowhere_else() {
    let mut cluster = Cluster::new(4, 0, 1);
    cluster.fault(2, Write);
    cluster.fault(3, Write);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Request Write",
            "3 > 0: Request Write",
            "0 > 1: Forward Write 2",
            "0 > 2: AckNow",
            "0: competing",
            "1: protect ReadWrite to NoAccess",
            "1 > 2: Reply Write Page",
            "2: install ReadWrite",
            "2: wake 2",
        ]
    );
    assert_eq!(cluster.entry(0).queued(), 1);

    cluster.resume(2);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2: hold 2",
            "2 > 0: Ack",
            "0 > 2: Forward Write 3",
            "2: protect ReadWrite to NoAccess",
            "2 > 3: Reply Write Page",
            "3: install ReadWrite",
            "3: wake 3",
        ]
    );
    assert_eq!(cluster.entry(0).queued(), 0);
}

#[test]
fn competing_requests_are_served_in_the_order_they_came() {
    let mut cluster = Cluster::new(4, 0, 0);
    for node in [3, 1, 2] {
        cluster.fault(node, Write);
    }
    cluster.settle();
    for node in [3, 1, 2] {
        let trace = cluster.trace();
        assert_eq!(trace.last(), Some(&format!("{node}: wake {node}")), "{trace:#?}");
        cluster.resume(node);
        cluster.settle();
    }
    assert_eq!(cluster.trace(), ["2: hold 2 turns 2", "2 > 0 later: Ack"]);
}

#[test]
fn paper_s3_3_the_ack_of_the_woken_thread_closes_the_transaction() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.fault(1, Write);
    cluster.settle();
    assert!(!cluster.entry(0).is_idle(), "open until the thread that wakes says so");
    assert!(!cluster.holder(1).is_idle() && !cluster.holder(1).is_fetching());
    assert_eq!(cluster.holder(1).access(), Access::ReadWrite);
    cluster.resume(1);
    cluster.settle();
    assert!(cluster.entry(0).is_idle() && cluster.holder(1).is_idle());
    assert_eq!(cluster.copyset(0), [1]);
}

#[test]
fn threads_of_a_node_share_a_request_and_its_ack() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.fault(1, Read);
    cluster.fault(1, Read);
    cluster.settle();
    cluster.resume(1);
    cluster.resume(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Request Read",
            "0: protect ReadWrite to ReadOnly",
            "0 > 1: Reply Read Page",
            "1: install ReadOnly",
            "1: wake 1",
            "1: wake 1",
            "1 > 0 later: Ack",
        ]
    );
}

#[test]
fn a_write_fault_on_a_read_grant_waits_for_the_reader_and_asks_again() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.fault(1, Read);
    cluster.settle();
    cluster.trace();
    let kind = Write;
    cluster.input(1, Input::Fault { thread: ThreadId(9), minipage: M, kind });
    cluster.settle();
    assert_eq!(cluster.trace(), [""; 0], "the reader has not had it yet");
    cluster.resume(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0 later: Ack",
            "1 > 0: Request Write",
            "0: protect ReadOnly to NoAccess",
            "0 > 1: Reply Write Nothing",
            "1: protect ReadOnly to ReadWrite",
            "1: wake 9",
        ]
    );
}

#[test]
fn a_write_fault_while_a_read_copy_is_fetched_waits_for_the_next_transaction() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.fault(1, Read);
    let kind = Write;
    cluster.input(1, Input::Fault { thread: ThreadId(9), minipage: M, kind });
    cluster.settle();
    assert_eq!(cluster.trace().last(), Some(&"1: wake 1".to_owned()));
    cluster.resume(1);
    cluster.settle();
    assert_eq!(cluster.trace().last(), Some(&"1: wake 9".to_owned()));
}

/// A reader of several may have a copy already, of another thread of its node.
#[test]
fn an_upgrade_overtaken_by_another_writer_is_served_with_data() {
    let mut cluster = Cluster::new(3, 0, 0);
    cluster.access(1, Read);
    cluster.fault(2, Write);
    cluster.fault(1, Write);
    cluster.settle();
    cluster.resume(2);
    cluster.settle();
    cluster.resume(1);
    cluster.settle();
    let trace = cluster.trace();
    let data = trace.iter().filter(|line| line.contains("Reply Write Page")).count();
    assert_eq!(data, 2, "{trace:#?}");
    assert_eq!(cluster.copyset(0), [1]);
}

#[test]
fn a_spurious_fault_sends_nothing() {
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.access(1, Read);
    cluster.fault(1, Read);
    cluster.fault(0, Read);
    assert_eq!(
        cluster.trace(),
        ["1: reprotect ReadOnly", "1: wake 1", "0: reprotect ReadOnly", "0: wake 0"]
    );
}
