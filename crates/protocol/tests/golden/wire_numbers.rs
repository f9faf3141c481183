//! The number of every message on the wire. They are fixed: a new message gets a row with a number that none has.
//!
//! A row is a number, its message, and arbitrary values of that; the properties of the codec (`tests/properties.rs`)
//! are of these values. The rows of an engine are the arms of an exhaustive match, so that none can be forgotten. The
//! numbers of the runtime's own requests are in `runtime/src/frames.rs`.

use multigrain_protocol::invalidation_tree::Ranks;
use multigrain_protocol::{
    Attach, BarrierMessage, ConditionMessage, HlrcMessage, Kind, LockMessage, Message, MgsMessage,
    PageMessage, ReadWriteMessage, SemaphoreMessage, SyncMessage, Turns, Words,
};
use multigrain_types::{MinipageId, NodeId, ThreadId};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeSet;

/// The messages of one number.
pub(crate) struct Row {
    number: u8,
    pub(crate) values: BoxedStrategy<Message>,
}

/// The rows of an engine; its messages are about a `$subject`.
macro_rules! rows {
    ($engine:ident, $body:ident, $subject:path: $($number:literal $name:ident $values:expr;)*) => {
        mod $engine {
            use super::*;

            pub(super) fn number(body: $body) -> u8 {
                match body {
                    $($body::$name { .. } => $number,)*
                }
            }

            pub(super) fn rows() -> Vec<Row> {
                use $body::*;
                let about = |(body, subject): ($body, u64)| body.about($subject(subject));
                vec![$(
                    Row { number: $number, values: ($values, any::<u64>()).prop_map(about).boxed() },
                )*]
            }
        }
    };
}

rows! { page, PageMessage, MinipageId:
    1 Request kind().prop_map(|kind| Request { kind });
    2 ReclaimRequest Just(ReclaimRequest);
    3 PushRequest Just(PushRequest);
    4 Forward (kind(), node(), flag(), turns()).prop_map(|(kind, requester, ack_now, turns)| Forward {
        kind, requester, ack_now, turns
    });
    5 PushForward node().prop_map(|target| PushForward { target });
    6 Reply (kind(), attach(), flag(), turns()).prop_map(|(kind, attach, ack_now, turns)| Reply {
        kind, attach, ack_now, turns
    });
    7 PushReply Just(PushReply);
    8 InvalidateRequest Just(InvalidateRequest);
    19 InvalidateTree ranks().prop_map(|below| InvalidateTree { below });
    9 InvalidateReply Just(InvalidateReply);
    10 Ack any::<u32>().prop_map(|turn_us| Ack { turn_us });
    11 AckNow Just(AckNow);
}

rows! { mgs, MgsMessage, MinipageId:
    40 ReadRequest Just(ReadRequest);
    41 WriteRequest Just(WriteRequest);
    42 Release Just(Release);
    43 WriteNotify Just(WriteNotify);
    44 Ack Just(Ack);
    45 Diff Just(Diff);
    46 SingleWriterData Just(SingleWriterData);
    47 SingleWriterAck Just(SingleWriterAck);
    48 ReadData Just(ReadData);
    49 WriteData Just(WriteData);
    50 ReleaseAck Just(ReleaseAck);
    51 Invalidate Just(Invalidate);
    52 SingleWriterInvalidate Just(SingleWriterInvalidate);
    53 SingleWriterGrant Just(SingleWriterGrant);
}

rows! { hlrc, HlrcMessage, MinipageId:
    54 Fetch (node(), any::<u64>(), flag()).prop_map(|(requester, epoch, waits)| Fetch {
        requester, epoch, waits
    });
    55 Data Just(Data);
    56 FirstTouch Just(FirstTouch);
    57 Diff (node(), any::<u64>(), any::<u64>()).prop_map(|(writer, flush, epoch)| Diff {
        writer, flush, epoch
    });
    58 DiffAck (any::<u64>(), 1..=u32::MAX).prop_map(|(flush, count)| DiffAck { flush, count });
    59 HomeTransfer Just(HomeTransfer);
}

rows! { lock, LockMessage, u64::from:
    20 Request flag().prop_map(|tell| Request { tell });
    21 Recall (node(), flag()).prop_map(|(to, tell)| Recall { to, tell });
    22 Grant Just(Grant);
    34 Offer Just(Offer);
    35 Probe Just(Probe);
    36 Busy Just(Busy);
}

rows! { barrier, BarrierMessage, u64::from:
    23 Arrive (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(arrivals, total, quiescent)| Arrive {
        arrivals, total, quiescent
    });
    24 Release (any::<u32>(), flag()).prop_map(|(arrivals, quiescent)| Release { arrivals, quiescent });
    32 Retract Just(Retract);
    33 Retracted Just(Retracted);
    60 Combine (any::<u32>(), any::<u32>(), flag()).prop_map(|(arrivals, total, quiescent)| Combine {
        arrivals, total, quiescent
    });
    61 Open (any::<u32>(), flag()).prop_map(|(arrivals, quiescent)| Open { arrivals, quiescent });
}

rows! { semaphore, SemaphoreMessage, u64::from:
    25 Request thread().prop_map(|thread| Request { thread });
    26 Grant thread().prop_map(|thread| Grant { thread });
    27 Post any::<u32>().prop_map(|count| Post { count });
    37 Try thread().prop_map(|thread| Try { thread });
    38 Withdraw thread().prop_map(|thread| Withdraw { thread });
    39 Refused thread().prop_map(|thread| Refused { thread });
}

rows! { condition, ConditionMessage, u64::from:
    12 Withdraw thread().prop_map(|thread| Withdraw { thread });
    13 Refused thread().prop_map(|thread| Refused { thread });
    28 Enqueue thread().prop_map(|thread| Enqueue { thread });
    29 Queued thread().prop_map(|thread| Queued { thread });
    30 Signal flag().prop_map(|all| Signal { all });
    31 Wake thread().prop_map(|thread| Wake { thread });
}

rows! { read_write, ReadWriteMessage, u64::from:
    14 Request (thread(), kind()).prop_map(|(thread, kind)| Request { thread, kind });
    15 Grant thread().prop_map(|thread| Grant { thread });
    16 Try (thread(), kind()).prop_map(|(thread, kind)| Try { thread, kind });
    17 Refused thread().prop_map(|thread| Refused { thread });
    18 Release kind().prop_map(|kind| Release { kind });
}

fn number(message: Message) -> u8 {
    match message {
        Message::Page { body, .. } => page::number(body),
        Message::Mgs { body, .. } => mgs::number(body),
        Message::Hlrc { body, .. } => hlrc::number(body),
        Message::Sync { body, .. } => match body {
            SyncMessage::Lock(body) => lock::number(body),
            SyncMessage::Barrier(body) => barrier::number(body),
            SyncMessage::Semaphore(body) => semaphore::number(body),
            SyncMessage::Condition(body) => condition::number(body),
            SyncMessage::ReadWrite(body) => read_write::number(body),
        },
    }
}

/// The rows of all engines.
pub(crate) fn rows() -> impl Iterator<Item = Row> {
    let minipages = [page::rows(), mgs::rows(), hlrc::rows()];
    let locks = [lock::rows(), barrier::rows(), semaphore::rows()];
    let others = [condition::rows(), read_write::rows()];
    minipages.into_iter().chain(locks).chain(others).flatten()
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Read), Just(Kind::Write)]
}

fn attach() -> impl Strategy<Value = Attach> {
    prop_oneof![Just(Attach::Nothing), Just(Attach::Page)]
}

fn node() -> impl Strategy<Value = NodeId> {
    any::<u16>().prop_map(NodeId)
}

fn ranks() -> impl Strategy<Value = Ranks> {
    (0..1024_u16, 1..=u64::MAX)
        .prop_map(|(word, bits)| Ranks::new(word, bits).unwrap_or(Ranks::NONE))
}

fn thread() -> impl Strategy<Value = ThreadId> {
    any::<u32>().prop_map(ThreadId)
}

fn flag() -> impl Strategy<Value = bool> {
    any::<bool>()
}

fn turns() -> impl Strategy<Value = Turns> {
    any::<(u16, u32)>().prop_map(|(count, longest_us)| Turns { count, longest_us })
}

#[test]
fn every_message_has_a_number_of_its_own_and_keeps_it() {
    let mut runner = TestRunner::deterministic();
    let mut taken = BTreeSet::new();
    for Row { number: golden, values } in rows() {
        let message = values.new_tree(&mut runner).unwrap().current();
        assert_eq!((message.to_words().kind, number(message)), (golden, golden), "{message:?}");
        assert!(taken.insert(golden), "{message:?} and another have number {golden}");
    }
    let decoded = |kind: &u8| {
        let words = |flags, thread| Words { kind: *kind, flags, thread, ..Words::default() };
        (0..8).any(|flags| (0..2).any(|thread| Message::from_words(&words(flags, thread)).is_ok()))
    };
    assert!(taken.into_iter().eq((0..=u8::MAX).filter(decoded)), "a number that no row has");
}
