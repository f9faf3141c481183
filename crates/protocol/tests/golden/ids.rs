//! Unlimited ids: states at rest are dropped, unused tokens go back to their managers, and what stays in use has a
//! bound.

use multigrain_protocol::sync::{MOST_IDS, SyncInput, SyncTables};
use multigrain_protocol::{
    BarrierMessage, ConditionMessage, Input, LockMessage, Message, SemaphoreMessage, SyncMessage,
    Violation,
};
use multigrain_types::{NodeId, ThreadId};

use crate::cluster::Cluster;

/// The thread that asks has the number of its node.
fn thread(node: u16) -> ThreadId {
    ThreadId(node.into())
}

fn lock(node: u16, id: u64) -> SyncInput {
    SyncInput::Lock { thread: thread(node), id }
}

fn unlock(node: u16, id: u64) -> SyncInput {
    SyncInput::Unlock { thread: thread(node), id }
}

/// A node takes a lock and gives it back.
fn pass(cluster: &mut Cluster, node: u16, id: u64) {
    cluster.call(node, lock(node, id));
    cluster.settle();
    cluster.call(node, unlock(node, id));
    cluster.settle();
}

#[test]
fn an_idle_token_too_many_is_offered_to_its_manager() {
    let mut cluster = Cluster::keeping(2, 1);
    pass(&mut cluster, 1, 0);
    cluster.trace();
    pass(&mut cluster, 1, 2);
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Lock Request",
            "0 > 1: Lock Grant",
            "1: wake 1",
            "1 > 0: Lock Offer",
            "0 > 1: Lock Recall 0",
            "1 > 0: Lock Grant",
        ]
    );
    assert_eq!((cluster.ids(0), cluster.ids(1)), (1, 1), "the other token stays");
    pass(&mut cluster, 1, 0);
    assert_eq!(cluster.trace(), ["1: wake 1"]);
}

#[test]
#[cfg_attr(miri, ignore = "60 of its 3,000 locks take Miri a quarter of an hour")]
fn locks_that_rest_everywhere_are_forgotten_however_many_there_were() {
    let mut cluster = Cluster::keeping(3, 10);
    for id in 0..3000 {
        pass(&mut cluster, 1, id);
        pass(&mut cluster, 2, 3000 - id);
    }
    for node in 0..3 {
        // Its own idle ones, and those of its ids that are elsewhere.
        assert!(cluster.ids(node) <= 30, "node {node}: {} ids", cluster.ids(node));
    }
}

#[test]
fn an_offered_token_can_be_taken_again_until_it_is_recalled() {
    let mut cluster = Cluster::keeping(2, 0);
    cluster.call(1, lock(1, 0));
    cluster.settle();
    cluster.call(1, unlock(1, 0));
    cluster.call(1, lock(1, 0));
    cluster.trace();
    cluster.settle();
    assert_eq!(cluster.trace(), ["0 > 1: Lock Recall 0"], "it waits for the unlock");
    cluster.call(0, lock(0, 0));
    cluster.call(1, unlock(1, 0));
    cluster.settle();
    assert_eq!(cluster.trace(), ["1 > 0: Lock Grant", "0: wake 0"]);
    cluster.call(0, unlock(0, 0));
    assert_eq!((cluster.ids(0), cluster.ids(1)), (0, 0));
}

#[test]
fn an_offer_that_crosses_a_recall_changes_nothing() {
    let mut cluster = Cluster::keeping(3, 0);
    cluster.call(1, lock(1, 0));
    cluster.settle();
    cluster.trace();
    cluster.call(2, lock(2, 0));
    cluster.deliver();
    cluster.call(1, unlock(1, 0));
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "2 > 0: Lock Request",
            "0 > 1: Lock Recall 2",
            "1 > 0: Lock Offer",
            "1 > 2: Lock Grant",
            "2: wake 2",
        ]
    );
    cluster.call(2, unlock(2, 0));
    cluster.settle();
    assert_eq!([0, 1, 2].map(|node| cluster.ids(node)), [0; 3]);
}

#[test]
fn semaphores_barriers_and_conditions_cost_nothing_once_they_rest() {
    let mut cluster = Cluster::new(2, 0, 0);
    for id in 0..100 {
        cluster.call(1, SyncInput::SemaphorePost { id, count: 1 });
        cluster.call(0, SyncInput::SemaphoreWait { thread: thread(0), id });
        cluster.call(1, SyncInput::ConditionSignal { id, all: true });
        for node in 0..2 {
            let thread = thread(node);
            cluster.call(
                node,
                SyncInput::Barrier { thread, id, local: 1, total: 2, quiescent: false },
            );
        }
        cluster.settle();
    }
    assert_eq!((cluster.ids(0), cluster.ids(1)), (0, 0));
}

/// Node 0 takes messages from node 1 until it refuses one: how many it took, and what it says then.
fn flood(message: impl Fn(u64) -> Message) -> (u32, String) {
    let mut cluster = Cluster::new(2, 0, 0);
    for number in 0..=MOST_IDS {
        let message = message(2 * u64::from(number));
        match cluster.try_input(0, Input::Message { from: NodeId(1), message }) {
            Ok(()) => cluster.drop_packets(),
            Err(Violation::Limit { from: NodeId(1), text }) => return (number, text),
            Err(other) => panic!("{other}"),
        }
    }
    panic!("no bound")
}

#[test]
#[cfg_attr(miri, ignore = "its million of ids take Miri more than a quarter of an hour")]
fn a_peer_that_uses_too_many_ids_is_refused() {
    let (locks, text) = flood(|id| LockMessage::Request { tell: id % 4 == 0 }.about(id));
    assert_eq!(locks, MOST_IDS);
    assert!(text.starts_with("it uses more than 1048576 synchronization ids"), "{text}");
    let (semaphores, text) = flood(|id| SemaphoreMessage::Post { count: 1 }.about(id));
    assert_eq!(semaphores, MOST_IDS);
    assert!(text.starts_with("it uses more than 1048576 synchronization ids"), "{text}");
}

#[test]
#[cfg_attr(miri, ignore = "its 20,000 waiting threads take Miri more than an hour")]
fn a_peer_of_which_more_threads_wait_than_a_node_has_is_refused() {
    let arrive = BarrierMessage::Arrive { arrivals: 1, total: 3, quiescent: 0 };
    for same in [0, 1] {
        let floods = [
            flood(|id| SemaphoreMessage::Request { thread: ThreadId(0) }.about(id * same)),
            flood(|id| ConditionMessage::Enqueue { thread: ThreadId(0) }.about(id * same)),
        ];
        for (waits, text) in floods {
            assert_eq!(waits, 4096);
            assert_eq!(text, "more than 4096 threads of it wait, the most a node has");
        }
    }
    assert_eq!(flood(|id| arrive.about(id)).0, 4096);
}

#[test]
fn a_thread_that_was_let_go_may_wait_again() {
    let mut tables = SyncTables::default();
    let thread = ThreadId(3);
    let mut receives = |message: SyncMessage| {
        let mut out = multigrain_protocol::Effects::new();
        tables.receive(NodeId(0), 2, NodeId(1), (0, message), &mut out).expect("it is correct");
    };
    for _ in 0..10_000 {
        receives(SyncMessage::Semaphore(SemaphoreMessage::Request { thread }));
        receives(SyncMessage::Semaphore(SemaphoreMessage::Post { count: 1 }));
        receives(SyncMessage::Condition(ConditionMessage::Enqueue { thread }));
        receives(SyncMessage::Condition(ConditionMessage::Signal { all: true }));
        receives(SyncMessage::Barrier(BarrierMessage::Arrive {
            arrivals: 2,
            total: 2,
            quiescent: 0,
        }));
    }
    assert_eq!(tables, SyncTables::default());
}

#[test]
#[cfg_attr(miri, ignore = "its million of ids take Miri more than a quarter of an hour")]
fn a_program_that_uses_too_many_ids_gets_an_error_and_nothing_has_changed() {
    let mut cluster = Cluster::new(1, 0, 0);
    (0..u64::from(MOST_IDS) / 2).for_each(|id| cluster.call(0, lock(0, id)));
    (0..u64::from(MOST_IDS) / 2)
        .for_each(|id| cluster.call(0, SyncInput::SemaphorePost { id, count: 1 }));
    cluster.trace();
    let post = SyncInput::SemaphorePost { id: MOST_IDS.into(), count: 1 };
    for asked in [lock(0, MOST_IDS.into()), post] {
        match cluster.try_input(0, Input::Sync(asked)) {
            Err(Violation::Limit { from: NodeId(0), text }) => {
                assert!(text.starts_with("this node uses 1048576 synchronization ids"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    cluster.call(0, unlock(0, 7));
    cluster.call(0, lock(0, MOST_IDS.into()));
    assert_eq!(cluster.trace(), ["0: wake 0"]);
}
