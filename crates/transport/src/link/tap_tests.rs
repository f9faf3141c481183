//! Taps: what they are told, over a link alone and under another.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(unsafe_code, reason = "a link that passes everything on, and a sink that names no place")]

use super::{Link, emulate, pair};
use crate::first_links::{Booted, Others};
use crate::frame_header::{BYE, Header};
use crate::handshake::Identity;
use crate::link::Emulation;
use crate::mesh::Mesh;
use crate::peer::Peer;
use crate::readiness::Waiting;
use crate::shim::{Mutex, lock};
use crate::sink::{Destination, LostReason, Sink};
use crate::tap::FrameTap;
use crate::timeout::Timeout;
use core::fmt;
use multigrain_types::NodeId;
use std::sync::Arc;

/// Kind, subject and payload of each frame.
type Told = Vec<(u8, u64, u64)>;

#[derive(Default)]
struct Log {
    sent: Mutex<Told>,
    received: Mutex<Told>,
}

impl FrameTap for Log {
    fn sent(&self, header: &Header) {
        lock(&self.sent).push((header.kind, header.subject, header.payload));
    }

    fn received(&self, header: &Header) {
        lock(&self.received).push((header.kind, header.subject, header.payload));
    }
}

struct Tapped {
    below: Box<dyn Link>,
    log: Arc<Log>,
}

impl fmt::Debug for Tapped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Tapped({:?})", self.below)
    }
}

impl Link for Tapped {
    pass_on! { below: send receive readiness timer takes_input holds_input tells_taken suppress_wakeups close }
    pass_on! { below: connected tune look_after authenticate may_be proves_rank describe }

    fn tap(&self) -> Option<&dyn FrameTap> {
        Some(&*self.log)
    }
}

/// Two ends of one link with a log each.
fn tapped() -> ([Box<dyn Link>; 2], [Arc<Log>; 2]) {
    let logs = [(); 2].map(|()| Arc::new(Log::default()));
    let [one, other] = pair(None).unwrap();
    let tapped = |below, log: &Arc<Log>| -> Box<dyn Link> {
        Box::new(Tapped { below, log: Arc::clone(log) })
    };
    ([tapped(one, &logs[0]), tapped(other, &logs[1])], logs)
}

#[derive(Default)]
struct Frames {
    count: usize,
    over: bool,
}

// SAFETY: it names no place.
unsafe impl Sink for Frames {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, _: NodeId, _: &Header, _: Option<&[u8]>) -> Result<(), String> {
        self.count += 1;
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        assert_eq!(reason, LostReason::Left);
        self.over = true;
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

fn mesh(rank: u16, link: Box<dyn Link>) -> Mesh {
    let identity = Identity { rank: NodeId(rank), nodes: 2, job: 0, secret: [0; 32], build: 0 };
    let mut links = vec![Some(link)];
    links.insert(rank.into(), None);
    Mesh::new(Booted { identity, links, others: Others::none(), part: None }).unwrap()
}

fn frame(subject: u64) -> Header {
    Header { kind: 7, subject, ..Header::default() }
}

/// Node 0 sends in every way, and leaves.
fn talk([one, other]: [Box<dyn Link>; 2], [ours, theirs]: [Arc<Log>; 2]) {
    let (one, other) = (mesh(0, one), mesh(1, other));
    let to = NodeId(1);
    one.send_bytes(to, frame(1), b"").unwrap();
    one.defer(to, frame(2)).unwrap();
    one.defer_with(to, frame(3), |out| out.extend([0; 9])).unwrap();
    one.defer_with(to, frame(4), |_| {}).unwrap();
    one.defer_or_merge(to, frame(5), |_| None).unwrap();
    one.flush_deferred();
    one.send_bytes(to, frame(6), &[0; 10_000]).unwrap();
    one.leave();
    let mut frames = Frames::default();
    while !frames.over {
        other.receive(&mut frames, Timeout::Forever);
    }
    let said = [(7, 1, 0), (7, 2, 0), (7, 3, 9), (7, 4, 0), (7, 5, 0), (7, 6, 10_000), (BYE, 0, 0)];
    assert_eq!(*lock(&ours.sent), said);
    assert_eq!((&*lock(&theirs.received), frames.count), (&said.to_vec(), 6));
    assert!(lock(&ours.received).is_empty() && lock(&theirs.sent).is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "has sockets")]
fn a_tap_is_told_of_every_frame_in_order_at_both_ends() {
    let (links, logs) = tapped();
    talk(links, logs);
}

#[test]
#[cfg_attr(miri, ignore = "has sockets")]
fn a_link_over_another_has_the_tap_of_that() {
    let (links, logs) = tapped();
    let network: Emulation = "1us".parse().unwrap();
    talk(links.map(|link| emulate(link, network).unwrap()), logs);
}

#[test]
#[cfg_attr(miri, ignore = "has sockets")]
fn what_waits_for_a_link_is_told_when_that_is_there() {
    let ([link, _other], [log, _]) = tapped();
    let (peer, waiting) = (Peer::new(NodeId(1), None), Waiting::new().unwrap());
    peer.defer(&frame(1), &waiting).unwrap();
    peer.defer_with(&frame(2), |out| out.push(0), &waiting).unwrap();
    assert!(lock(&log.sent).is_empty());
    assert!(peer.join(link, &waiting).unwrap().is_some());
    peer.defer(&frame(3), &waiting).unwrap();
    assert_eq!(*lock(&log.sent), [(7, 1, 0), (7, 2, 1), (7, 3, 0)]);
}
