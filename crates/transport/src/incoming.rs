//! The incoming half of a link: a stream of bytes, cut anywhere, into frames.
//!
//! Role: decides where the next bytes of the link shall go. A header and what follows it are read
//! into the staging buffer in one system call; a small payload is copied from there to its place,
//! the rest of a big one goes from the link straight to it. It must not know links (the caller reads).
//!
//! The payload of a batch is read whole, and its members are delivered from there: a page goes to
//! its place when its turn comes, for the frames before it decide whether it may.
//!
//! So the first bytes of a long payload are in their place while later ones travel. A payload in parts (`outbox::stop_and_wait`) is
//! placed the same way, a part at a time; which acknowledgements that leads to is left to the caller ([`Incoming::take_due`]).
//!
//! Invariant: bytes are taken in stream order; after each read the staging buffer is parsed to
//! its end, so that nothing is kept there and all links share one. No byte goes to a place between whose naming and which
//! another link may have been read, unless the sink says that it is still the payload's.
#![expect(unsafe_code, reason = "payload bytes go to the raw places that the sink names")]

use crate::frame_header::{BATCH, BYE, Header, LAST_KIND, MAX_BUFFER, PART, PART_TAKEN, PARTED};
use crate::outbox::{MAX_BATCH, MORE_FOLLOWS, Member, first_member};
use crate::sink::{Destination, LostReason, Sink};
use crate::span::{self, Raw, Span};
use crate::tap::FrameTap;
use multigrain_types::NodeId;
use rustix::io::Errno;

/// Bytes read at once when a header is due.
const STAGING: usize = 8 << 10;
/// The most memory for payloads that a link keeps, in bytes.
const SPARE_BYTES: usize = 128 << 10;

/// What all links of a mesh share during one receive.
pub(crate) struct ReceiveContext<'a> {
    staging: &'a mut Staging,
    sink: &'a mut dyn Sink,
    /// Messages that are complete.
    messages: usize,
    /// Those of them whose sender says that more follows at once.
    followed: usize,
    bytes: usize,
    /// Those that were in their place before the last of their frame was received.
    early: usize,
    /// Who is told of the frames of the peer whose link is read.
    tap: Option<&'a dyn FrameTap>,
}

impl<'a> ReceiveContext<'a> {
    pub(crate) fn new(staging: &'a mut Staging, sink: &'a mut dyn Sink) -> Self {
        Self { staging, sink, messages: 0, followed: 0, bytes: 0, early: 0, tap: None }
    }

    /// The link that is read next has this tap.
    pub(crate) fn tapped(&mut self, tap: Option<&'a dyn FrameTap>) {
        self.tap = tap;
    }

    fn tell(&self, header: &Header) {
        if let Some(tap) = self.tap {
            tap.received(header);
        }
    }

    pub(crate) fn sink(&mut self) -> &mut dyn Sink {
        self.sink
    }

    /// Messages received.
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    /// Bytes received.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of payloads that were in their place while more of the same frame was still to come.
    pub(crate) fn early(&self) -> usize {
        self.early
    }

    /// Whether more follows every message that came.
    pub(crate) fn more_follows(&self) -> bool {
        self.messages == self.followed
    }
}

/// Room for the bytes read beyond what has a place already.
pub(crate) struct Staging(Box<[u8]>);

impl Staging {
    pub(crate) fn new() -> Self {
        Self(vec![0; STAGING].into_boxed_slice())
    }

    fn room(&mut self) -> Span {
        Span::of_mut(&mut self.0)
    }
}

/// One link's parser.
pub(crate) struct Incoming {
    from: NodeId,
    state: State,
    /// Room for a payload that has no place of its own; its length only grows, and what lies there
    /// is of payloads before.
    buffer: Vec<u8>,
    parts: Parts,
    due: Due,
}

/// Whether a payload comes in parts just now.
enum Parts {
    No,
    /// That of the next frame does.
    Announced,
    /// Some have come, or none so far.
    Between(Payload),
}

/// Acknowledgements of parts that what was received leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// To be sent, one for each part that has come but the last of its frame.
    pub(crate) to_send: u32,
    /// Received.
    pub(crate) received: u32,
}

/// What of a payload has come.
#[derive(Clone, Copy)]
struct Payload {
    header: Header,
    target: Target,
    done: usize,
    /// Where what comes next ends: the payload, or this part of it.
    until: usize,
}

enum State {
    /// At or in a header.
    Header { bytes: [u8; Header::BYTES], have: usize },
    /// In a payload.
    Payload(Payload),
    /// After the peer's goodbye: only the end of the stream is legal.
    Left,
}

#[derive(Clone, Copy)]
enum Target {
    At(Raw),
    /// The link's buffer.
    Buffer,
    /// The same, for the payload of a batch.
    Batch,
}

impl State {
    const START: State = State::Header { bytes: [0; Header::BYTES], have: 0 };
}

impl Payload {
    /// Its place is asked for again before more of it goes there: frames of other peers may have come since.
    fn goes_on(&self, from: NodeId, context: &mut ReceiveContext<'_>) -> Result<(), LostReason> {
        match self.target {
            Target::At(_) => {
                context.sink.goes_on(from, &self.header).map_err(LostReason::Violation)
            }
            Target::Buffer | Target::Batch => Ok(()),
        }
    }

    /// What is still to come, of this part if there are parts.
    fn rest(&self, buffer: &mut [u8]) -> Span {
        let &Self { target, done, until, .. } = self;
        match target {
            Target::At(place) => Span::at(place.0.wrapping_add(done), until - done),
            Target::Buffer | Target::Batch => Span::of_mut(&mut buffer[done..until]),
        }
    }
}

/// Whether there may be more in the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Drained,
    PerhapsMore,
}

impl Incoming {
    pub(crate) fn new(from: NodeId) -> Self {
        let (parts, due) = (Parts::No, Due::default());
        Self { from, state: State::START, buffer: Vec::new(), parts, due }
    }

    /// Which acknowledgements are due since it was asked last.
    pub(crate) fn take_due(&mut self) -> Due {
        core::mem::take(&mut self.due)
    }

    /// Reads once with `read`, which fills spans in order and returns the number of bytes, 0 at
    /// the end of the stream; then delivers every frame that is complete.
    pub(crate) fn pump(
        &mut self,
        read: impl FnOnce(&mut [Span]) -> Result<usize, Errno>,
        context: &mut ReceiveContext<'_>,
    ) -> Result<Input, LostReason> {
        match &mut self.state {
            State::Header { .. } => {
                let mut spans = [context.staging.room()];
                let Some(got) = self.bytes_read(read(&mut spans))? else {
                    return Ok(Input::Drained);
                };
                context.bytes += got;
                self.parse_staged(got, context)?;
                Ok(more(got, &spans))
            }
            State::Payload(payload) => {
                payload.goes_on(self.from, context)?;
                let rest = payload.rest(&mut self.buffer);
                let mut spans = [rest, context.staging.room()];
                let Some(got) = self.bytes_read(read(&mut spans))? else {
                    return Ok(Input::Drained);
                };
                context.bytes += got;
                let placed = got.min(rest.len());
                self.placed(placed, context)?;
                self.parse_staged(got - placed, context)?;
                Ok(more(got, &spans))
            }
            State::Left => {
                let got = read(&mut [context.staging.room()]);
                match self.bytes_read(got)? {
                    None => Ok(Input::Drained),
                    Some(got) => Err(LostReason::Violation(format!("{got} bytes after BYE"))),
                }
            }
        }
    }

    fn bytes_read(&self, got: Result<usize, Errno>) -> Result<Option<usize>, LostReason> {
        match (got, &self.state) {
            // One that has left reads no more: what was said to it meanwhile makes the end a reset.
            (Ok(0) | Err(Errno::CONNRESET | Errno::PIPE), State::Left) => Err(LostReason::Left),
            (Ok(0), _) => Err(LostReason::Died),
            (Ok(got), _) => Ok(Some(got)),
            (Err(Errno::AGAIN | Errno::INTR), _) => Ok(None),
            (Err(Errno::FAULT), _) => {
                Err(LostReason::Violation("its payload has no valid place here".to_owned()))
            }
            (Err(Errno::CONNRESET | Errno::PIPE), _) => Err(LostReason::Died),
            (Err(errno), _) => Err(LostReason::Failed(errno)),
        }
    }

    /// Parses the first `staged` bytes of the staging buffer.
    fn parse_staged(
        &mut self,
        staged: usize,
        context: &mut ReceiveContext<'_>,
    ) -> Result<(), LostReason> {
        let mut at = 0;
        while at < staged {
            at += self.eat(at, staged, context)?;
        }
        Ok(())
    }

    /// Takes some of the staged bytes `at..end`: a piece of a header or of a payload.
    fn eat(
        &mut self,
        at: usize,
        end: usize,
        context: &mut ReceiveContext<'_>,
    ) -> Result<usize, LostReason> {
        let staged = &context.staging.0[at..end];
        match &mut self.state {
            State::Header { bytes, have } => {
                let some = staged.len().min(Header::BYTES - *have);
                bytes[*have..*have + some].copy_from_slice(&staged[..some]);
                *have += some;
                if *have == Header::BYTES {
                    let header = Header::decode(bytes)
                        .map_err(|error| LostReason::Violation(error.to_string()))?;
                    self.begin(header, context)?;
                }
                Ok(some)
            }
            State::Payload(payload) => {
                let rest = payload.rest(&mut self.buffer);
                let some = staged.len().min(rest.len());
                // SAFETY: `rest` is writable for its length: by Sink's contract, or as part of
                // the buffer; neither overlaps the staging buffer.
                unsafe { span::copy_to(rest.start(), &staged[..some]) };
                self.placed(some, context)?;
                Ok(some)
            }
            State::Left => Err(LostReason::Violation(format!("{} bytes after BYE", staged.len()))),
        }
    }

    /// A header is complete: asks for the payload's place, or delivers a frame without one.
    fn begin(
        &mut self,
        header: Header,
        context: &mut ReceiveContext<'_>,
    ) -> Result<(), LostReason> {
        let wrong = |what: &str| {
            let Header { kind, from, payload, .. } = header;
            let frame = format!("frame of kind {kind} from rank {from}, {payload} bytes");
            Err(LostReason::Violation(format!("{what}: {frame}")))
        };
        self.state = State::START;
        if header.from != self.from.0 {
            return wrong("another node's rank");
        }
        match (header.kind, &self.parts) {
            (PART_TAKEN, _) if header.payload == 0 => {
                self.due.received += 1;
                return Ok(());
            }
            (PARTED, Parts::No) if header.payload == 0 => {
                self.parts = Parts::Announced;
                return Ok(());
            }
            (PART, &Parts::Between(payload)) => {
                let until = payload.done.saturating_add(header.payload_bytes());
                if header.payload == 0 || until > payload.header.payload_bytes() {
                    return wrong("a part that does not fit");
                }
                payload.goes_on(self.from, context)?;
                self.parts = Parts::No;
                self.state = State::Payload(Payload { until, ..payload });
                return Ok(());
            }
            (_, Parts::No) => {}
            (kind, Parts::Announced) if kind <= LAST_KIND && header.payload > 0 => {}
            (_, Parts::Announced | Parts::Between(_)) => return wrong("in the place of a part"),
        }
        if header.kind == BYE && header.payload == 0 {
            context.tell(&header);
            self.state = State::Left;
            return Ok(());
        }
        if header.kind == BATCH && header.payload == 0 {
            return wrong("a batch of nothing");
        }
        if header.kind == BATCH && header.payload > MAX_BATCH {
            return wrong("too long for a batch");
        }
        if header.kind == BATCH && header.flags & !MORE_FOLLOWS != 0 {
            return wrong("a batch with unknown flags");
        }
        if header.kind == BATCH {
            self.expect(header, Target::Batch);
            return Ok(());
        }
        if header.kind > LAST_KIND {
            return wrong("a kind that has no business here");
        }
        context.tell(&header);
        if header.payload == 0 {
            context.messages += 1;
            return context.sink.frame(self.from, &header, None).map_err(LostReason::Violation);
        }
        match context.sink.place(self.from, &header).map_err(LostReason::Violation)? {
            Destination::At(place) => self.expect(header, Target::At(Raw(place))),
            Destination::Buffer if header.payload > MAX_BUFFER => {
                return wrong("too long for a buffer");
            }
            Destination::Buffer => self.expect(header, Target::Buffer),
        }
        Ok(())
    }

    /// The payload comes next.
    fn expect(&mut self, header: Header, target: Target) {
        let in_buffer = matches!(target, Target::Buffer | Target::Batch);
        if in_buffer && self.buffer.len() < header.payload_bytes() {
            self.buffer.resize(header.payload_bytes(), 0);
        }
        let payload = Payload { header, target, done: 0, until: header.payload_bytes() };
        match self.parts {
            Parts::Announced => self.parts = Parts::Between(payload),
            Parts::No | Parts::Between(_) => self.state = State::Payload(payload),
        }
    }

    /// `some` more bytes of the payload are in place; delivers the frame with the last.
    fn placed(&mut self, some: usize, context: &mut ReceiveContext<'_>) -> Result<(), LostReason> {
        let State::Payload(payload) = &mut self.state else { return Ok(()) };
        payload.done += some;
        let Payload { header, target, done, until } = *payload;
        if done < header.payload_bytes() && matches!(target, Target::At(_)) {
            context.early += some;
        }
        if done < until {
            return Ok(());
        }
        self.state = State::START;
        if done < header.payload_bytes() {
            self.parts = Parts::Between(Payload { header, target, done, until });
            self.due.to_send += 1;
            return Ok(());
        }
        context.messages += 1;
        let delivered = match target {
            Target::At(_) => context.sink.frame(self.from, &header, None),
            Target::Buffer => {
                let body = &self.buffer[..header.payload_bytes()];
                context.sink.frame(self.from, &header, Some(body))
            }
            Target::Batch => {
                context.followed += usize::from(header.flags & MORE_FOLLOWS != 0);
                self.deliver_members(header.payload_bytes(), context)
            }
        };
        if self.buffer.len() > SPARE_BYTES {
            self.buffer = Vec::new();
        }
        delivered.map_err(LostReason::Violation)
    }

    /// Delivers the frames of the batch of so many bytes that lies in the buffer.
    fn deliver_members(
        &self,
        bytes: usize,
        context: &mut ReceiveContext<'_>,
    ) -> Result<(), String> {
        let mut batch = &self.buffer[..bytes];
        while !batch.is_empty() {
            let Member { header, body, rest } = first_member(batch, self.from.0)?;
            batch = rest;
            context.tell(&header);
            let sink = &mut *context.sink;
            let body = if body.is_empty() {
                None
            } else {
                match sink.place(self.from, &header)? {
                    Destination::At(place) => {
                        // SAFETY: `place` is writable for the body's length by Sink's contract, and
                        // no part of the buffer.
                        unsafe { span::copy_to(place, body) };
                        None
                    }
                    Destination::Buffer if header.payload > MAX_BUFFER => {
                        let Header { kind, payload, .. } = header;
                        return Err(format!("a frame of kind {kind}, {payload} bytes, in a batch"));
                    }
                    Destination::Buffer => Some(body),
                }
            };
            sink.frame(self.from, &header, body)?;
        }
        Ok(())
    }
}

/// A read that gave less than it asked for has emptied the link.
fn more(got: usize, spans: &[Span]) -> Input {
    let asked = spans.iter().map(Span::len).sum();
    if got < asked { Input::Drained } else { Input::PerhapsMore }
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
mod tests;
