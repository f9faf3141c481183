//! Properties of the codec and of node sets over arbitrary values.

use std::collections::BTreeSet;

use multigrain_protocol::{Message, NodeSet, Words};
use multigrain_types::NodeId;
use proptest::prelude::*;
use proptest::strategy::Union;

#[path = "golden/wire_numbers.rs"]
mod wire_numbers;

/// Any message, of each number as often.
fn message() -> impl Strategy<Value = Message> {
    Union::new(wire_numbers::rows().map(|row| row.values))
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
