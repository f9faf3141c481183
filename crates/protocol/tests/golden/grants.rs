//! Grants that others wait for: pinned retries, turns, readers that are served together (ADR 17).

use multigrain_protocol::Input;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_types::{Access, ThreadId};

use crate::cluster::{Cluster, M};

#[test]
fn a_pinned_retry_holds_the_minipage_though_nobody_waits() {
    let mut cluster = Cluster::new(2, 0, 0);
    let (thread, kind) = (ThreadId(1), Write);
    cluster.input(1, Input::PinnedRetry { thread, minipage: M, kind });
    cluster.settle();
    cluster.trace();
    cluster.input(1, Input::Resumed { thread, minipage: M });
    assert_eq!(cluster.trace(), ["1: hold 1"]);
    cluster.fault(0, Read);
    cluster.settle();
    assert_eq!(cluster.trace(), ["0 > 1: AckNow", "0: competing"]);
    cluster.input(1, Input::Retired { thread, minipage: M, turn_us: 0 });
    cluster.settle();
    assert_eq!(cluster.trace()[..2], ["1 > 0: Ack", "0 > 1: Forward Read 0"]);
}

#[test]
fn a_pinned_retry_on_what_is_here_gets_a_grant_of_its_own() {
    for kind in [Read, Write] {
        let mut cluster = Cluster::new(2, 0, 0);
        cluster.access(1, Write);
        let thread = ThreadId(1);
        cluster.input(1, Input::PinnedRetry { thread, minipage: M, kind });
        cluster.settle();
        let expected = [
            format!("1 > 0: Request {kind:?}"),
            format!("0 > 1: Reply {kind:?} Nothing"),
            // It has trapped: the page tables lag.
            "1: reprotect ReadWrite".to_owned(),
            "1: wake 1".to_owned(),
        ];
        assert_eq!(cluster.trace(), expected);
        cluster.resume(1);
        cluster.settle();
        assert_eq!(cluster.trace(), ["1: hold 1", "1 > 0: Ack"]);
        assert_eq!(cluster.holder(1).access(), Access::ReadWrite);
    }
}

#[test]
fn a_grant_says_for_how_many_turns_its_node_has_waited() {
    let mut cluster = Cluster::new(4, 0, 0);
    for node in [1, 2, 3] {
        cluster.fault(node, Write);
        cluster.settle();
    }
    let mut grants = Vec::new();
    cluster.fault(0, Write);
    for node in [1, 2] {
        cluster.resume(node);
        cluster.settle();
        grants.extend(cluster.trace().into_iter().filter(|line| line.contains("Reply")));
    }
    cluster.resume(3);
    cluster.settle();
    grants.extend(cluster.trace().into_iter().filter(|line| line.contains("Reply")));
    cluster.resume(0);
    grants.extend(cluster.trace().into_iter().filter(|line| line.contains("hold")));
    let expected = [
        "0 > 1: Reply Write Page",
        "1 > 2: Reply Write Page ack now",
        "2 > 3: Reply Write Page ack now turns 2",
        "3 > 0: Reply Write Page turns 3",
        "0: hold 0 turns 3",
    ];
    assert_eq!(grants, expected);
}

#[test]
fn a_grant_says_how_long_the_longest_turn_was_that_its_node_has_waited_for() {
    let mut cluster = Cluster::new(5, 0, 0);
    for node in 1..5 {
        cluster.fault(node, Write);
        cluster.settle();
    }
    for (node, turn_us) in [(1, 10), (2, 900), (3, 40), (4, 0)] {
        if node == 3 {
            cluster.fault(2, Write);
        }
        cluster.resume_for(node, turn_us);
        cluster.settle();
    }
    let grants: Vec<String> =
        cluster.trace().into_iter().filter(|line| line.contains("Reply")).collect();
    let expected = [
        "0 > 1: Reply Write Page",
        "1 > 2: Reply Write Page ack now of 10 us",
        "2 > 3: Reply Write Page ack now turns 2 of 900 us",
        "3 > 4: Reply Write Page ack now turns 3 of 900 us",
        // It has waited for turns of 40 us and 0. Of late one was of 900 us, less an eighth, less an eighth.
        "4 > 2: Reply Write Page turns 2 of 690 us",
    ];
    assert_eq!(grants, expected);
}

#[test]
fn readers_that_wait_are_served_together_with_the_first() {
    let mut cluster = Cluster::new(5, 0, 0);
    for (node, kind) in [(1, Write), (2, Read), (3, Write), (4, Read)] {
        cluster.fault(node, kind);
        cluster.settle();
    }
    cluster.trace();
    cluster.resume(1);
    cluster.settle();
    let expected = [
        "1: hold 1",
        "1 > 0: Ack",
        "0 > 1: Forward Read 2 ack now",
        "0 > 1: Forward Read 4 ack now",
        "1: protect ReadWrite to ReadOnly",
        "1 > 2: Reply Read Page ack now",
        "1 > 4: Reply Read Page ack now",
        "2: install ReadOnly",
        "2: wake 2",
        "4: install ReadOnly",
        "4: wake 4",
    ];
    assert_eq!(cluster.trace(), expected);
    cluster.resume(2);
    cluster.settle();
    assert_eq!(cluster.trace(), ["2: hold 2", "2 > 0: Ack"], "the other reads still");
    cluster.resume(4);
    cluster.settle();
    let trace = cluster.trace();
    assert!(trace.contains(&"3: wake 3".to_owned()), "{trace:#?}");
}

#[test]
fn a_reader_with_a_copy_may_supply_those_that_are_served_with_it() {
    let mut cluster = Cluster::new(3, 0, 1);
    cluster.fault(2, Write);
    cluster.settle();
    cluster.resume(2);
    cluster.settle();
    cluster.access(1, Read);
    cluster.fault(2, Write);
    cluster.settle();
    cluster.input(1, Input::PinnedRetry { thread: ThreadId(8), minipage: M, kind: Read });
    cluster.fault(0, Read);
    cluster.settle();
    for node in [2, 0, 1] {
        cluster.resume(node);
        cluster.settle();
    }
    cluster.input(1, Input::Resumed { thread: ThreadId(8), minipage: M });
    cluster.input(1, Input::Retired { thread: ThreadId(8), minipage: M, turn_us: 0 });
    cluster.settle();
    let trace = cluster.trace();
    assert!(trace.contains(&"0: wake 0".to_owned()), "{trace:#?}");
    assert!(cluster.entry(0).is_idle(), "{trace:#?}");
}

#[test]
fn a_reader_that_comes_while_others_are_served_joins_them_unless_a_writer_waits() {
    let mut cluster = Cluster::new(5, 0, 0);
    cluster.fault(1, Read);
    cluster.settle();
    cluster.trace();
    cluster.fault(2, Read);
    cluster.settle();
    let joined =
        ["2 > 0: Request Read", "0 > 2: Reply Read Page", "2: install ReadOnly", "2: wake 2"];
    assert_eq!(cluster.trace(), joined);
    cluster.fault(3, Write);
    cluster.fault(4, Read);
    cluster.settle();
    assert_eq!(cluster.entry(0).queued(), 2, "behind the writer");
    for node in [1, 2, 3, 4] {
        cluster.resume(node);
        cluster.settle();
    }
    let trace = cluster.trace();
    assert!(trace.contains(&"4: wake 4".to_owned()), "{trace:#?}");
}

#[test]
fn a_reply_while_others_wait_asks_for_the_ack_at_once() {
    let mut cluster = Cluster::new(4, 0, 0);
    for node in [1, 2, 3] {
        cluster.fault(node, Write);
    }
    cluster.settle();
    cluster.trace();
    cluster.resume(1);
    cluster.settle();
    cluster.resume(2);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1: hold 1",
            "1 > 0: Ack",
            "0 > 1: Forward Write 2 ack now",
            "1: protect ReadWrite to NoAccess",
            "1 > 2: Reply Write Page ack now",
            "2: install ReadWrite",
            "2: wake 2",
            "2: hold 2",
            "2 > 0: Ack",
            "0 > 2: Forward Write 3 turns 2",
            "2: protect ReadWrite to NoAccess",
            "2 > 3: Reply Write Page turns 2",
            "3: install ReadWrite",
            "3: wake 3",
        ]
    );
}

#[test]
fn an_ack_now_that_meets_the_ack_on_its_way_changes_nothing() {
    let mut cluster = Cluster::new(3, 0, 0);
    cluster.fault(1, Write);
    cluster.settle();
    cluster.fault(2, Write);
    cluster.resume(1);
    cluster.settle();
    assert_eq!(
        cluster.trace()[5..],
        [
            "2 > 0: Request Write",
            "1 > 0 later: Ack",
            "0 > 1: AckNow",
            "0: competing",
            "0 > 1: Forward Write 2",
            "1: protect ReadWrite to NoAccess",
            "1 > 2: Reply Write Page",
            "2: install ReadWrite",
            "2: wake 2",
        ]
    );
}
