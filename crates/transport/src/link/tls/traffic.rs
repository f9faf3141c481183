//! The two directions of a connection whose handshake is over, each with its key and its buffer, which share what makes keys, and nothing else:
//! one thread may send while another receives.
//!
//! Nothing is allocated but at the handshake and when keys are updated. Bytes are copied once each way: what is
//! sealed must not change meanwhile, and memory that the application writes does.
#![expect(unsafe_code, reason = "copies from and to raw memory")]

use super::records::{self, Content, HEADER, Key, MOST, MOST_RECORD, MOST_RECORDS, TRAILER};
use crate::link::Link;
use crate::span::{self, Span};
use core::ops::Range;
use rustix::io::Errno;
use rustls::kernel::KernelConnection;

/// Records that are sealed before one system call sends them, and room for as many that come.
const AT_ONCE: usize = 2;

/// Reads of the socket in one call: records may hold nothing, and then nothing else would end it.
const READS: u32 = 32;

const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// The message that says: what follows is under the next key. Nodes do not ask each other to do the same.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// What makes the next keys.
pub(super) trait Keys: Send {
    fn next_to_send(&mut self) -> Option<Key>;
    fn next_to_receive(&mut self) -> Option<Key>;
}

impl<Side: Send> Keys for KernelConnection<Side> {
    fn next_to_send(&mut self) -> Option<Key> {
        self.update_tx_secret().ok().and_then(Key::new)
    }

    fn next_to_receive(&mut self) -> Option<Key> {
        self.update_rx_secret().ok().and_then(Key::new)
    }
}

/// What is sent.
pub(super) struct Sending {
    key: Key,
    /// Records, of which `unsent` are still to be sent.
    records: Box<[u8]>,
    unsent: Range<usize>,
    /// Bytes that are in them, and that nobody has been told are taken.
    sealed: usize,
    closed: bool,
}

impl Sending {
    pub(super) fn new(key: Key) -> Self {
        let records = vec![0; AT_ONCE * (HEADER + MOST + TRAILER)].into_boxed_slice();
        Self { key, records, unsent: 0..0, sealed: 0, closed: false }
    }

    /// [`crate::link::Link::send`]. Records go whole: what is sealed in those that do not fit is offered again, and
    /// taken then.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn send(
        &mut self,
        stream: &dyn Link,
        spans: &[Span],
        keys: impl Fn() -> Option<Key>,
    ) -> Result<usize, Errno> {
        let offered = spans.iter().map(Span::len).sum();
        let mut taken = 0;
        while self.flush(stream)? {
            taken += core::mem::take(&mut self.sealed);
            if taken >= offered {
                return Ok(offered);
            }
            // SAFETY: the caller vouches for the spans.
            unsafe { self.seal(spans, taken..offered, &keys)? };
        }
        Ok(taken)
    }

    /// Sends what is sealed; whether all of it is sent.
    fn flush(&mut self, stream: &dyn Link) -> Result<bool, Errno> {
        while !self.unsent.is_empty() {
            let rest = &self.records[self.unsent.clone()];
            // SAFETY: the span is a reference.
            match unsafe { stream.send(&mut [Span::of(rest)])? } {
                0 => return Ok(false),
                sent => self.unsent.start += sent,
            }
        }
        self.unsent = 0..0;
        Ok(true)
    }

    /// Seals what fits of these bytes of the spans.
    ///
    /// # Safety
    /// The spans are readable for their lengths.
    unsafe fn seal(
        &mut self,
        spans: &[Span],
        mut bytes: Range<usize>,
        keys: impl Fn() -> Option<Key>,
    ) -> Result<(), Errno> {
        if self.key.used() >= MOST_RECORDS {
            self.add(Content::Handshake, KEY_UPDATE.len(), |room| {
                room.copy_from_slice(&KEY_UPDATE)
            })?;
            self.key = keys().ok_or(Errno::IO)?;
        }
        while !bytes.is_empty() {
            let some = bytes.len().min(MOST);
            if self.unsent.end + HEADER + some + TRAILER > self.records.len() {
                break;
            }
            // SAFETY: the caller vouches for the spans.
            let gather = |room: &mut [u8]| unsafe { gather(spans, bytes.start, room) };
            self.add(Content::Data, some, gather)?;
            self.sealed += some;
            bytes.start += some;
        }
        Ok(())
    }

    /// Adds a record of so many bytes, which `fill` gives.
    fn add(
        &mut self,
        content: Content,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Errno> {
        let start = self.unsent.end;
        let end = start + HEADER + bytes + TRAILER;
        let record = self.records.get_mut(start..end).ok_or(Errno::NOBUFS)?;
        fill(&mut record[HEADER..HEADER + bytes]);
        self.key.seal(content, record)?;
        self.unsent.end = end;
        Ok(())
    }

    /// Says that nothing more is sent, if there is room for that.
    pub(super) fn close(&mut self, stream: &dyn Link) {
        if !core::mem::replace(&mut self.closed, true) && self.flush(stream) == Ok(true) {
            let fill = |room: &mut [u8]| room.copy_from_slice(&CLOSE_NOTIFY);
            if self.add(Content::Alert, CLOSE_NOTIFY.len(), fill).is_ok() {
                // It only fails when the connection is no more.
                let _ = self.flush(stream);
            }
        }
    }
}

/// Fills `room` from the spans' bytes at `skip` and behind.
///
/// # Safety
/// The spans are readable for their lengths, which are enough.
unsafe fn gather(spans: &[Span], mut skip: usize, mut room: &mut [u8]) {
    for span in spans {
        let from = skip.min(span.len());
        skip -= from;
        let some = (span.len() - from).min(room.len());
        let (part, rest) = core::mem::take(&mut room).split_at_mut(some);
        // SAFETY: within the span, which the caller vouches for, and no part of the buffer.
        unsafe { span::copy_from(span.start().wrapping_add(from), part) };
        room = rest;
    }
}

/// What is received.
pub(super) struct Receiving {
    key: Key,
    /// As it came from the socket; `plain` is opened and not taken yet, `sealed` lies behind that.
    bytes: Box<[u8]>,
    plain: Range<usize>,
    sealed: Range<usize>,
    /// Not a byte beyond a record is taken from the socket.
    exactly: bool,
    /// What the next call is told.
    failed: Option<Errno>,
    ended: bool,
    /// The peer has said that it goes, or why.
    alerted: Option<u8>,
}

impl Receiving {
    pub(super) fn new(key: Key) -> Self {
        let bytes = vec![0; AT_ONCE * MOST_RECORD].into_boxed_slice();
        let (plain, sealed) = (0..0, 0..0);
        let (failed, alerted) = (None, None);
        Self { key, bytes, plain, sealed, exactly: true, failed, ended: false, alerted }
    }

    /// From now on it takes from the socket what is there.
    pub(super) fn in_bulk(&mut self) {
        self.exactly = false;
    }

    /// Whether [`Receiving::receive`] has something that the socket does not show.
    pub(super) fn holds(&self) -> bool {
        let sealed = self.sealed.len();
        let whole = match records::length(&self.bytes[self.sealed.clone()]) {
            Ok(length) => length.is_some_and(|length| length <= sealed),
            Err(_) => true,
        };
        !self.plain.is_empty() || self.failed.is_some() || (whole && !self.ended)
    }

    /// What the peer said it ends for, if that is more than that it ends.
    pub(super) fn alert(&self) -> Option<u8> {
        self.alerted.filter(|alert| *alert != CLOSE_NOTIFY[1])
    }

    /// [`crate::link::Link::receive`]. What is held is given before the socket is read, so that a peer that sends all
    /// the time keeps nobody here.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn receive(
        &mut self,
        stream: &dyn Link,
        spans: &[Span],
        keys: impl Fn() -> Option<Key>,
    ) -> Result<usize, Errno> {
        let room: usize = spans.iter().map(Span::len).sum();
        let mut given = 0;
        let mut reads = if self.holds() { 0 } else { READS };
        loop {
            // SAFETY: the caller vouches for the spans.
            given += unsafe { self.give(spans, given) };
            if given == room {
                return Ok(given);
            }
            let failure = match self.failed.take() {
                Some(failure) => failure,
                None if self.ended => return Ok(given),
                None => match self.advance(stream, &mut reads, &keys) {
                    Ok(true) => continue,
                    Ok(false) => return if given > 0 { Ok(given) } else { Err(Errno::AGAIN) },
                    Err(failure) => failure,
                },
            };
            if matches!(failure, Errno::AGAIN | Errno::INTR) {
                return if given > 0 { Ok(given) } else { Err(failure) };
            }
            if given > 0 {
                self.failed = Some(failure);
                return Ok(given);
            }
            self.ended = true;
            return Err(failure);
        }
    }

    /// Copies opened bytes to the spans' room at `skip` and behind; how many.
    ///
    /// # Safety
    /// The spans are writable for their lengths.
    unsafe fn give(&mut self, spans: &[Span], mut skip: usize) -> usize {
        let mut given = 0;
        for span in spans {
            let from = skip.min(span.len());
            skip -= from;
            let some = (span.len() - from).min(self.plain.len());
            let bytes = &self.bytes[self.plain.start..self.plain.start + some];
            // SAFETY: within the span, which the caller vouches for, and no part of the buffer.
            unsafe { span::copy_to(span.start().wrapping_add(from), bytes) };
            self.plain.start += some;
            given += some;
        }
        given
    }

    /// Opens the next record, or reads from the socket if that may be; whether there may be more now.
    fn advance(
        &mut self,
        stream: &dyn Link,
        reads: &mut u32,
        keys: impl Fn() -> Option<Key>,
    ) -> Result<bool, Errno> {
        let missing = match records::length(&self.bytes[self.sealed.clone()])? {
            Some(length) if length <= self.sealed.len() => {
                self.open(length, keys)?;
                return Ok(true);
            }
            Some(length) => length - self.sealed.len(),
            None => HEADER - self.sealed.len(),
        };
        if *reads == 0 {
            return Ok(false);
        }
        self.bytes.copy_within(self.sealed.clone(), 0);
        (self.plain, self.sealed) = (0..0, 0..self.sealed.len());
        let room = &mut self.bytes[self.sealed.end..];
        let asked = if self.exactly { missing } else { room.len() };
        let room = room.get_mut(..asked).ok_or(Errno::BADMSG)?;
        // SAFETY: the span is a reference that nobody else has.
        let got = unsafe { stream.receive(&mut [Span::of_mut(room)])? };
        if got == 0 {
            self.ended = true;
        }
        self.sealed.end += got;
        *reads = if got == asked { *reads - 1 } else { 0 };
        Ok(true)
    }

    /// Opens the record of this length, and does what it says.
    fn open(&mut self, length: usize, keys: impl Fn() -> Option<Key>) -> Result<(), Errno> {
        let start = self.sealed.start;
        self.sealed.start += length;
        let (content, bytes) = self.key.open(&mut self.bytes[start..start + length])?;
        let at = start + HEADER;
        let said = &self.bytes[at..at + bytes];
        match content {
            Content::Data => self.plain = at..at + bytes,
            Content::Alert => {
                let [_, alert] = *said else { return Err(Errno::BADMSG) };
                self.alerted = Some(alert);
                if alert != CLOSE_NOTIFY[1] {
                    return Err(Errno::CONNRESET);
                }
                self.ended = true;
            }
            Content::Handshake if *said == KEY_UPDATE => {
                self.key = keys().ok_or(Errno::BADMSG)?;
            }
            Content::Handshake => return Err(Errno::BADMSG),
        }
        Ok(())
    }
}
