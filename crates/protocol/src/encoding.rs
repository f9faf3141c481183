//! Messages as the six words of a frame header, and back.
//!
//! Role: the only place that numbers messages of the protocol, 1 to 63. The runtime's requests, from 64 on, are in
//! `runtime/src/frames.rs`; the transport's own, from 240 on, in `transport/src/frame_header.rs`. It knows nothing of
//! bytes: the transport lays the words out. Numbers are fixed; a new message takes a new number.

use multigrain_types::{MinipageId, NodeId, ThreadId};

use crate::invalidation_tree::Ranks;
use crate::message::{
    Attach, BarrierMessage, ConditionMessage, HlrcMessage, Kind, LockMessage, Message, MgsMessage,
    PageMessage, ReadWriteMessage, SemaphoreMessage, SyncMessage, Turns,
};

/// The fields of a frame that carry a message; the transport adds sender and payload length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Words {
    /// Which message, 1 to 63.
    pub kind: u8,
    /// Bit 0: write, all, quiescent, waits, or tell; bit 1: a page is attached; bit 2: others wait already.
    pub flags: u8,
    /// A node's rank, a thread there, or a count.
    pub thread: u32,
    /// Minipage or synchronization id.
    pub subject: u64,
    /// A second count.
    pub value: u64,
    /// A third one; 0 in messages that go in runs.
    pub extra: u64,
}

/// Words that are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// No message has this number.
    #[error("message number {0} is unknown")]
    Kind(u8),
    /// A field holds a value its message does not allow.
    #[error("message number {kind}: field {field} holds {value}")]
    Field {
        /// The message's number.
        kind: u8,
        /// Which field.
        field: &'static str,
        /// What it held.
        value: u64,
    },
}

const WRITE: u8 = 1;
const ALL: u8 = 1;
const QUIESCENT: u8 = 1;
const WAITS: u8 = 1;
const TELL: u8 = 1;
const PAGE: u8 = 2;
const ACK_NOW: u8 = 4;

impl Message {
    /// The words of this message.
    #[must_use]
    pub fn to_words(&self) -> Words {
        match *self {
            Self::Page { minipage, body } => Words { subject: minipage.0, ..page_words(body) },
            Self::Mgs { minipage, body } => Words { subject: minipage.0, ..mgs_words(body) },
            Self::Hlrc { minipage, body } => Words { subject: minipage.0, ..hlrc_words(body) },
            Self::Sync { id, body } => Words { subject: id, ..sync_words(body) },
        }
    }

    /// The message these words spell. Fields a message does not use must be zero.
    ///
    /// # Errors
    /// [`WireError`] for words no node of this version sends.
    pub fn from_words(words: &Words) -> Result<Self, WireError> {
        let kind = if words.flags & WRITE == 0 { Kind::Read } else { Kind::Write };
        let ack_now = words.flags & ACK_NOW != 0;
        let quiescent = words.flags & QUIESCENT != 0;
        let page = |body: PageMessage| body.about(MinipageId(words.subject));
        let (id, thread) = (words.subject, ThreadId(words.thread));
        let tell = words.flags & TELL != 0;
        let message = match words.kind {
            1 => page(PageMessage::Request { kind }),
            2 => page(PageMessage::ReclaimRequest),
            3 => page(PageMessage::PushRequest),
            4 => {
                let (requester, turns) = (node(words)?, turns(words)?);
                page(PageMessage::Forward { kind, requester, ack_now, turns })
            }
            5 => page(PageMessage::PushForward { target: node(words)? }),
            6 => {
                let (attach, turns) = (attach(words), turns(words)?);
                page(PageMessage::Reply { kind, attach, ack_now, turns })
            }
            7 => page(PageMessage::PushReply),
            8 => page(PageMessage::InvalidateRequest),
            9 => page(PageMessage::InvalidateReply),
            10 => page(PageMessage::Ack { turn_us: narrow(words, "turn", words.value)? }),
            11 => page(PageMessage::AckNow),
            19 => page(PageMessage::InvalidateTree { below: below(words)? }),
            12 => ConditionMessage::Withdraw { thread }.about(id),
            13 => ConditionMessage::Refused { thread }.about(id),
            14 => ReadWriteMessage::Request { thread, kind }.about(id),
            15 => ReadWriteMessage::Grant { thread }.about(id),
            16 => ReadWriteMessage::Try { thread, kind }.about(id),
            17 => ReadWriteMessage::Refused { thread }.about(id),
            18 => ReadWriteMessage::Release { kind }.about(id),
            20 => LockMessage::Request { tell }.about(id),
            21 => LockMessage::Recall { to: node(words)?, tell }.about(id),
            22 => LockMessage::Grant.about(id),
            23 => {
                let (total, quiescent) = (total(words)?, narrow(words, "quiescent", words.extra)?);
                BarrierMessage::Arrive { arrivals: words.thread, total, quiescent }.about(id)
            }
            24 => BarrierMessage::Release { arrivals: words.thread, quiescent }.about(id),
            25 => SemaphoreMessage::Request { thread }.about(id),
            26 => SemaphoreMessage::Grant { thread }.about(id),
            27 => SemaphoreMessage::Post { count: words.thread }.about(id),
            28 => ConditionMessage::Enqueue { thread }.about(id),
            29 => ConditionMessage::Queued { thread }.about(id),
            30 => ConditionMessage::Signal { all: words.flags & ALL != 0 }.about(id),
            31 => ConditionMessage::Wake { thread }.about(id),
            60 => {
                BarrierMessage::Combine { arrivals: words.thread, total: total(words)?, quiescent }
                    .about(id)
            }
            61 => BarrierMessage::Open { arrivals: words.thread, quiescent }.about(id),
            32 => BarrierMessage::Retract.about(id),
            33 => BarrierMessage::Retracted.about(id),
            34 => LockMessage::Offer.about(id),
            35 => LockMessage::Probe.about(id),
            36 => LockMessage::Busy.about(id),
            37 => SemaphoreMessage::Try { thread }.about(id),
            38 => SemaphoreMessage::Withdraw { thread }.about(id),
            39 => SemaphoreMessage::Refused { thread }.about(id),
            kind => match mgs_message(kind) {
                Some(body) => body.about(MinipageId(words.subject)),
                None => hlrc_message(words)?.about(MinipageId(words.subject)),
            },
        };
        // One spelling per message: what is not used is zero.
        if message.to_words() == *words {
            Ok(message)
        } else {
            Err(WireError::Field {
                kind: words.kind,
                field: "flags or unused",
                value: words.flags.into(),
            })
        }
    }
}

fn page_words(body: PageMessage) -> Words {
    let plain = |kind| Words { kind, ..Words::default() };
    let bit = |kind| if kind == Kind::Write { WRITE } else { 0 };
    let urgent = |ack_now| if ack_now { ACK_NOW } else { 0 };
    match body {
        PageMessage::Request { kind } => Words { flags: bit(kind), ..plain(1) },
        PageMessage::ReclaimRequest => plain(2),
        PageMessage::PushRequest => plain(3),
        PageMessage::Forward { kind, requester, ack_now, turns } => {
            let flags = bit(kind) | urgent(ack_now);
            Words { flags, thread: requester.0.into(), value: of_turns(turns), ..plain(4) }
        }
        PageMessage::PushForward { target } => Words { thread: target.0.into(), ..plain(5) },
        PageMessage::Reply { kind, attach, ack_now, turns } => {
            let page = if attach == Attach::Page { PAGE } else { 0 };
            let flags = bit(kind) | page | urgent(ack_now);
            Words { flags, value: of_turns(turns), ..plain(6) }
        }
        PageMessage::PushReply => Words { flags: PAGE, ..plain(7) },
        PageMessage::InvalidateRequest => plain(8),
        PageMessage::InvalidateTree { below } => {
            let (word, bits) = below.words();
            Words { thread: word.into(), value: bits, ..plain(19) }
        }
        PageMessage::InvalidateReply => plain(9),
        PageMessage::Ack { turn_us } => Words { value: turn_us.into(), ..plain(10) },
        PageMessage::AckNow => plain(11),
    }
}

fn sync_words(body: SyncMessage) -> Words {
    let plain = |kind| Words { kind, ..Words::default() };
    let of = |kind, ThreadId(thread)| Words { thread, ..plain(kind) };
    let quiescent_bit = |quiescent| if quiescent { QUIESCENT } else { 0 };
    let tell_bit = |tell| if tell { TELL } else { 0 };
    match body {
        SyncMessage::Lock(LockMessage::Request { tell }) => {
            Words { flags: tell_bit(tell), ..plain(20) }
        }
        SyncMessage::Lock(LockMessage::Recall { to, tell }) => {
            Words { flags: tell_bit(tell), thread: to.0.into(), ..plain(21) }
        }
        SyncMessage::Lock(LockMessage::Probe) => plain(35),
        SyncMessage::Lock(LockMessage::Busy) => plain(36),
        SyncMessage::Lock(LockMessage::Grant) => plain(22),
        SyncMessage::Lock(LockMessage::Offer) => plain(34),
        SyncMessage::Barrier(BarrierMessage::Arrive { arrivals, total, quiescent }) => {
            Words { thread: arrivals, value: total.into(), extra: quiescent.into(), ..plain(23) }
        }
        SyncMessage::Barrier(BarrierMessage::Release { arrivals, quiescent }) => {
            Words { flags: quiescent_bit(quiescent), thread: arrivals, ..plain(24) }
        }
        SyncMessage::Barrier(BarrierMessage::Combine { arrivals, total, quiescent }) => Words {
            flags: quiescent_bit(quiescent),
            thread: arrivals,
            value: total.into(),
            ..plain(60)
        },
        SyncMessage::Barrier(BarrierMessage::Open { arrivals, quiescent }) => {
            Words { flags: quiescent_bit(quiescent), thread: arrivals, ..plain(61) }
        }
        SyncMessage::Barrier(BarrierMessage::Retract) => plain(32),
        SyncMessage::Barrier(BarrierMessage::Retracted) => plain(33),
        SyncMessage::Semaphore(SemaphoreMessage::Request { thread }) => of(25, thread),
        SyncMessage::Semaphore(SemaphoreMessage::Grant { thread }) => of(26, thread),
        SyncMessage::Semaphore(SemaphoreMessage::Try { thread }) => of(37, thread),
        SyncMessage::Semaphore(SemaphoreMessage::Withdraw { thread }) => of(38, thread),
        SyncMessage::Semaphore(SemaphoreMessage::Refused { thread }) => of(39, thread),
        SyncMessage::Semaphore(SemaphoreMessage::Post { count }) => {
            Words { thread: count, ..plain(27) }
        }
        SyncMessage::Condition(ConditionMessage::Enqueue { thread }) => of(28, thread),
        SyncMessage::Condition(ConditionMessage::Queued { thread }) => of(29, thread),
        SyncMessage::Condition(ConditionMessage::Signal { all }) => {
            Words { flags: if all { ALL } else { 0 }, ..plain(30) }
        }
        SyncMessage::Condition(ConditionMessage::Wake { thread }) => of(31, thread),
        SyncMessage::Condition(ConditionMessage::Withdraw { thread }) => of(12, thread),
        SyncMessage::Condition(ConditionMessage::Refused { thread }) => of(13, thread),
        SyncMessage::ReadWrite(body) => read_write_words(body),
    }
}

fn read_write_words(body: ReadWriteMessage) -> Words {
    let of = |kind, ThreadId(thread)| Words { kind, thread, ..Words::default() };
    let bit = |kind| if kind == Kind::Write { WRITE } else { 0 };
    match body {
        ReadWriteMessage::Request { thread, kind } => Words { flags: bit(kind), ..of(14, thread) },
        ReadWriteMessage::Grant { thread } => of(15, thread),
        ReadWriteMessage::Try { thread, kind } => Words { flags: bit(kind), ..of(16, thread) },
        ReadWriteMessage::Refused { thread } => of(17, thread),
        ReadWriteMessage::Release { kind } => Words { flags: bit(kind), ..of(18, ThreadId(0)) },
    }
}

/// MGS's messages and their numbers.
const MGS: [(MgsMessage, u8); 14] = [
    (MgsMessage::ReadRequest, 40),
    (MgsMessage::WriteRequest, 41),
    (MgsMessage::Release, 42),
    (MgsMessage::WriteNotify, 43),
    (MgsMessage::Ack, 44),
    (MgsMessage::Diff, 45),
    (MgsMessage::SingleWriterData, 46),
    (MgsMessage::SingleWriterAck, 47),
    (MgsMessage::ReadData, 48),
    (MgsMessage::WriteData, 49),
    (MgsMessage::ReleaseAck, 50),
    (MgsMessage::Invalidate, 51),
    (MgsMessage::SingleWriterInvalidate, 52),
    (MgsMessage::SingleWriterGrant, 53),
];

fn mgs_message(kind: u8) -> Option<MgsMessage> {
    MGS.iter().find(|(_, number)| *number == kind).map(|(message, _)| *message)
}

fn mgs_words(body: MgsMessage) -> Words {
    let kind = MGS.iter().find(|(message, _)| *message == body).map_or(0, |(_, number)| *number);
    Words { kind, ..Words::default() }
}

fn hlrc_message(words: &Words) -> Result<HlrcMessage, WireError> {
    Ok(match words.kind {
        54 => HlrcMessage::Fetch {
            requester: node(words)?,
            epoch: words.value,
            waits: words.flags & WAITS != 0,
        },
        55 => HlrcMessage::Data,
        56 => HlrcMessage::FirstTouch,
        57 => {
            let (flush, epoch) = (words.value, words.extra);
            HlrcMessage::Diff { writer: node(words)?, flush, epoch }
        }
        58 => match words.thread {
            0 => {
                return Err(WireError::Field { kind: words.kind, field: "count", value: 0 });
            }
            count => HlrcMessage::DiffAck { flush: words.value, count },
        },
        59 => HlrcMessage::HomeTransfer,
        unknown => return Err(WireError::Kind(unknown)),
    })
}

fn hlrc_words(body: HlrcMessage) -> Words {
    let plain = |kind| Words { kind, ..Words::default() };
    match body {
        HlrcMessage::Fetch { requester, epoch, waits } => {
            let flags = if waits { WAITS } else { 0 };
            Words { flags, thread: requester.0.into(), value: epoch, ..plain(54) }
        }
        HlrcMessage::Data => plain(55),
        HlrcMessage::FirstTouch => plain(56),
        HlrcMessage::Diff { writer, flush, epoch } => {
            Words { thread: writer.0.into(), value: flush, extra: epoch, ..plain(57) }
        }
        HlrcMessage::DiffAck { flush, count } => Words { thread: count, value: flush, ..plain(58) },
        HlrcMessage::HomeTransfer => plain(59),
    }
}

fn attach(words: &Words) -> Attach {
    if words.flags & PAGE == 0 { Attach::Nothing } else { Attach::Page }
}

fn node(words: &Words) -> Result<NodeId, WireError> {
    u16::try_from(words.thread).map(NodeId).map_err(|_| WireError::Field {
        kind: words.kind,
        field: "node",
        value: words.thread.into(),
    })
}

fn below(words: &Words) -> Result<Ranks, WireError> {
    let ranks = u16::try_from(words.thread).ok().and_then(|word| Ranks::new(word, words.value));
    ranks.ok_or(WireError::Field { kind: words.kind, field: "ranks", value: words.thread.into() })
}

fn turns(words: &Words) -> Result<Turns, WireError> {
    let count = narrow(words, "turns", words.value & 0xffff)?;
    Ok(Turns { count, longest_us: narrow(words, "turns", words.value >> 16)? })
}

/// In one field, for these messages go in runs.
fn of_turns(turns: Turns) -> u64 {
    u64::from(turns.longest_us) << 16 | u64::from(turns.count)
}

fn total(words: &Words) -> Result<u32, WireError> {
    narrow(words, "total", words.value)
}

fn narrow<T: TryFrom<u64>>(words: &Words, field: &'static str, value: u64) -> Result<T, WireError> {
    T::try_from(value).map_err(|_| WireError::Field { kind: words.kind, field, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_that_decodes_encodes_to_itself() {
        let mut known = 0;
        for kind in 0..=u8::MAX {
            for flags in 0..8 {
                for (thread, value, extra) in [(0, 0, 0), (7, 7, 0), (0, 7 << 32, 7 << 32)] {
                    let words = Words { kind, flags, thread, subject: 9, value, extra };
                    if let Ok(message) = Message::from_words(&words) {
                        assert_eq!(message.to_words(), words);
                        known += 1;
                    }
                }
            }
        }
        assert!(known >= 60, "only {known} spellings decode");
    }

    #[test]
    fn a_message_that_goes_in_runs_leaves_room_for_their_length() {
        let turns = Turns { count: 3, longest_us: u32::MAX };
        let (kind, requester, attach) = (Kind::Write, NodeId(2), Attach::Page);
        let forward = PageMessage::Forward { kind, requester, ack_now: true, turns };
        let reply = PageMessage::Reply { kind, attach, ack_now: true, turns };
        for body in [forward, reply, PageMessage::Ack { turn_us: u32::MAX }] {
            let message = body.about(MinipageId(9));
            let words = message.to_words();
            assert!(!message.goes_in_runs() || words.extra == 0, "{words:?}");
            assert_eq!(Message::from_words(&words), Ok(message));
        }
    }

    #[test]
    fn a_diff_keeps_its_flush_apart_from_its_epoch() {
        for (flush, epoch) in [(1, 0), (0, 1), (u64::MAX, 7), (7, u64::MAX)] {
            let message =
                HlrcMessage::Diff { writer: NodeId(3), flush, epoch }.about(MinipageId(9));
            assert_eq!(Message::from_words(&message.to_words()), Ok(message));
        }
    }

    #[test]
    fn an_acknowledgement_counts_diffs_of_its_flush() {
        let ack = |flush, count| HlrcMessage::DiffAck { flush, count }.about(MinipageId(9));
        for (flush, count) in [(1, 1), (0, u32::MAX), (u64::MAX, 1)] {
            let message = ack(flush, count);
            assert_eq!(Message::from_words(&message.to_words()), Ok(message));
        }
        let nothing = ack(3, 0).to_words();
        let refused = Message::from_words(&nothing);
        assert!(matches!(refused, Err(WireError::Field { field: "count", .. })));
    }

    #[test]
    fn unknown_numbers_and_wide_ranks_are_refused() {
        assert_eq!(Message::from_words(&Words::default()), Err(WireError::Kind(0)));
        let wide = Words { kind: 20, subject: u64::MAX, ..Words::default() };
        let request = LockMessage::Request { tell: false }.about(u64::MAX);
        assert_eq!(Message::from_words(&wide), Ok(request), "an id may be an address");
        let rank = Words { kind: 4, thread: 70_000, ..Words::default() };
        assert!(matches!(Message::from_words(&rank), Err(WireError::Field { field: "node", .. })));
    }
}
