//! Which frame goes now, which is deferred, and with what it goes then.
//!
//! Role: every rule about that is here. WHICH message is deferred or batched is decided above
//! (`multigrain_protocol::send_timing`). What is here, in the order in which it leaves:
//! - the *queue*: what the link has not taken yet, payloads still by reference;
//! - *deferred* frames: up to eight headers, only while the queue and the batch are empty;
//! - the *batch*: frames that travel as one message, up to 64 KiB and a last one, or 128 frames.
//!
//! | call             | nothing is here      | deferred frames      | a batch                   | a full batch   | a queue            |
//! |------------------|----------------------|----------------------|---------------------------|----------------|--------------------|
//! | `send` to 4 KiB  | goes now             | now, behind them (1) | joins; the batch goes now | that goes (2)  | joins the queue    |
//! | `send`, longer   | goes now             | now, behind them (1) | the batch, then the frame | the same       | joins the queue    |
//! | `defer`          | becomes deferred     | joins; the 9th: send | joins                     | that goes (2)  | joins the queue    |
//! | `defer_with`     | begins a batch       | begins a batch (1)   | joins                     | that goes (2)  | begins a batch     |
//! | `defer_or_merge` | begins a batch       | begins a batch (1)   | merged into its last frame, if `merge` says so; or joins | as left (2) | begins a batch |
//! | `flush_deferred` | nothing              | they go now          | goes now                  | the same       | batch joins queue  |
//! | `flush`          | nothing              | nothing              | nothing                   | nothing        | goes as far as it fits |
//!
//! (1) In one message, one system call. (2) It goes now, says that more follows, and the frame begins the
//! next one. With a queue, a batch stays behind it, and what `goes now` is its end.
//! An outbox that is told a length of parts sends longer payloads by `stop_and_wait`: through the queue, behind all else.
//! Only then there are `take_part` (an acknowledgement: deferred frames join the queue, and it passes the parts that wait;
//! none follows a goodbye), `part_taken` and `parts_are_free` (parts may go, and the queue as far as it fits). A frame of the
//! transport's own (`send_own`) goes as `send` does.
//!
//! Invariants: frames leave in the order of the calls, but that one may stand for two. Nothing here waits
//! or locks: the caller has the lock of the peer, and watches for room while there is a queue.
#![expect(unsafe_code, reason = "payloads are sent from raw memory")]

use super::batch::{Batch, MAX_JOINING, MORE_FOLLOWS};
use super::deferred::{Deferred, MAX_DEFERRED};
use super::payload::Payload;
use super::queue::{AT_ONCE, Cause, Queue};
use super::stop_and_wait;
use crate::counters::Tally;
use crate::frame_header::Header;
use crate::link::Link;
use crate::reply_bound::ReplyBound;
use crate::span::{self, Span};
use core::num::NonZeroUsize;
use rustix::io::Errno;

/// A payload up to so many bytes is cheaper copied next to its header than gathered.
const SMALL: usize = 96;

/// Where an outbox sends to, and who counts it.
#[derive(Clone, Copy)]
pub(crate) struct Port<'a> {
    /// None so far: all that is sent waits for it in the queue.
    pub(crate) link: Option<&'a dyn Link>,
    pub(crate) tally: &'a Tally,
    pub(crate) replies: &'a ReplyBound,
}

/// What is to be sent to one peer. An error of any call is the link's, which sends no more.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Queue,
    deferred: Deferred,
    batch: Batch,
    /// Bytes of the batch's members that are answers.
    batched_answers: usize,
    /// Longer payloads go in parts of so many bytes, each acknowledged before the next.
    part: Option<NonZeroUsize>,
}

impl Outbox {
    pub(crate) fn new(part: Option<NonZeroUsize>) -> Self {
        Self {
            queue: Queue::new(),
            deferred: Deferred::EMPTY,
            batch: Batch::default(),
            batched_answers: 0,
            part,
        }
    }

    /// There is a queue.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.queue.is_empty()
    }

    /// There is one, and some of it may leave as soon as the link has room.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.queue.is_ready()
    }

    /// How long the parts are of a payload of so many bytes, if it goes in parts.
    fn part_of(&self, payload: usize) -> Option<usize> {
        self.part.map(NonZeroUsize::get).filter(|&part| payload > part)
    }

    /// Sends a frame, or queues what is left of it.
    ///
    /// # Safety
    /// A [`Payload::Memory`] is readable and stays unchanged until the link has sent it.
    pub(crate) unsafe fn send(
        &mut self,
        header: &Header,
        payload: Payload<'_>,
        port: Port<'_>,
    ) -> Result<(), Errno> {
        let span = payload.span();
        let joins = span.len() <= MAX_JOINING && self.part_of(span.len()).is_none();
        if !self.batch.is_empty() && joins {
            // SAFETY: the payload is readable, and not in the batch.
            let fill = |out: &mut Vec<u8>| unsafe { span::append(span, out) };
            self.join(*header, fill, port)?;
            return self.push_batch(0, port);
        }
        // Before it can be received: who adds up what all nodes sent and received counts on it.
        port.tally.sent(Header::BYTES + span.len());
        self.push(&header.encode(), payload, port)
    }

    /// A frame of the transport's own, behind all else. It does not count.
    pub(crate) fn send_own(&mut self, header: &Header, port: Port<'_>) -> Result<(), Errno> {
        self.push(&header.encode(), Payload::None, port)
    }

    /// A part of the peer's is here: that goes before the parts of this node's own. So there is a queue, behind which
    /// nothing is deferred.
    pub(crate) fn take_part(&mut self, from: u16, port: Port<'_>) -> Result<(), Errno> {
        self.queue.push(self.deferred.as_slice(), Payload::None, cause(port));
        self.deferred.clear();
        self.queue.push_before_parts(stop_and_wait::taken(from).encode(), cause(port));
        self.flush(port)
    }

    /// The peer has taken a part, and the next may go; false if it had none to take.
    pub(crate) fn part_taken(&mut self, port: Port<'_>) -> Result<bool, Errno> {
        let was_due = self.queue.part_taken();
        self.flush(port)?;
        Ok(was_due)
    }

    /// The peer has left, and acknowledges no parts any more.
    pub(crate) fn parts_are_free(&mut self, port: Port<'_>) -> Result<(), Errno> {
        self.queue.parts_are_free();
        self.flush(port)
    }

    /// A frame without payload for which nobody waits.
    pub(crate) fn defer(&mut self, header: &Header, port: Port<'_>) -> Result<(), Errno> {
        if !self.batch.is_empty() {
            self.join(*header, |_| {}, port)?;
            return Ok(());
        }
        port.tally.sent(Header::BYTES);
        if self.has_backlog() || self.deferred.is_full() {
            return self.push(&header.encode(), Payload::None, port);
        }
        self.deferred.push(&header.encode());
        Ok(())
    }

    /// A frame whose payload `fill` appends, in one message with what is deferred after it; returns the
    /// payload's length.
    pub(crate) fn defer_with(
        &mut self,
        header: Header,
        fill: impl FnOnce(&mut Vec<u8>),
        port: Port<'_>,
    ) -> Result<u64, Errno> {
        Ok(self.join(header, fill, port)? as u64)
    }

    /// [`Outbox::defer_with`] without payload, unless the last frame of the batch can stand for both.
    pub(crate) fn defer_or_merge(
        &mut self,
        header: Header,
        merge: impl FnOnce(&Header) -> Option<Header>,
        port: Port<'_>,
    ) -> Result<(), Errno> {
        if !self.batch.merge_last(merge) {
            self.join(header, |_| {}, port)?;
        }
        Ok(())
    }

    /// What was deferred goes, if it has not gone with something else.
    pub(crate) fn flush_deferred(&mut self, port: Port<'_>) -> Result<(), Errno> {
        if !self.batch.is_empty() {
            self.push_batch(0, port)
        } else if !self.deferred.is_empty() {
            self.push_deferred(Payload::None, port)
        } else {
            Ok(())
        }
    }

    /// Sends from the queue what fits now.
    pub(crate) fn flush(&mut self, port: Port<'_>) -> Result<(), Errno> {
        while self.waits_for_room() {
            let mut spans = [Span::EMPTY; AT_ONCE];
            let asked = self.queue.gather(&mut spans);
            // SAFETY: headers and owned pieces live in the queue, which the caller has locked; raw
            // pieces are vouched for by the caller of send until they are sent.
            let taken = unsafe { send_spans(port.link, &mut spans) }?;
            self.queue.advance(taken);
            port.tally.flushed(taken);
            self.weigh(port);
            if taken < asked {
                break;
            }
        }
        Ok(())
    }

    /// Nothing can be sent any more.
    pub(crate) fn clear(&mut self, port: Port<'_>) {
        self.queue.clear();
        self.batch.clear();
        self.batched_answers = 0;
        self.deferred.clear();
        self.weigh(port);
    }

    /// One more frame of the batch, which is begun behind the deferred frames if there is none, or anew
    /// if it is full; returns the payload's length.
    fn join(
        &mut self,
        header: Header,
        fill: impl FnOnce(&mut Vec<u8>),
        port: Port<'_>,
    ) -> Result<usize, Errno> {
        if self.batch.is_full() {
            // The promise is kept by this frame, which whoever deferred it flushes.
            self.push_batch(MORE_FOLLOWS, port)?;
        }
        if self.batch.is_empty() {
            self.batch.follow(self.deferred.as_slice());
            self.deferred.clear();
        }
        let payload = self.batch.add(header, fill);
        let bytes = Header::BYTES + payload;
        if port.replies.answers_now() {
            self.batched_answers += bytes;
        }
        match self.batch.members() {
            1 => port.tally.sent(bytes),
            // Only now it has a header of its own.
            2 => port.tally.batched(2, Header::BYTES + bytes),
            _ => port.tally.batched(1, bytes),
        }
        Ok(payload)
    }

    /// Sends the batch, or makes it the end of the queue. `flags` are 0 or [`MORE_FOLLOWS`].
    fn push_batch(&mut self, flags: u8, port: Port<'_>) -> Result<(), Errno> {
        let answers = core::mem::take(&mut self.batched_answers);
        let waits = self.has_backlog();
        let (bytes, start) = self.batch.seal(flags);
        let taken = if waits { 0 } else { send_bytes(port.link, &bytes[start..])? };
        if start + taken == self.batch.len() {
            self.batch.clear();
            return Ok(());
        }
        let room = self.queue.take_spare();
        let mut bytes = self.batch.take(room);
        if waits {
            bytes.drain(..start);
        }
        self.queue.push_bytes(bytes, answers);
        if !waits {
            self.queue.advance(start + taken);
        }
        port.tally.queued();
        self.weigh(port);
        // Bulk that is made faster than it is received: the link is not to run dry meanwhile.
        if waits { self.flush(port) } else { Ok(()) }
    }

    /// A frame behind everything else, for itself.
    fn push(
        &mut self,
        header: &[u8; Header::BYTES],
        payload: Payload<'_>,
        port: Port<'_>,
    ) -> Result<(), Errno> {
        if !self.batch.is_empty() {
            self.push_batch(0, port)?;
        }
        if let Some(part) = self.part_of(payload.span().len()) {
            self.queue.push(self.deferred.as_slice(), Payload::None, cause(port));
            self.deferred.clear();
            stop_and_wait::queue(&mut self.queue, header, payload, part, cause(port));
            self.weigh(port);
            return self.flush(port);
        }
        if self.has_backlog() {
            self.queue.push(header, payload, cause(port));
            port.tally.queued();
            self.weigh(port);
            return Ok(());
        }
        self.deferred.push(header);
        self.push_deferred(payload, port)
    }

    /// Sends the headers that are together now, and the payload of the last. The queue is empty.
    fn push_deferred(&mut self, payload: Payload<'_>, port: Port<'_>) -> Result<(), Errno> {
        let whole = self.deferred.as_slice().len() + payload.span().len();
        // SAFETY: the payload is vouched for by the caller of send.
        let taken = unsafe { send_frame(port.link, self.deferred.as_slice(), payload.span()) }?;
        if taken < whole {
            self.queue.push(self.deferred.as_slice(), payload, cause(port));
            self.queue.advance(taken);
            port.tally.queued();
            self.weigh(port);
        }
        self.deferred.clear();
        Ok(())
    }

    fn weigh(&self, port: Port<'_>) {
        port.replies.weigh(self.queue.bytes(), self.queue.answers());
    }
}

/// Why what this thread sends now is sent.
fn cause(port: Port<'_>) -> Cause {
    if port.replies.answers_now() { Cause::Answer } else { Cause::Unsolicited }
}

/// [`Link::send`], of a link that there may not be yet.
///
/// # Safety
/// As there.
unsafe fn send_spans(link: Option<&dyn Link>, spans: &mut [Span]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise is the one asked for.
    link.map_or(Ok(0), |link| unsafe { link.send(spans) })
}

fn send_bytes(link: Option<&dyn Link>, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the span is a reference.
    unsafe { send_spans(link, &mut [Span::of(bytes)]) }
}

/// Headers in a row and the payload of the last, in one system call.
///
/// # Safety
/// `payload` is readable.
unsafe fn send_frame(link: Option<&dyn Link>, head: &[u8], payload: Span) -> Result<usize, Errno> {
    if payload.len() == 0 {
        return send_bytes(link, head);
    }
    if payload.len() > SMALL {
        // SAFETY: `head` is a reference, and the payload is the caller's.
        return unsafe { send_spans(link, &mut [Span::of(head), payload]) };
    }
    let mut frame = [0; (MAX_DEFERRED + 1) * Header::BYTES + SMALL];
    let whole = head.len() + payload.len();
    frame[..head.len()].copy_from_slice(head);
    // SAFETY: the payload is readable, and does not overlap this array.
    unsafe { span::copy_from(payload.start(), &mut frame[head.len()..whole]) };
    send_bytes(link, &frame[..whole])
}
