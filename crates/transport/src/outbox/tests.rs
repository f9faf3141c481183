//! Every cell of the table at the head of the send rules, against a link that takes what it is told to.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unsafe_code, reason = "payloads are sent from raw memory")]

use super::batch::*;
use super::*;
use crate::counters::Tally;
use crate::frame_header::{BATCH, BYE, Header, PART, PART_TAKEN, PARTED};
use crate::handshake::Refusal;
use crate::link::{Close, Link};
use crate::reply_bound::ReplyBound;
use crate::span::{self, Span};
use crate::tap::FrameTap;
use core::num::NonZeroUsize;
use core::task::Poll;
use multigrain_types::NodeId;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A link that takes so many bytes more, and remembers each message.
#[derive(Debug)]
struct Fake {
    room: AtomicUsize,
    sent: Mutex<Vec<Vec<u8>>>,
}

impl Link for Fake {
    unsafe fn send(&self, spans: &mut [Span]) -> Result<usize, Errno> {
        let mut bytes = Vec::new();
        for span in spans {
            // SAFETY: the outbox names readable spans.
            unsafe { span::append(*span, &mut bytes) };
        }
        bytes.truncate(self.room.load(Ordering::Relaxed));
        self.room.fetch_sub(bytes.len(), Ordering::Relaxed);
        let taken = bytes.len();
        if taken > 0 {
            self.sent.lock().unwrap().push(bytes);
        }
        Ok(taken)
    }

    unsafe fn receive(&self, _: &mut [Span]) -> Result<usize, Errno> {
        unreachable!()
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        unreachable!()
    }

    fn timer(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn takes_input(&self) -> bool {
        true
    }

    fn holds_input(&self) -> bool {
        false
    }

    fn tells_taken(&self) -> bool {
        false
    }

    fn suppress_wakeups(&self, _: bool) -> Result<(), Errno> {
        Err(Errno::NOSYS)
    }

    fn proves_rank(&self) -> bool {
        false
    }

    fn tap(&self) -> Option<&dyn FrameTap> {
        None
    }

    fn close(&self, _: Close) {}

    fn connected(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn tune(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn look_after(&self) {}

    fn authenticate(&self) -> Poll<Result<(), Refusal>> {
        Poll::Ready(Ok(()))
    }

    fn may_be(&self, _: NodeId) -> Result<(), Refusal> {
        Ok(())
    }

    fn describe(&self) -> String {
        String::new()
    }
}

struct Rig {
    link: Fake,
    tally: Tally,
    replies: ReplyBound,
    outbox: Outbox,
}

const NO_END: usize = usize::MAX;

impl Rig {
    fn new(room: usize) -> Self {
        let link = Fake { room: AtomicUsize::new(room), sent: Mutex::default() };
        Self {
            link,
            tally: Tally::default(),
            replies: ReplyBound::default(),
            outbox: Outbox::new(None),
        }
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Outbox, Port<'_>) -> Result<R, Errno>) -> R {
        let port = Port { link: Some(&self.link), tally: &self.tally, replies: &self.replies };
        act(&mut self.outbox, port).unwrap()
    }

    fn send(&mut self, subject: u64, bytes: usize) {
        let body = vec![9; bytes];
        let header = Header { payload: bytes as u64, ..frame(subject) };
        // SAFETY: there is no raw memory in this payload.
        self.with(|out, port| unsafe { out.send(&header, Payload::Bytes(&body), port) });
    }

    fn defer(&mut self, subject: u64) {
        self.with(|out, port| out.defer(&frame(subject), port));
    }

    fn defer_with(&mut self, subject: u64, bytes: usize) {
        let fill = |out: &mut Vec<u8>| out.resize(out.len() + bytes, 8);
        let payload = self.with(|out, port| out.defer_with(frame(subject), fill, port));
        assert_eq!(payload, bytes as u64);
    }

    /// Merges with a last frame of this subject.
    fn defer_or_merge(&mut self, subject: u64, last: u64) {
        let merge = |header: &Header| {
            (header.subject == last).then_some(Header { subject: last + subject, ..*header })
        };
        self.with(|out, port| out.defer_or_merge(frame(subject), merge, port));
    }

    fn flush_deferred(&mut self) {
        self.with(Outbox::flush_deferred);
    }

    /// The messages that have left since the last look, each as the subjects of its frames; a batch of
    /// several has a row of its own, -1 before it and -2 if more follows.
    fn left(&mut self) -> Vec<Vec<i64>> {
        self.link.sent.lock().unwrap().drain(..).map(|message| subjects(&message)).collect()
    }
}

fn frame(subject: u64) -> Header {
    Header { kind: 7, from: 3, subject, ..Header::default() }
}

fn subjects(mut bytes: &[u8]) -> Vec<i64> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let header = Header::decode(bytes).unwrap();
        bytes = &bytes[Header::BYTES..];
        if header.kind == BATCH {
            found.push(if header.flags == MORE_FOLLOWS { -2 } else { -1 });
        } else {
            found.push(header.subject.try_into().unwrap());
            bytes = &bytes[header.payload_bytes()..];
        }
    }
    found
}

#[test]
fn what_is_sent_goes_now_and_takes_deferred_frames_along() {
    let mut rig = Rig::new(NO_END);
    rig.send(1, 0);
    rig.send(2, 5000);
    assert_eq!(rig.left(), [[1], [2]]);
    for bytes in [0, 96, 5000] {
        rig.defer(3);
        rig.defer(4);
        assert!(rig.left().is_empty());
        rig.send(5, bytes);
        assert_eq!(rig.left(), [[3, 4, 5]]);
    }
}

#[test]
fn the_ninth_deferred_frame_sends_all() {
    let mut rig = Rig::new(NO_END);
    (1..=8).for_each(|subject| rig.defer(subject));
    assert!(rig.left().is_empty());
    rig.defer(9);
    assert_eq!(rig.left(), [[1, 2, 3, 4, 5, 6, 7, 8, 9]]);
    rig.flush_deferred();
    assert!(rig.left().is_empty());
    rig.defer(1);
    rig.flush_deferred();
    assert_eq!(rig.left(), [[1]]);
}

#[test]
fn a_short_frame_joins_the_batch_and_a_long_one_follows_it() {
    let mut rig = Rig::new(NO_END);
    rig.defer(1);
    rig.defer_with(2, 10);
    rig.defer(3);
    rig.send(4, MAX_JOINING);
    assert_eq!(rig.left(), [[1, -1, 2, 3, 4]]);
    rig.defer_with(5, 10);
    rig.defer_with(6, 10);
    rig.send(7, MAX_JOINING + 1);
    assert_eq!(rig.left(), [vec![-1, 5, 6], vec![7]]);
    rig.defer_with(8, 10);
    rig.flush_deferred();
    assert_eq!(rig.left(), [[8]], "one alone goes as it is");
}

#[test]
fn a_full_batch_goes_and_says_that_more_follows() {
    for deferred in [false, true] {
        let mut rig = Rig::new(NO_END);
        rig.defer_with(1, 10);
        rig.defer_with(2, 64 << 10);
        assert!(rig.left().is_empty());
        if deferred {
            rig.defer(3)
        } else {
            rig.defer_with(3, 0)
        }
        assert_eq!(rig.left(), [[-2, 1, 2]]);
        rig.flush_deferred();
        assert_eq!(rig.left(), [[3]]);
    }
}

#[test]
fn a_batch_of_128_frames_goes_and_says_that_more_follows() {
    for next in [Rig::defer as fn(&mut Rig, _), |rig, frame| rig.defer_with(frame, 0)] {
        let mut rig = Rig::new(NO_END);
        (1..=128).for_each(|frame| rig.defer_with(frame, 10));
        assert!(rig.left().is_empty());
        next(&mut rig, 129);
        let full: Vec<_> = [-2].into_iter().chain(1..=128).collect();
        assert_eq!(rig.left(), [full]);
        rig.flush_deferred();
        assert_eq!(rig.left(), [[129]]);
    }
}

#[test]
fn a_frame_is_merged_into_the_last_of_the_batch_if_that_is_said() {
    let mut rig = Rig::new(NO_END);
    rig.defer_or_merge(1, 1);
    rig.defer_or_merge(10, 1);
    rig.defer_or_merge(20, 1);
    rig.flush_deferred();
    assert_eq!(rig.left(), [[-1, 11, 20]]);
}

#[test]
fn behind_a_queue_all_keep_their_order() {
    let mut rig = Rig::new(45);
    rig.send(1, 30);
    assert!(rig.outbox.has_backlog() && rig.replies.bytes() > 0);
    rig.defer(2);
    rig.send(3, 0);
    rig.defer_with(4, 7);
    rig.defer_or_merge(5, 4);
    rig.send(6, 5000);
    rig.defer_with(7, 7);
    rig.flush_deferred();
    rig.link.room.store(NO_END, Ordering::Relaxed);
    rig.with(Outbox::flush);
    let whole: Vec<u8> = rig.link.sent.lock().unwrap().concat();
    assert_eq!(subjects(&whole), [1, 2, 3, -1, 4, 5, 6, 7]);
    assert!(!rig.outbox.has_backlog());
    assert_eq!(rig.replies.bytes(), 0);
}

#[test]
fn what_is_cleared_is_gone() {
    let mut rig = Rig::new(10);
    rig.send(1, 30);
    rig.defer_with(2, 7);
    rig.with(|out, port| {
        out.clear(port);
        Ok(())
    });
    rig.link.room.store(NO_END, Ordering::Relaxed);
    rig.with(Outbox::flush);
    rig.flush_deferred();
    assert_eq!(rig.link.sent.lock().unwrap().len(), 1, "but for what the link had taken");
    assert!(!rig.outbox.has_backlog());
    assert_eq!(rig.replies.bytes(), 0);
}

/// A part of the peer's is acknowledged while frames are deferred and the link is full.
#[test]
fn nothing_is_deferred_behind_an_acknowledgement_that_waits() {
    let mut rig = Rig::new(0);
    rig.defer(1);
    rig.with(|out, port| out.take_part(3, port));
    rig.send(2, 900);
    rig.link.room.store(Header::BYTES * 2 + 450, Ordering::Relaxed);
    rig.with(Outbox::flush);
    rig.flush_deferred();
    rig.link.room.store(NO_END, Ordering::Relaxed);
    rig.flush_deferred();
    rig.with(Outbox::flush);
    let whole = rig.link.sent.lock().unwrap().concat();
    // That of an acknowledgement is 0.
    assert_eq!(subjects(&whole), [1, 0, 2]);
}

#[test]
fn an_acknowledgement_passes_parts_and_never_follows_a_goodbye() {
    let goodbye = Header { kind: BYE, from: 3, ..Header::default() };
    for (payload, kinds) in [(0, &[BYE][..]), (200, &[PARTED, 0, PART, PART_TAKEN, PART, BYE])] {
        let mut rig = Rig::new(0);
        rig.outbox = Outbox::new(NonZeroUsize::new(100));
        if payload > 0 {
            rig.send(1, payload);
        }
        rig.with(|out, port| out.send_own(&goodbye, port));
        rig.with(|out, port| out.take_part(3, port));
        rig.with(Outbox::parts_are_free);
        rig.link.room.store(NO_END, Ordering::Relaxed);
        rig.with(Outbox::flush);
        let whole = rig.link.sent.lock().unwrap().concat();
        let (mut at, mut found) = (0, Vec::new());
        while at < whole.len() {
            let header = Header::decode(&whole[at..]).unwrap();
            found.push(if header.subject == 1 { 0 } else { header.kind });
            at += Header::BYTES + if header.kind == PART { header.payload_bytes() } else { 0 };
        }
        assert_eq!(found, kinds);
    }
}

#[test]
fn parts_wait_for_no_acknowledgement_of_a_peer_that_has_left() {
    let mut rig = Rig::new(NO_END);
    rig.outbox = Outbox::new(NonZeroUsize::new(100));
    rig.send(1, 950);
    assert!(rig.outbox.has_backlog() && !rig.outbox.waits_for_room());
    rig.with(Outbox::parts_are_free);
    assert!(!rig.outbox.has_backlog());
}
