//! When a message goes: now, with the next frame, in a batch, or merged into the batch's last frame.
//!
//! Role: the rules, as one pure table, which the runtime, the sequential model checker and the simulator ask. Not asked
//! are sequentially consistent messages that somebody waits for (requests, contents, invalidations), which go now, and
//! what the runtime has gathered by itself (runs, diffs of a flush, notices, operands: `runtime/engine/world`). The
//! world of release consistency (`verify::release`) delivers messages one by one, since batches change no order; so
//! acknowledgements are merged in the runtime alone. The caller says whether somebody waits for the message; for a
//! sequentially consistent ack `coherence/holder/grant.rs` does (`AckTiming`). How frames then wait is up to the
//! transport (its `outbox`), which also keeps the order: a deferred frame goes before what follows it to the same node.
//!
//! | message                                          | goes                                           |
//! |--------------------------------------------------|------------------------------------------------|
//! | sequentially consistent or of synchronization    | now                                            |
//! | its ack, and nobody waits for it (ADR 3)         | deferred, to go with the next frame            |
//! | release consistent, and nobody waits for it      | in a batch                                     |
//! | acknowledgement of a diff, and nobody waits      | merged into one of the same flush (ADR 13); or in a batch |
//! | with a diff                                      | in a batch: a flush has many                   |
//! | lazily consistent page of up to 2 KiB            | in a batch, unless 1 MiB waits for that node   |
//! | such pages of up to 16 KiB, and nobody waits     | likewise                                       |
//! | lazily consistent request of a batching step     | in a batch, with the step's others (ADR 12)    |
//! | any other                                        | now                                            |
//!
//! Messages of one step about neighbouring minipages that are alike are one frame, before this table sees it (ADR 35).
//!
//! What was deferred or batched leaves with the next frame to the same node (the outbox sees to that), and at the latest
//! when one of these lets all of it go (`Mesh::flush_deferred`), or a look for deadlocks does (`runtime/deadlock/mod.rs`). A step after which its thread will
//! wait, receive, or send soon lets nothing go by itself: its acks would travel alone.
//!
//! | when                                                                  | who                            |
//! |-----------------------------------------------------------------------|--------------------------------|
//! | a thread goes on behind a step: it gave a lock back, or has at once what it asked for (not behind a post or a signal) | `runtime/driver/steps.rs` (`tell`, `ask`) |
//! | the last of the steps whose requests go together is made              | the same (`batch`)             |
//! | a thread that waits begins to receive                                 | `runtime/receiver/wait.rs`     |
//! | the last diff of a flush is made                                      | [`crate::ReleaseWorld::send_batched`] |
//! | something was received, and no more follows at once; before a sleep   | `transport/mesh/receive.rs`    |

use multigrain_types::MinipageId;

use crate::message::{Attach, HlrcMessage, Message};

/// Pages of at most so many bytes are copied to go together: a page's worth of small minipages is one
/// message.
pub const MAX_BATCHED_PAGE: usize = 2048;

/// The same of pages that nobody waits for yet.
pub const MAX_BATCHED_AHEAD: usize = 16 << 10;

/// While more bytes wait for a node, pages to it are not copied.
pub const MAX_BATCHED_BACKLOG: usize = 1 << 20;

/// What the table looks at beside the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SendContext {
    /// Nobody waits for it ([`crate::Effect::SendDeferred`]).
    pub later: bool,
    /// The step is one of several whose requests go together; they leave when the last is made.
    pub batching: bool,
    /// Bytes of the page that goes with it.
    pub page_bytes: usize,
    /// Bytes that wait for the receiver already.
    pub backlog_bytes: usize,
}

/// When a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTiming {
    /// At once, with all that waits for that node before it.
    Now,
    /// With the next frame to that node, or when this node has answered what it received.
    Defer,
    /// As [`SendTiming::Defer`], in one message with others.
    Batch,
    /// Not at all: the last frame of the batch becomes this message, and stands for both.
    Merge(Message),
}

/// When `message` goes. `last` is the last of the batch for that node, if it is known;
/// `counts_by_flush` says whether acknowledgements of a minipage's diffs are counted by flush, which they
/// are not under dynamic homes (ADR 11).
#[must_use]
#[inline]
pub fn send_timing(
    message: Message,
    context: SendContext,
    last: Option<Message>,
    counts_by_flush: impl Fn(MinipageId) -> bool,
) -> SendTiming {
    match (message, message.attach()) {
        (Message::Hlrc { .. } | Message::Mgs { .. }, Attach::Diff) => SendTiming::Batch,
        (Message::Hlrc { .. }, Attach::Page) => {
            let most = if context.later { MAX_BATCHED_AHEAD } else { MAX_BATCHED_PAGE };
            let small = context.page_bytes <= most;
            if small && context.backlog_bytes <= MAX_BATCHED_BACKLOG {
                SendTiming::Batch
            } else {
                SendTiming::Now
            }
        }
        (Message::Hlrc { .. }, _) if context.later => {
            let merged = last.and_then(|last| merged(last, message, counts_by_flush));
            merged.map_or(SendTiming::Batch, SendTiming::Merge)
        }
        (Message::Hlrc { body: HlrcMessage::Fetch { .. }, .. }, _) if context.batching => {
            SendTiming::Batch
        }
        (_, Attach::Nothing) if context.later => SendTiming::Defer,
        (
            Message::Page { .. }
            | Message::Mgs { .. }
            | Message::Hlrc { .. }
            | Message::Sync { .. },
            _,
        ) => SendTiming::Now,
    }
}

/// One acknowledgement for two, of diffs of one flush.
#[inline]
fn merged(
    last: Message,
    message: Message,
    counts_by_flush: impl Fn(MinipageId) -> bool,
) -> Option<Message> {
    use HlrcMessage::DiffAck;
    let (
        Message::Hlrc { minipage, body: DiffAck { flush, count } },
        Message::Hlrc { minipage: other, body: DiffAck { flush: same, count: more } },
    ) = (last, message)
    else {
        return None;
    };
    if flush != same || !counts_by_flush(minipage) || !counts_by_flush(other) {
        return None;
    }
    let count = count.checked_add(more)?;
    Some(DiffAck { flush, count }.about(minipage))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{BarrierMessage, Kind, LockMessage, MgsMessage, PageMessage, Turns};
    use multigrain_types::NodeId;

    const PAGE: MinipageId = MinipageId(9);
    const LATER: SendContext =
        SendContext { later: true, batching: false, page_bytes: 0, backlog_bytes: 0 };

    fn goes(message: Message, context: SendContext) -> SendTiming {
        send_timing(message, context, None, |_| true)
    }

    fn ack(minipage: u64, flush: u64, count: u32) -> Message {
        HlrcMessage::DiffAck { flush, count }.about(MinipageId(minipage))
    }

    #[test]
    fn what_somebody_waits_for_goes_now() {
        let kind = Kind::Write;
        let reply =
            PageMessage::Reply { kind, attach: Attach::Page, ack_now: false, turns: Turns::NONE };
        let messages = [
            PageMessage::Request { kind }.about(PAGE),
            reply.about(PAGE),
            PageMessage::Ack { turn_us: 0 }.about(PAGE),
            LockMessage::Grant.about(3),
            BarrierMessage::Release { arrivals: 1, quiescent: false }.about(3),
            MgsMessage::ReadData.about(PAGE),
            ack(9, 1, 1),
        ];
        for message in messages {
            for batching in [false, true] {
                let context = SendContext { batching, page_bytes: 4096, ..SendContext::default() };
                assert_eq!(goes(message, context), SendTiming::Now, "{message:?}");
            }
        }
    }

    #[test]
    fn an_ack_that_nobody_waits_for_is_deferred() {
        assert_eq!(goes(PageMessage::Ack { turn_us: 0 }.about(PAGE), LATER), SendTiming::Defer);
    }

    #[test]
    fn a_page_is_never_deferred() {
        let push = PageMessage::PushReply.about(PAGE);
        assert_eq!(goes(push, LATER), SendTiming::Now);
    }

    #[test]
    fn diffs_go_in_batches() {
        let diff = HlrcMessage::Diff { writer: NodeId(1), flush: 2, epoch: 3 };
        for message in [diff.about(PAGE), MgsMessage::Diff.about(PAGE)] {
            assert_eq!(goes(message, SendContext::default()), SendTiming::Batch);
            assert_eq!(goes(message, LATER), SendTiming::Batch);
        }
    }

    #[test]
    fn a_small_lazily_consistent_page_goes_in_a_batch_unless_much_waits() {
        let rows = [
            (MAX_BATCHED_PAGE, 0, SendTiming::Batch),
            (MAX_BATCHED_PAGE, MAX_BATCHED_BACKLOG, SendTiming::Batch),
            (MAX_BATCHED_PAGE + 1, 0, SendTiming::Now),
            (1, MAX_BATCHED_BACKLOG + 1, SendTiming::Now),
        ];
        for (page_bytes, backlog_bytes, expected) in rows {
            let context = SendContext { page_bytes, backlog_bytes, ..SendContext::default() };
            for body in [HlrcMessage::Data, HlrcMessage::HomeTransfer] {
                assert_eq!(goes(body.about(PAGE), context), expected, "{context:?}");
            }
        }
        for (page_bytes, expected) in
            [(MAX_BATCHED_AHEAD, SendTiming::Batch), (MAX_BATCHED_AHEAD + 1, SendTiming::Now)]
        {
            let context = SendContext { page_bytes, ..LATER };
            assert_eq!(goes(HlrcMessage::Data.about(PAGE), context), expected, "{context:?}");
        }
    }

    #[test]
    fn only_lazily_consistent_requests_of_a_batching_step_are_batched() {
        let fetch = HlrcMessage::Fetch { requester: NodeId(1), epoch: 2, waits: false };
        let batching = SendContext { batching: true, ..SendContext::default() };
        assert_eq!(goes(fetch.about(PAGE), batching), SendTiming::Batch);
        assert_eq!(goes(fetch.about(PAGE), SendContext::default()), SendTiming::Now);
        assert_eq!(goes(HlrcMessage::FirstTouch.about(PAGE), batching), SendTiming::Now);
        assert_eq!(goes(MgsMessage::ReadRequest.about(PAGE), batching), SendTiming::Now);
    }

    #[test]
    fn acknowledgements_of_one_flush_are_merged() {
        let with = |last| send_timing(ack(9, 5, 2), LATER, Some(last), |_| true);
        assert_eq!(with(ack(7, 5, 3)), SendTiming::Merge(ack(7, 5, 5)));
        assert_eq!(goes(ack(9, 5, 2), LATER), SendTiming::Batch, "there is no last one");
        for last in [ack(7, 4, 3), ack(7, 5, u32::MAX), PageMessage::Ack { turn_us: 0 }.about(PAGE)]
        {
            assert_eq!(with(last), SendTiming::Batch, "{last:?}");
        }
        let now = send_timing(ack(9, 5, 2), SendContext::default(), Some(ack(7, 5, 3)), |_| true);
        assert_eq!(now, SendTiming::Now);
    }

    #[test]
    fn acknowledgements_that_each_minipage_counts_are_not_merged() {
        for counted in [7, 9] {
            let by_flush = |minipage: MinipageId| minipage.0 != counted;
            let departs = send_timing(ack(9, 5, 2), LATER, Some(ack(7, 5, 3)), by_flush);
            assert_eq!(departs, SendTiming::Batch);
        }
    }
}
