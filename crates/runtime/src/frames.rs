//! Frames of this crate: the protocol's messages in the transport's headers (neither crate knows the other), and
//! the runtime's own kinds.

use multigrain_protocol::{Attach, Message, Words};
use multigrain_transport::Header;
use multigrain_types::deadlock::BlockingCall;
use multigrain_types::{NodeId, ThreadId};

use crate::minipage_run::Run;

/// Flag of a frame with the contents of minipages of a named segment: they are compressed as that segment has it. The
/// protocol's messages have none of that value.
pub(crate) const COMPRESSED: u8 = 1 << 7;

/// The frame header that carries a message; the mesh adds sender and payload length.
pub(crate) fn header_of(message: Message) -> Header {
    let words = message.to_words();
    Header {
        kind: words.kind,
        flags: words.flags,
        from: 0,
        thread: words.thread,
        subject: words.subject,
        value: words.value,
        extra: words.extra,
        payload: 0,
    }
}

/// The frame header of a message that is the same about all minipages of a run: `extra`, which these messages
/// leave unused, says how many there are behind the first.
pub(crate) fn header_of_run(message: Message, run: Run) -> Header {
    let header = header_of(message.about(run.first()));
    if run.count() == 1 { header } else { Header { extra: u64::from(run.count() - 1), ..header } }
}

/// The message of a frame, and the minipages it is about if it is about any.
///
/// # Errors
/// What no node of this version sends, in words.
pub(crate) fn message_of(header: &Header) -> Result<(Message, Option<Run>), String> {
    let words = words_of(header);
    let words = Words { flags: words.flags & !COMPRESSED, ..words };
    // About more than one minipage only what leaves `extra` unused can be.
    let of_run = || {
        let first = Message::from_words(&Words { extra: 0, ..words }).ok();
        first.filter(Message::goes_in_runs).map(|message| (message, words.extra))
    };
    let (message, behind) = match Message::from_words(&words) {
        Ok(message) => (message, 0),
        Err(error) => of_run().ok_or_else(|| error.to_string())?,
    };
    if header.flags & COMPRESSED != 0 && message.attach() != Attach::Page {
        return Err(format!("{message:?}, which has no contents, compressed"));
    }
    let Some(first) = message.minipage() else { return Ok((message, None)) };
    let run = u32::try_from(behind).ok().and_then(|behind| Run::new(first, behind.checked_add(1)?));
    match run {
        Some(run) => Ok((message, Some(run))),
        None => Err(format!("{message:?} about {behind} minipages more")),
    }
}

/// What of a header is the message's.
pub(crate) fn words_of(header: &Header) -> Words {
    Words {
        kind: header.kind,
        flags: header.flags,
        thread: header.thread,
        subject: header.subject,
        value: header.value,
        extra: header.extra,
    }
}

/// Longest name for an address, bytes.
pub(crate) const MAX_NAME: usize = 63;

/// The first number of the runtime's own frames: those below are the protocol's.
pub(crate) const FIRST_OWN: u8 = 64;

/// Who may send a frame, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Any node, to any.
    Any,
    /// Any node, to node 0, which keeps the directories of areas, names and segments.
    ToFirst,
    /// Node 0, to any other, which learns of areas from it.
    FromFirst,
}

impl Direction {
    pub(crate) fn allows(self, from: NodeId, to: NodeId) -> bool {
        let first = NodeId(0);
        match self {
            Self::Any => true,
            Self::ToFirst => to == first,
            Self::FromFirst => to != first && from == first,
        }
    }
}

/// What the thread waits for that sent a frame: where its answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// There is no answer.
    Nothing,
    /// The node that was asked.
    Node,
    /// A thread of that node, when it ends.
    Thread,
    /// Whoever gives an address the name that is in the body.
    Name,
    /// Whoever creates a segment of the name that is in the body.
    Segment,
    /// The driver of that node, at once: that all has come which was sent before. It tells of no writes.
    Receipt,
}

impl Awaits {
    /// Whether a service answers it, now or later: the thread asks nothing else before.
    pub(crate) fn is_served(self) -> bool {
        match self {
            Self::Node | Self::Thread | Self::Name | Self::Segment => true,
            Self::Nothing | Self::Receipt => false,
        }
    }

    /// Where the program waits that asked about this subject; none where the node itself answers.
    pub(crate) fn place(self, subject: u64) -> Option<BlockingCall> {
        match self {
            Self::Thread => Some(BlockingCall::Join(subject)),
            Self::Name => Some(BlockingCall::Name),
            Self::Segment => Some(BlockingCall::Segment),
            Self::Nothing | Self::Node | Self::Receipt => None,
        }
    }
}

/// What is known of a kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRow {
    pub(crate) number: u8,
    pub(crate) direction: Direction,
    pub(crate) awaits: Awaits,
}

/// An enum of kinds, with what is known of each: `kind = number, direction, what its thread awaits`.
macro_rules! kinds {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $kind:ident = $number:literal, $direction:ident, $awaits:ident;)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name {
            $($(#[$doc])* $kind,)*
        }

        impl $name {
            /// The kind of that number.
            fn of(number: u8) -> Option<Self> {
                match number {
                    $($number => Some(Self::$kind),)*
                    _ => None,
                }
            }

            pub(crate) const fn row(self) -> FrameRow {
                match self {
                    $(Self::$kind => FrameRow { number: $number, direction: Direction::$direction, awaits: Awaits::$awaits },)*
                }
            }

            /// Its number in a header.
            pub(crate) const fn number(self) -> u8 {
                self.row().number
            }
        }
    };
}

kinds! {
    /// Frames for the services: a new kind is a row here and an arm in `job/services.rs`.
    Request {
        /// To node 0: make an area of the shape in the body.
        NewArea = 64, ToFirst, Node;
        /// From node 0 to all: the area in the body exists now.
        AreaAnnounce = 65, FromFirst, Nothing;
        /// To node 0: `subject` is mapped here, or retired; `value` is an error code or 0.
        AreaMapped = 66, ToFirst, Nothing;
        /// To an area's owner: free the allocation at `subject`.
        Free = 67, Any, Node;
        /// To node 0: the name in the body is the address `subject`.
        Publish = 68, ToFirst, Node;
        /// To node 0: wait for the name in the body.
        Lookup = 69, ToFirst, Name;
        /// Start a thread: `subject` is the function, `value` its argument; in the body the address of its code, the signal mask, and
        /// attributes if any.
        ThreadStart = 70, Any, Node;
        /// Wait for the end of thread `subject`.
        ThreadJoin = 71, Any, Thread;
        /// Nobody will wait for the end of thread `subject`.
        ThreadDetach = 77, Any, Node;
        /// To node 0: nothing of area `subject` is allocated any more; take it away from all nodes.
        AreaReturn = 78, ToFirst, Node;
        /// From node 0 to all: area `subject` is no more; answered with [`Request::AreaMapped`].
        AreaRetire = 79, FromFirst, Nothing;
        /// To a node: the sender finds no room; answered with areas of which nothing is allocated, which the sender returns.
        AreaSpare = 92, Any, Node;
        /// To node 0: the name in the body is that of a segment that the sender is about to make; answered when nobody else is.
        SegmentName = 81, ToFirst, Node;
        /// To node 0: it is made, or could not be; which, in the body.
        SegmentMade = 82, ToFirst, Node;
        /// To node 0: the segment of the name in the body; answered with what is known of it.
        SegmentFind = 83, ToFirst, Node;
        /// As `SegmentFind`, when there is one.
        SegmentWait = 84, ToFirst, Segment;
        /// To node 0: what is known of segment `subject`.
        SegmentStat = 85, ToFirst, Node;
        /// To node 0: the sender is attached to segment `subject` once more.
        SegmentAttach = 86, ToFirst, Node;
        /// As `SegmentAttach`, once less; answered with 1 if the segment goes: the sender frees it.
        SegmentDetach = 87, ToFirst, Node;
        /// To node 0: segment `subject` has no name any more; answered as the last.
        SegmentRemove = 88, ToFirst, Node;
        /// To every node, node 0 first, which answers with its stamp: the window of some minipages of segment `subject`, in
        /// the body, of stamp `value`.
        SegmentSet = 89, Any, Node;
        /// To the node above in the tree of the job: the sender is ready to leave, and all below it; answered when all nodes are.
        Departure = 90, Any, Node;
        /// To a site of System V programs: the message in the body, which sites alone read.
        SiteMessage = 93, Any, Nothing;
    }
}

kinds! {
    /// Frames that the driver takes itself: an arm in `driver/requests.rs` each.
    DriverFrame {
        /// The answer to a request: code in `subject` (as i32 bits), value in `value`, bytes in the body.
        Answer = 72, Any, Nothing;
        /// What the sender knows of lazily consistent writes; no answer.
        WriteNotices = 73, Any, Nothing;
        /// With `--check-races`: the clock of the frame of kind `value` and of this thread that comes
        /// next; no answer.
        RaceClock = 74, Any, Nothing;
        /// With `--check-races`, to the node that allocated minipage `subject`: what was written there in the
        /// sender's epoch `value`; no answer.
        RaceWrites = 75, Any, Nothing;
        /// With `--check-races`: whether all that the sender has told of its writes was judged.
        RaceJudged = 76, Any, Receipt;
        /// What the message that follows, of collective operation `subject`, brings or takes; no answer.
        Operand = 80, Any, Nothing;
        /// To the manager of the word at address `subject`: do the atomic operation in the body; answered with the value
        /// before, or with the code of "busy".
        Atomic = 91, Any, Node;
    }
}

/// A kind of the runtime's own frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnKind {
    Request(Request),
    Driver(DriverFrame),
}

impl OwnKind {
    /// The kind of that number.
    pub(crate) fn of(number: u8) -> Option<Self> {
        let request = Request::of(number).map(Self::Request);
        request.or_else(|| DriverFrame::of(number).map(Self::Driver))
    }

    pub(crate) fn row(self) -> FrameRow {
        match self {
            Self::Request(request) => request.row(),
            Self::Driver(frame) => frame.row(),
        }
    }
}

/// The thread that asked, so that the answer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) node: NodeId,
    pub(crate) thread: ThreadId,
}

/// What a node asks for with [`Request::Departure`]: the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Leave, for itself and all below it.
    Ready = 0,
    /// That nobody leaves before a thread has ended.
    Hold = 1,
    /// That thread has ended.
    Over = 2,
}

impl Leave {
    /// The node at the top of the tree, which lets all go.
    pub(crate) const TOP: NodeId = NodeId(0);
}

#[cfg(all(test, not(any(feature = "shuttle", feature = "loom"))))]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_one_kind_and_none_is_the_protocols() {
        for number in 0..=u8::MAX {
            let kinds = (Request::of(number), DriverFrame::of(number));
            assert!(kinds.0.is_none() || kinds.1.is_none(), "{kinds:?} have the same number");
            if let Some(kind) = OwnKind::of(number) {
                assert!(kind.row().number == number && number >= FIRST_OWN, "{kind:?}");
            }
        }
    }

    /// As those of the protocol's messages, which `crates/protocol/tests/golden/wire_numbers.rs` has.
    #[test]
    fn every_kind_keeps_its_number() {
        let golden = [
            "NewArea",
            "AreaAnnounce",
            "AreaMapped",
            "Free",
            "Publish",
            "Lookup",
            "ThreadStart",
            "ThreadJoin",
            "Answer",
            "WriteNotices",
            "RaceClock",
            "RaceWrites",
            "RaceJudged",
            "ThreadDetach",
            "AreaReturn",
            "AreaRetire",
            "Operand",
            "SegmentName",
            "SegmentMade",
            "SegmentFind",
            "SegmentWait",
            "SegmentStat",
            "SegmentAttach",
            "SegmentDetach",
            "SegmentRemove",
            "SegmentSet",
            "Departure",
            "Atomic",
            "AreaSpare",
            "SiteMessage",
        ];
        let name = |number| match OwnKind::of(number)? {
            OwnKind::Request(kind) => Some(format!("{kind:?}")),
            OwnKind::Driver(kind) => Some(format!("{kind:?}")),
        };
        let all: Vec<_> =
            (0..=u8::MAX).filter_map(|number| Some((number, name(number)?))).collect();
        let golden = (FIRST_OWN..).zip(golden.map(str::to_owned));
        assert!(golden.eq(all));
    }

    #[test]
    fn node_0_is_asked_for_areas_and_alone_announces_them() {
        let (first, second, third) = (NodeId(0), NodeId(1), NodeId(2));
        let allows = |request: Request, from, to| request.row().direction.allows(from, to);
        assert!(allows(Request::NewArea, second, first));
        assert!(!allows(Request::NewArea, second, third));
        assert!(allows(Request::AreaAnnounce, first, second));
        assert!(!allows(Request::AreaAnnounce, second, third));
        assert!(!allows(Request::AreaAnnounce, second, first));
        assert!(allows(Request::SegmentSet, second, third), "its window is kept by all");
    }
}
