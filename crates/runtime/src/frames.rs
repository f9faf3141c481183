//! Frames of this crate: the protocol's messages in the transport's headers (neither crate knows the other), and
//! the runtime's own kinds.

use multigrain_protocol::{Attach, Message, Words};
use multigrain_transport::Header;
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
    let first = Words { extra: 0, ..words };
    let of_run = Message::from_words(&first).ok().filter(Message::goes_in_runs);
    let (message, behind) = match of_run {
        Some(message) => (message, words.extra),
        None => (Message::from_words(&words).map_err(|error| error.to_string())?, 0),
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

/// Numbers of the runtime's own frames, above those of the protocol.
pub(crate) mod kind {
    /// To node 0: make an area of the shape in the body.
    pub(crate) const AREA_REQUEST: u8 = 64;
    /// From node 0 to all: the area in the body exists now.
    pub(crate) const AREA_ANNOUNCE: u8 = 65;
    /// To node 0: `subject` is mapped here, or retired; `value` is an error code or 0.
    pub(crate) const AREA_MAPPED: u8 = 66;
    /// To an area's owner: free the allocation at `subject`.
    pub(crate) const FREE: u8 = 67;
    /// To node 0: the name in the body is the address `subject`.
    pub(crate) const PUBLISH: u8 = 68;
    /// To node 0: wait for the name in the body.
    pub(crate) const LOOKUP: u8 = 69;
    /// Start a thread: `subject` is the function, `value` its argument; attributes, if any, in the body.
    pub(crate) const THREAD_START: u8 = 70;
    /// Wait for the end of thread `subject`.
    pub(crate) const THREAD_JOIN: u8 = 71;
    /// Nobody will wait for the end of thread `subject`.
    pub(crate) const THREAD_DETACH: u8 = 77;
    /// What the sender knows of lazily consistent writes; no answer.
    pub(crate) const WRITE_NOTICES: u8 = 73;
    /// To node 0: nothing of area `subject` is allocated any more; take it away from all nodes.
    pub(crate) const AREA_RETURN: u8 = 78;
    /// From node 0 to all: area `subject` is no more; answered with `AREA_MAPPED`.
    pub(crate) const AREA_RETIRE: u8 = 79;
    /// What the message that follows, of collective operation `subject`, brings or takes; no answer.
    pub(crate) const OPERAND: u8 = 80;
    /// To node 0: the name in the body is that of a segment that the sender is about to make.
    pub(crate) const SEGMENT_NAME: u8 = 81;
    /// To node 0: it is made, or could not be; which, in the body.
    pub(crate) const SEGMENT_MADE: u8 = 82;
    /// To node 0: the segment of the name in the body; answered with what is known of it.
    pub(crate) const SEGMENT_FIND: u8 = 83;
    /// The same, when there is one.
    pub(crate) const SEGMENT_WAIT: u8 = 84;
    /// To node 0: what is known of segment `subject`.
    pub(crate) const SEGMENT_STAT: u8 = 85;
    /// To node 0: the sender is attached to segment `subject` once more.
    pub(crate) const SEGMENT_ATTACH: u8 = 86;
    /// The same, once less; answered with 1 if the segment goes: the sender frees it.
    pub(crate) const SEGMENT_DETACH: u8 = 87;
    /// To node 0: segment `subject` has no name any more; answered as the last.
    pub(crate) const SEGMENT_REMOVE: u8 = 88;
    /// To every node, node 0 first, which answers with its stamp: the window of some minipages of segment `subject`, in
    /// the body, of stamp `value`.
    pub(crate) const SEGMENT_SET: u8 = 89;
    /// The answer to any of the above: code in `subject` (as i32 bits), value in `value`, bytes in the body.
    pub(crate) const ANSWER: u8 = 72;
    /// With `--check-races`: the clock of the frame of kind `value` and of this thread that comes
    /// next; no answer.
    pub(crate) const RACE_CLOCK: u8 = 74;
    /// With `--check-races`, to the node that allocated minipage `subject`: what was written there in the
    /// sender's epoch `value`; no answer.
    pub(crate) const RACE_WRITES: u8 = 75;
    /// With `--check-races`: whether all that the sender has told of its writes was judged.
    pub(crate) const RACE_JUDGED: u8 = 76;
}

/// The thread that asked, so that the answer finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) node: NodeId,
    pub(crate) thread: ThreadId,
}

#[cfg(test)]
mod tests {
    use super::kind::*;

    /// As those of the protocol's messages, which `crates/protocol/tests/golden/wire_numbers.rs` has.
    #[test]
    fn every_frame_has_a_number_of_its_own_and_keeps_it() {
        let golden = [
            (AREA_REQUEST, 64),
            (AREA_ANNOUNCE, 65),
            (AREA_MAPPED, 66),
            (FREE, 67),
            (PUBLISH, 68),
            (LOOKUP, 69),
            (THREAD_START, 70),
            (THREAD_JOIN, 71),
            (ANSWER, 72),
            (WRITE_NOTICES, 73),
            (RACE_CLOCK, 74),
            (RACE_WRITES, 75),
            (RACE_JUDGED, 76),
            (THREAD_DETACH, 77),
            (AREA_RETURN, 78),
            (AREA_RETIRE, 79),
            (OPERAND, 80),
            (SEGMENT_NAME, 81),
            (SEGMENT_MADE, 82),
            (SEGMENT_FIND, 83),
            (SEGMENT_WAIT, 84),
            (SEGMENT_STAT, 85),
            (SEGMENT_ATTACH, 86),
            (SEGMENT_DETACH, 87),
            (SEGMENT_REMOVE, 88),
            (SEGMENT_SET, 89),
        ];
        assert!(golden.iter().all(|(kind, number)| kind == number), "{golden:?}");
        assert!(golden.is_sorted_by(|(one, _), (next, _)| one < next), "a number for each");
        let all = include_str!("frames.rs").lines();
        let named = all.filter(|line| line.starts_with("    pub(crate) const ")).count();
        assert_eq!(named, golden.len(), "a kind that is not in the list");
    }
}
