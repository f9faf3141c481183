//! What no correct peer sends is refused by name, and what no correct program asks for.

use multigrain_protocol::invalidation_tree::Ranks;
use multigrain_protocol::sync::SyncInput;
use multigrain_protocol::{
    Attach, BarrierMessage, ConditionMessage, Input, Kind, LockMessage, Message, PageMessage,
    ReadWriteMessage, SemaphoreMessage, Turns, Violation,
};
use multigrain_types::{NodeId, ThreadId};

use crate::cluster::{Cluster, M};

pub(crate) fn refused(
    cluster: &mut Cluster,
    node: u16,
    from: u16,
    message: Message,
) -> &'static str {
    match cluster.try_input(node, Input::Message { from: NodeId(from), message }) {
        Err(Violation::Peer { from: named, role, .. }) => {
            assert_eq!(named, NodeId(from), "{message:?}");
            role
        }
        other => panic!("{message:?} from {from}: {other:?}"),
    }
}

#[test]
fn what_a_holder_without_a_copy_or_a_request_cannot_be_sent() {
    let kind = Kind::Read;
    for body in [
        PageMessage::Forward { kind, requester: NodeId(2), ack_now: false, turns: Turns::NONE },
        PageMessage::PushForward { target: NodeId(2) },
        PageMessage::InvalidateRequest,
        PageMessage::Reply { kind, attach: Attach::Page, ack_now: false, turns: Turns::NONE },
        PageMessage::Reply { kind, attach: Attach::Nothing, ack_now: false, turns: Turns::NONE },
    ] {
        let mut cluster = Cluster::new(3, 0, 0);
        assert_eq!(refused(&mut cluster, 1, 0, body.about(M)), "holder");
    }
}

#[test]
fn a_reply_of_the_other_kind_is_refused() {
    for (asked, got) in [(Kind::Read, Kind::Write), (Kind::Write, Kind::Read)] {
        for attach in [Attach::Page, Attach::Nothing] {
            let mut cluster = Cluster::new(2, 0, 0);
            cluster.fault(1, asked);
            let message =
                PageMessage::Reply { kind: got, attach, ack_now: false, turns: Turns::NONE }
                    .about(M);
            assert_eq!(refused(&mut cluster, 1, 0, message), "holder");
        }
    }
}

#[test]
fn a_page_pushed_onto_a_copy_is_refused() {
    let mut cluster = Cluster::new(2, 0, 0);
    assert_eq!(refused(&mut cluster, 0, 1, PageMessage::PushReply.about(M)), "holder");
}

#[test]
fn a_manager_refuses_acks_and_replies_it_does_not_await() {
    for body in [PageMessage::Ack { turn_us: 0 }, PageMessage::InvalidateReply] {
        let mut cluster = Cluster::new(3, 0, 0);
        assert_eq!(refused(&mut cluster, 0, 1, body.about(M)), "manager");
        // Nor from a bystander while a transaction of others is open.
        cluster.fault(1, Kind::Write);
        cluster.deliver();
        assert_eq!(refused(&mut cluster, 0, 2, body.about(M)), "manager");
    }
}

#[test]
fn a_second_fetch_of_a_node_that_waits_is_refused() {
    let mut cluster = Cluster::new(3, 0, 0);
    cluster.fault(1, Kind::Write);
    cluster.fault(2, Kind::Write);
    cluster.deliver();
    cluster.deliver();
    let message = PageMessage::Request { kind: Kind::Read }.about(M);
    assert_eq!(refused(&mut cluster, 0, 2, message), "manager");
}

#[test]
fn who_is_not_the_manager_refuses_what_is_meant_for_it() {
    let mut cluster = Cluster::new(3, 0, 0);
    for body in [
        PageMessage::Request { kind: Kind::Read },
        PageMessage::ReclaimRequest,
        PageMessage::PushRequest,
        PageMessage::Ack { turn_us: 0 },
    ] {
        assert_eq!(refused(&mut cluster, 1, 2, body.about(M)), "manager");
    }
}

#[test]
fn an_answer_to_an_invalidation_that_was_not_passed_on_is_refused() {
    let mut cluster = Cluster::new(3, 0, 0);
    assert_eq!(refused(&mut cluster, 1, 2, PageMessage::InvalidateReply.about(M)), "holder");
}

#[test]
fn an_invalidation_by_a_tree_is_refused_where_it_cannot_be() {
    let below = |word, bits| Ranks::new(word, bits).unwrap();
    let tree = |below| PageMessage::InvalidateTree { below }.about(M);
    // A job of fewer nodes than a tree begins with.
    let mut cluster = Cluster::new(40, 0, 0);
    assert_eq!(refused(&mut cluster, 0, 1, tree(Ranks::NONE)), "holder");
    // The manager, the node itself, who sent it, and a node that is not there, among those below; no copy; the only one.
    let mut cluster = Cluster::new(70, 0, 1);
    for below in [below(0, 1), below(0, 2), below(0, 4), below(1, 1 << 6), below(1023, 1)] {
        assert_eq!(refused(&mut cluster, 1, 2, tree(below)), "holder");
    }
    assert_eq!(refused(&mut cluster, 3, 2, tree(below(0, 16))), "holder");
    assert_eq!(refused(&mut cluster, 1, 2, tree(below(0, 16))), "holder");
}

#[test]
fn a_holder_obeys_its_manager_alone_and_serves_nodes_of_the_job_alone() {
    let kind = Kind::Read;
    let forward =
        |requester| PageMessage::Forward { kind, requester, ack_now: false, turns: Turns::NONE };
    let push = |target| PageMessage::PushForward { target };
    for (from, body) in [
        (2, forward(NodeId(2))),
        (2, push(NodeId(2))),
        (2, PageMessage::InvalidateRequest),
        (2, PageMessage::AckNow),
        (0, forward(NodeId(3))),
        (0, push(NodeId(60_000))),
    ] {
        // Node 0 manages, node 1 has the copy.
        let mut cluster = Cluster::new(3, 0, 1);
        assert_eq!(refused(&mut cluster, 1, from, body.about(M)), "holder");
    }
}

/// Without contents the manager alone grants; a holder supplies.
#[test]
fn an_upgrade_that_another_node_grants_is_refused() {
    for (from, granted) in [(2, false), (0, true)] {
        let mut cluster = Cluster::new(3, 0, 1);
        cluster.access(2, Kind::Read);
        cluster.fault(1, Kind::Write);
        let attach = Attach::Nothing;
        let reply =
            PageMessage::Reply { kind: Kind::Write, attach, ack_now: false, turns: Turns::NONE };
        let message = Input::Message { from: NodeId(from), message: reply.about(M) };
        assert_eq!(cluster.try_input(1, message).is_ok(), granted);
    }
}

#[test]
fn synchronization_messages_out_of_place_are_refused() {
    // Id 0 is managed by node 0.
    for (node, from, message) in [
        (1, 2, LockMessage::Request { tell: false }.about(0)),
        (1, 0, LockMessage::Grant.about(0)),
        (1, 0, LockMessage::Recall { to: NodeId(2), tell: false }.about(0)),
        (0, 1, LockMessage::Recall { to: NodeId(2), tell: false }.about(0)),
        (0, 0, LockMessage::Recall { to: NodeId(3), tell: false }.about(0)),
        (1, 2, LockMessage::Offer.about(0)),
        (0, 1, BarrierMessage::Arrive { arrivals: 0, total: 2, quiescent: 0 }.about(0)),
        (1, 2, BarrierMessage::Arrive { arrivals: 1, total: 2, quiescent: 0 }.about(0)),
        (1, 0, BarrierMessage::Release { arrivals: 1, quiescent: false }.about(0)),
        // It frees nobody, and would move homes.
        (1, 0, BarrierMessage::Release { arrivals: 0, quiescent: true }.about(0)),
        (1, 2, SemaphoreMessage::Request { thread: ThreadId(1) }.about(0)),
        (1, 0, SemaphoreMessage::Grant { thread: ThreadId(1) }.about(0)),
        (1, 0, SemaphoreMessage::Refused { thread: ThreadId(1) }.about(0)),
        (1, 2, SemaphoreMessage::Try { thread: ThreadId(1) }.about(0)),
        (1, 2, SemaphoreMessage::Withdraw { thread: ThreadId(1) }.about(0)),
        (1, 0, LockMessage::Busy.about(0)),
        (1, 0, ConditionMessage::Refused { thread: ThreadId(1) }.about(0)),
        (1, 2, ConditionMessage::Withdraw { thread: ThreadId(1) }.about(0)),
        (1, 2, ReadWriteMessage::Request { thread: ThreadId(1), kind: Kind::Read }.about(0)),
        (1, 2, ReadWriteMessage::Try { thread: ThreadId(1), kind: Kind::Write }.about(0)),
        (1, 0, ReadWriteMessage::Grant { thread: ThreadId(1) }.about(0)),
        (1, 0, ReadWriteMessage::Refused { thread: ThreadId(1) }.about(0)),
        (0, 1, ReadWriteMessage::Release { kind: Kind::Read }.about(0)),
        (0, 1, ReadWriteMessage::Release { kind: Kind::Write }.about(0)),
        (1, 2, SemaphoreMessage::Post { count: 1 }.about(0)),
        (1, 2, ConditionMessage::Enqueue { thread: ThreadId(1) }.about(0)),
        (1, 2, ConditionMessage::Signal { all: true }.about(0)),
        (1, 0, ConditionMessage::Queued { thread: ThreadId(1) }.about(0)),
        (1, 0, ConditionMessage::Wake { thread: ThreadId(1) }.about(0)),
    ] {
        let mut cluster = Cluster::new(3, 0, 0);
        assert_eq!(refused(&mut cluster, node, from, message), "synchronization");
    }
}

#[test]
fn a_token_is_recalled_once_at_a_time() {
    let mut cluster = Cluster::new(4, 0, 0);
    cluster.call(1, SyncInput::Lock { thread: ThreadId(1), id: 0 });
    cluster.call(2, SyncInput::Lock { thread: ThreadId(2), id: 0 });
    cluster.settle();
    let message = LockMessage::Recall { to: NodeId(3), tell: false }.about(0);
    assert_eq!(refused(&mut cluster, 1, 0, message), "synchronization");
}

#[test]
fn a_refusal_names_sender_state_and_event() {
    let mut cluster = Cluster::new(2, 0, 0);
    let message = PageMessage::InvalidateRequest.about(M);
    let refusal = cluster
        .try_input(1, Input::Message { from: NodeId(0), message })
        .expect_err("node 1 has no copy");
    let text = refusal.to_string();
    for part in ["node 0", "Invalidate", "holder", "NoAccess"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[test]
fn misuse_of_synchronization_is_the_programs_fault() {
    let thread = ThreadId(1);
    let mut cluster = Cluster::new(2, 0, 0);
    cluster.call(0, SyncInput::Lock { thread, id: 0 });
    for asked in [
        SyncInput::Lock { thread, id: 0 },
        SyncInput::Unlock { thread: ThreadId(2), id: 0 },
        SyncInput::Unlock { thread, id: 2 },
        SyncInput::ConditionWait { thread: ThreadId(2), id: 4, lock: 0 },
        SyncInput::Barrier { thread, id: 0, local: 1, total: 0, quiescent: false },
    ] {
        let refusal = cluster.try_input(0, Input::Sync(asked.clone()));
        assert!(matches!(refusal, Err(Violation::Misuse(_))), "{asked:?}: {refusal:?}");
    }
    cluster.call(0, SyncInput::Barrier { thread, id: 0, local: 1, total: 3, quiescent: false });
    let other =
        SyncInput::Barrier { thread: ThreadId(2), id: 0, local: 1, total: 2, quiescent: false };
    assert!(matches!(cluster.try_input(0, Input::Sync(other)), Err(Violation::Misuse(_))));
}
