//! Properties of the codec and of node sets over arbitrary values.

use std::collections::BTreeSet;

use multigrain_protocol::{
    Attach, BarrierMessage, ConditionMessage, Kind, LockMessage, Message, NodeSet, PageMessage,
    ReadWriteMessage, SemaphoreMessage, Turns, Words,
};
use multigrain_types::{MinipageId, NodeId, ThreadId};
use proptest::prelude::*;

fn turns() -> impl Strategy<Value = Turns> {
    any::<(u16, u32)>().prop_map(|(count, longest_us)| Turns { count, longest_us })
}

fn page_message() -> impl Strategy<Value = PageMessage> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write)];
    let attach = prop_oneof![Just(Attach::Nothing), Just(Attach::Page)];
    (kind, attach, any::<u16>().prop_map(NodeId), any::<bool>(), turns(), 0..11u8).prop_map(
        |(kind, attach, node, ack_now, turns, which)| match which {
            0 => PageMessage::Request { kind },
            1 => PageMessage::ReclaimRequest,
            2 => PageMessage::PushRequest,
            3 => PageMessage::Forward { kind, requester: node, ack_now, turns },
            4 => PageMessage::PushForward { target: node },
            5 => PageMessage::Reply { kind, attach, ack_now, turns },
            6 => PageMessage::PushReply,
            7 => PageMessage::InvalidateRequest,
            8 => PageMessage::InvalidateReply,
            9 => PageMessage::AckNow,
            _ => PageMessage::Ack { turn_us: turns.longest_us },
        },
    )
}

fn sync_message() -> impl Strategy<Value = Message> {
    let fields = (any::<u64>(), any::<u16>(), any::<u32>(), any::<u32>(), any::<bool>(), 0..25u8);
    fields.prop_map(|(id, node, count, total, all, which)| {
        let (thread, kind) = (ThreadId(total), if all { Kind::Read } else { Kind::Write });
        match which {
            0 => LockMessage::Request { tell: all }.about(id),
            1 => LockMessage::Recall { to: NodeId(node), tell: all }.about(id),
            2 => LockMessage::Grant.about(id),
            3 => BarrierMessage::Arrive { arrivals: count, total, quiescent: total % 2 == 0 }
                .about(id),
            4 => BarrierMessage::Release { arrivals: count, quiescent: count % 2 == 0 }.about(id),
            5 => SemaphoreMessage::Request { thread }.about(id),
            6 => SemaphoreMessage::Grant { thread }.about(id),
            7 => SemaphoreMessage::Post { count }.about(id),
            8 => ConditionMessage::Enqueue { thread }.about(id),
            9 => ConditionMessage::Queued { thread }.about(id),
            10 => ConditionMessage::Signal { all }.about(id),
            11 => LockMessage::Offer.about(id),
            12 => LockMessage::Probe.about(id),
            13 => LockMessage::Busy.about(id),
            14 => SemaphoreMessage::Try { thread }.about(id),
            15 => SemaphoreMessage::Withdraw { thread }.about(id),
            16 => SemaphoreMessage::Refused { thread }.about(id),
            17 => ConditionMessage::Withdraw { thread }.about(id),
            18 => ConditionMessage::Refused { thread }.about(id),
            19 => ReadWriteMessage::Request { thread, kind }.about(id),
            20 => ReadWriteMessage::Grant { thread }.about(id),
            21 => ReadWriteMessage::Try { thread, kind }.about(id),
            22 => ReadWriteMessage::Refused { thread }.about(id),
            23 => ReadWriteMessage::Release { kind }.about(id),
            _ => ConditionMessage::Wake { thread }.about(id),
        }
    })
}

fn message() -> impl Strategy<Value = Message> {
    let page = (any::<u64>(), page_message()).prop_map(|(id, body)| body.about(MinipageId(id)));
    prop_oneof![page, sync_message()]
}

proptest! {
    #[test]
    fn every_message_comes_back_from_its_words(message in message()) {
        prop_assert_eq!(Message::from_words(&message.to_words()), Ok(message));
    }

    #[test]
    fn unlike_messages_have_unlike_words(one in message(), other in message()) {
        prop_assert_eq!(one == other, one.to_words() == other.to_words());
    }

    #[test]
    fn words_that_decode_are_the_only_spelling(
        kind in 0..64u8,
        flags in 0..8u8,
        thread in prop_oneof![0..4u32, any::<u32>()],
        subject in prop_oneof![0..4u64, any::<u64>()],
        value in prop_oneof![0..4u64, any::<u64>()],
        extra in prop_oneof![0..2u64, any::<u64>()],
    ) {
        let words = Words { kind, flags, thread, subject, value, extra };
        if let Ok(message) = Message::from_words(&words) {
            prop_assert_eq!(message.to_words(), words);
        }
    }

    #[test]
    fn a_node_set_is_a_set_of_ranks(changes in prop::collection::vec((any::<bool>(), 0..200u16), 0..60)) {
        let mut set = NodeSet::new();
        let mut model = BTreeSet::new();
        for (insert, rank) in changes {
            if insert {
                prop_assert_eq!(set.insert(NodeId(rank)), model.insert(rank));
            } else {
                prop_assert_eq!(set.remove(NodeId(rank)), model.remove(&rank));
            }
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.is_empty(), model.is_empty());
        }
        prop_assert_eq!(set.first().map(|node| node.0), model.first().copied());
        prop_assert!(set.iter().map(|node| node.0).eq(model.iter().copied()));
        prop_assert_eq!(set, model.into_iter().map(NodeId).collect::<NodeSet>());
    }
}
