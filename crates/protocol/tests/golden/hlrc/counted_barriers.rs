//! Barriers to which threads come one by one, and what their managers do not know of homes.

use multigrain_protocol::Kind::{Read, Write};
use multigrain_protocol::sync::{SyncInput, SyncTables};
use multigrain_protocol::{BarrierMessage, Effect, Effects, Message, SyncMessage};
use multigrain_types::{NodeId, ThreadId};

use super::{come_to, lazy, read_by};
use crate::cluster::Cluster;

/// A thread comes alone to a barrier of three.
fn come(cluster: &mut Cluster, node: u16, thread: u32) {
    let thread = ThreadId(thread);
    let come = SyncInput::Barrier { thread, id: 0, local: 0, total: 3, quiescent: true };
    cluster.call(node, come);
    cluster.settle();
}

/// The last of them declares its node quiescent; one that waits for another's end is none.
#[test]
fn threads_that_come_alone_move_homes_if_all_of_their_node_wait() {
    let mut cluster = read_by(2, &[1]);
    for thread in [7, 8] {
        cluster.call(1, SyncInput::Begin { thread: ThreadId(thread) });
    }
    cluster.call(1, SyncInput::Pause { thread: ThreadId(8) });
    cluster.fault(1, Write);
    cluster.settle();
    cluster.trace();
    come(&mut cluster, 1, 1);
    come(&mut cluster, 1, 7);
    let trace = cluster.trace();
    for wanted in ["1 > 0: Barrier Arrive 1 3", "1 > 0: Barrier Arrive 1 3 quiescent 2"] {
        assert!(trace.iter().any(|line| line == wanted), "{wanted}: {trace:#?}");
    }
    come(&mut cluster, 0, 0);
    assert_eq!(cluster.copy(1).home(), None, "it is the home: it was the only writer");
    // Thread 8 goes on while the others are there again.
    come(&mut cluster, 1, 1);
    come(&mut cluster, 1, 7);
    cluster.trace();
    cluster.call(1, SyncInput::Begin { thread: ThreadId(8) });
    cluster.settle();
    let retracted = ["1 > 0: Barrier Retract", "0 > 1: Barrier Retracted", "1: wake 8"];
    assert_eq!(cluster.trace(), retracted);
    come(&mut cluster, 0, 0);
    assert!(cluster.trace().contains(&"0 > 1: Barrier Release 2".to_owned()), "not quiescent");
}

/// Of the threads that wait on a node one may have been let go already: then not all are in this episode.
#[test]
fn a_node_whose_threads_wait_in_two_episodes_is_not_quiescent() {
    let mut tables = SyncTables::with_threads(1);
    let mut come = |from: u16, quiescent| {
        let mut out = Effects::new();
        let message = BarrierMessage::Arrive { arrivals: 1, total: 2, quiescent };
        let message = (0, SyncMessage::Barrier(message));
        tables.receive(NodeId(0), 2, NodeId(from), message, &mut out).expect("it may come");
        out.iter().any(|effect| {
            matches!(effect, Effect::Send { message: Message::Sync { body, .. }, .. }
                if body.is_quiescent_release())
        })
    };
    assert_eq!([come(1, 0), come(0, 1)], [false, false], "others of node 1 run");
    // It has not received that one of the two may go on.
    assert_eq!([come(1, 2), come(0, 1)], [false, false], "one of two threads of node 1 came");
    assert_eq!([come(1, 1), come(0, 1)], [false, true]);
}

/// Node 2 has touched the zeros first and is the home, which the barrier's manager, node 1, does not know.
#[test]
fn a_home_that_the_manager_does_not_know_moves_to_its_writer() {
    let mut cluster = lazy(3);
    cluster.hold_zeros(true);
    cluster.access(2, Read);
    cluster.hold_zeros(false);
    cluster.access(0, Write);
    cluster.settle();
    assert_eq!(cluster.copy(2).home(), None, "the first to touch it");
    for _ in 0..2 {
        (0..3).for_each(|node| come_to(&mut cluster, 1, node, 3));
        cluster.settle();
        assert_eq!(cluster.copy(0).home(), None, "it is the only writer");
        assert_eq!(cluster.copy(2).home(), Some(NodeId(0)));
    }
}
