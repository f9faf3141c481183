//! The incoming half of a link: a stream of bytes, cut anywhere, into frames.
//!
//! Role: decides where the next bytes of the socket shall go, so that a payload lands at its
//! place with no copy: in one system call with its header when the waiting thread's guess (the
//! hint) was right, straight from the socket for the rest of a big one, and by one copy out of
//! the staging buffer otherwise. It must not know sockets (the caller reads) or other links.
//!
//! Invariant: bytes are taken in stream order; after each read the staging buffer is parsed to
//! its end, so that nothing is kept there and all links share one.
#![expect(unsafe_code, reason = "payload bytes go to the raw places that the sink names")]

use crate::frame::{BYE, Header, LAST_KIND};
use crate::sink::{LostReason, MAX_BUFFER, Place, Sink};
use crate::sys::{self, Raw, Span, lock};
use multigrain_types::NodeId;
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard};

/// A longer payload is not worth a hint: a system call more is nothing against its copy.
pub(crate) const MAX_HINT: usize = 64 << 10;
/// Bytes read beyond what is expected.
const TAIL: usize = 8 << 10;

/// The guess of the waiting thread: the next payload of `subject`, `len` bytes, goes to `at`.
#[derive(Clone, Copy, Debug)]
struct Hint {
    subject: u64,
    at: Raw,
    len: usize,
}

impl Hint {
    fn overlaps(&self, place: *mut u8, len: usize) -> bool {
        let (own, other) = (self.at.0.addr(), place.addr());
        own < other.saturating_add(len) && other < own.saturating_add(self.len)
    }
}

/// The hint of a mesh. Its lock is held while a read may scribble on the place, so once `set` or
/// `clear` has returned, nothing scribbles on the old one.
#[derive(Debug, Default)]
pub(crate) struct Hints(Mutex<Option<Hint>>);

impl Hints {
    pub(crate) fn set(&self, subject: u64, at: *mut u8, len: usize) {
        let useful = len > 0 && len <= MAX_HINT;
        *lock(&self.0) = useful.then_some(Hint { subject, at: Raw(at), len });
    }

    pub(crate) fn clear(&self) {
        *lock(&self.0) = None;
    }

    /// A payload is about to be received at `place`: nobody may scribble there any more.
    fn settle(&self, place: *mut u8, len: usize) {
        let mut hint = lock(&self.0);
        if hint.is_some_and(|hint| hint.overlaps(place, len)) {
            *hint = None;
        }
    }
}

/// What all links of a mesh share while one of them is read.
pub(crate) struct Desk<'a> {
    pub(crate) staging: &'a mut Staging,
    pub(crate) hints: &'a Hints,
    pub(crate) sink: &'a mut dyn Sink,
    pub(crate) frames: usize,
    pub(crate) bytes: usize,
}

/// Room for the bytes read beyond the expected, and before it room to take back the bytes that a
/// wrong hint let fall into the expected place; the two are one run of the stream.
pub(crate) struct Staging(Box<[u8]>);

impl Staging {
    pub(crate) fn new() -> Self {
        Self(vec![0; MAX_HINT + TAIL].into_boxed_slice())
    }

    fn tail(&mut self) -> Span {
        Span::of_mut(&mut self.0[MAX_HINT..])
    }
}

/// One link's parser.
pub(crate) struct Incoming {
    from: NodeId,
    state: State,
}

enum State {
    /// At or in a header.
    Header { bytes: [u8; Header::BYTES], have: usize },
    /// In a payload.
    Payload { header: Header, target: Target, done: usize },
    /// After the peer's goodbye: only the end of the stream is legal.
    Left,
}

enum Target {
    At(Raw),
    Buffer(Vec<u8>),
}

impl State {
    const START: State = State::Header { bytes: [0; Header::BYTES], have: 0 };
}

impl Target {
    /// The part of the payload that is still to come.
    fn rest(&mut self, header: &Header, done: usize) -> Span {
        match self {
            Self::At(place) => Span::at(place.0.wrapping_add(done), header.payload_bytes() - done),
            Self::Buffer(buffer) => Span::of_mut(&mut buffer[done..]),
        }
    }
}

/// Whether there may be more in the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    Drained,
    PerhapsMore,
}

impl Incoming {
    pub(crate) fn new(from: NodeId) -> Self {
        Self { from, state: State::START }
    }

    /// Reads once with `read`, which fills spans in order and returns the number of bytes, 0 at
    /// the end of the stream; then delivers every frame that is complete.
    pub(crate) fn pump(
        &mut self,
        read: impl FnOnce(&mut [Span]) -> Result<usize, Errno>,
        desk: &mut Desk<'_>,
    ) -> Result<Socket, LostReason> {
        match &mut self.state {
            State::Header { .. } => self.pump_header(read, desk),
            State::Payload { header, target, done } => {
                let rest = target.rest(header, *done);
                let mut spans = [rest, desk.staging.tail()];
                let Some(got) = self.bytes_read(read(&mut spans))? else {
                    return Ok(Socket::Drained);
                };
                desk.bytes += got;
                let placed = got.min(rest.len());
                self.placed(placed, desk)?;
                self.parse_staged(0, got - placed, desk)?;
                Ok(more(got, &spans))
            }
            State::Left => {
                let got = read(&mut [desk.staging.tail()]);
                match self.bytes_read(got)? {
                    None => Ok(Socket::Drained),
                    Some(got) => Err(LostReason::Violation(format!("{got} bytes after BYE"))),
                }
            }
        }
    }

    /// Reads a header and what follows it.
    fn pump_header(
        &mut self,
        read: impl FnOnce(&mut [Span]) -> Result<usize, Errno>,
        desk: &mut Desk<'_>,
    ) -> Result<Socket, LostReason> {
        let hints = desk.hints;
        let guess = lock(&hints.0);
        if let Some(hint) = *guess {
            return self.pump_expected(read, guess, hint, desk);
        }
        drop(guess);
        let mut spans = [desk.staging.tail()];
        let Some(got) = self.bytes_read(read(&mut spans))? else { return Ok(Socket::Drained) };
        desk.bytes += got;
        self.parse_staged(0, got, desk)?;
        Ok(more(got, &spans))
    }

    /// Reads the rest of a header, and what follows it to the expected place.
    fn pump_expected(
        &mut self,
        read: impl FnOnce(&mut [Span]) -> Result<usize, Errno>,
        mut guess: MutexGuard<'_, Option<Hint>>,
        hint: Hint,
        desk: &mut Desk<'_>,
    ) -> Result<Socket, LostReason> {
        let State::Header { bytes, have } = &mut self.state else { return Ok(Socket::Drained) };
        let expected = Span::at(hint.at.0, hint.len);
        let head = Span::of_mut(&mut bytes[*have..]);
        let mut spans = [head, expected];
        let got = read(&mut spans);
        // What follows the expected page, if anything does, is there at the next read.
        let more = Socket::Drained;
        let filled = got.unwrap_or(0).min(head.len());
        *have += filled;
        let whole = (*have == Header::BYTES).then_some(*bytes);
        let fallen = got.unwrap_or(0).saturating_sub(filled).min(expected.len());
        let header = whole.map(|bytes| Header::decode(&bytes));
        let right = matches!(&header, Some(Ok(header))
            if header.subject == hint.subject && header.payload_bytes() == hint.len);
        if right {
            *guess = None;
        } else {
            take_back(expected, fallen, desk.staging);
        }
        drop(guess);
        let Some(got) = self.bytes_read(got)? else { return Ok(Socket::Drained) };
        desk.bytes += got;
        let Some(header) = header else { return Ok(more) };
        let header = header.map_err(|error| LostReason::Violation(error.to_string()))?;
        self.begin(header, desk)?;
        let at = match &self.state {
            State::Payload { target: Target::At(at), .. } => Some(*at),
            State::Payload { .. } | State::Header { .. } | State::Left => None,
        };
        if right && at == Some(hint.at) {
            self.placed(fallen, desk)?;
            return Ok(more);
        }
        if right {
            take_back(expected, fallen, desk.staging);
        }
        self.parse_staged(fallen, 0, desk)?;
        Ok(more)
    }

    fn bytes_read(&self, got: Result<usize, Errno>) -> Result<Option<usize>, LostReason> {
        match (got, &self.state) {
            (Ok(0), State::Left) => Err(LostReason::Left),
            (Ok(0), _) => Err(LostReason::Died),
            (Ok(got), _) => Ok(Some(got)),
            (Err(Errno::AGAIN | Errno::INTR), _) => Ok(None),
            (Err(Errno::FAULT), _) => {
                Err(LostReason::Violation("its payload has no valid place here".to_owned()))
            }
            (Err(_), _) => Err(LostReason::Died),
        }
    }

    /// Parses `taken_back` bytes before, and `staged` bytes in the tail of the staging buffer.
    fn parse_staged(
        &mut self,
        taken_back: usize,
        staged: usize,
        desk: &mut Desk<'_>,
    ) -> Result<(), LostReason> {
        let (mut at, end) = (MAX_HINT - taken_back, MAX_HINT + staged);
        while at < end {
            at += self.eat(at, end, desk)?;
        }
        Ok(())
    }

    /// Takes some of the staged bytes `at..end`: a piece of a header or of a payload.
    fn eat(&mut self, at: usize, end: usize, desk: &mut Desk<'_>) -> Result<usize, LostReason> {
        let staged = &desk.staging.0[at..end];
        match &mut self.state {
            State::Header { bytes, have } => {
                let some = staged.len().min(Header::BYTES - *have);
                bytes[*have..*have + some].copy_from_slice(&staged[..some]);
                *have += some;
                if *have == Header::BYTES {
                    let header = Header::decode(bytes)
                        .map_err(|error| LostReason::Violation(error.to_string()))?;
                    self.begin(header, desk)?;
                }
                Ok(some)
            }
            State::Payload { header, target, done } => {
                let rest = target.rest(header, *done);
                let some = staged.len().min(rest.len());
                // SAFETY: `rest` is writable for its length: by Sink's contract, or as part of
                // the buffer; neither overlaps the staging buffer.
                unsafe { sys::copy_to(rest.start(), &staged[..some]) };
                self.placed(some, desk)?;
                Ok(some)
            }
            State::Left => Err(LostReason::Violation(format!("{} bytes after BYE", staged.len()))),
        }
    }

    /// A header is complete: asks for the payload's place, or delivers a frame without one.
    fn begin(&mut self, header: Header, desk: &mut Desk<'_>) -> Result<(), LostReason> {
        let wrong = |what: &str| {
            let Header { kind, from, payload, .. } = header;
            let frame = format!("frame of kind {kind} from rank {from}, {payload} bytes");
            Err(LostReason::Violation(format!("{what}: {frame}")))
        };
        self.state = State::START;
        if header.from != self.from.0 {
            return wrong("another node's rank");
        }
        if header.kind == BYE && header.payload == 0 {
            self.state = State::Left;
            return Ok(());
        }
        if header.kind > LAST_KIND {
            return wrong("a kind that has no business here");
        }
        if header.payload == 0 {
            return self.deliver(&header, None, desk);
        }
        let place = desk.sink.place(self.from, &header).map_err(LostReason::Violation)?;
        let target = match place {
            Place::At(place) => {
                desk.hints.settle(place, header.payload_bytes());
                Target::At(Raw(place))
            }
            Place::Buffer if header.payload > MAX_BUFFER => {
                return wrong("too long for a buffer");
            }
            Place::Buffer => Target::Buffer(vec![0; header.payload_bytes()]),
        };
        self.state = State::Payload { header, target, done: 0 };
        Ok(())
    }

    /// `some` more bytes of the payload are in place; delivers the frame with the last.
    fn placed(&mut self, some: usize, desk: &mut Desk<'_>) -> Result<(), LostReason> {
        let State::Payload { header, done, .. } = &mut self.state else { return Ok(()) };
        *done += some;
        if *done < header.payload_bytes() {
            return Ok(());
        }
        let ended = core::mem::replace(&mut self.state, State::START);
        match ended {
            State::Payload { header, target: Target::Buffer(body), .. } => {
                self.deliver(&header, Some(body), desk)
            }
            State::Payload { header, target: Target::At(_), .. } => {
                self.deliver(&header, None, desk)
            }
            State::Header { .. } | State::Left => Ok(()),
        }
    }

    fn deliver(
        &self,
        header: &Header,
        body: Option<Vec<u8>>,
        desk: &mut Desk<'_>,
    ) -> Result<(), LostReason> {
        desk.frames += 1;
        desk.sink.frame(self.from, header, body).map_err(LostReason::Violation)
    }
}

/// A read that gave less than it asked for has emptied the socket.
fn more(got: usize, spans: &[Span]) -> Socket {
    let asked = spans.iter().map(Span::len).sum();
    if got < asked { Socket::Drained } else { Socket::PerhapsMore }
}

/// Moves the first `fallen` bytes of the expected place to before the staging tail.
fn take_back(expected: Span, fallen: usize, staging: &mut Staging) {
    if fallen == 0 {
        return;
    }
    let room = &mut staging.0[MAX_HINT - fallen..MAX_HINT];
    // SAFETY: `fallen` bytes of the expected place were just written there by the kernel; who
    // gave the hint vouches that it stays readable, and it is not the staging buffer.
    unsafe { sys::copy_from(expected.start(), room) };
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
mod tests;
