//! The frame decoder of the mesh, over a stream cut anywhere, against a decoder of a few lines.
//!
//! A batch is one frame to the stream, and its members to the sink.
//!
//! Input: counted cuts (a cut of 0 is a read that a signal interrupts), then the stream.
#![cfg_attr(fuzzing, no_main)]

use multigrain_fuzz::{Input, fuzz_target};
use multigrain_transport::fuzzing::Stream;
use multigrain_transport::{Destination, Header, LAST_KIND, LostReason, MAX_BUFFER, Sink};
use multigrain_types::NodeId;

const PEER: NodeId = NodeId(1);
const BYE: u8 = 243;
const BATCH: u8 = 244;
/// The payload of the next frame comes in parts; such a part; one that has been taken.
const PARTED: u8 = 245;
const PART: u8 = 246;
const PART_TAKEN: u8 = 247;
/// The flag of a batch that more follows.
const MORE: u8 = 1;
/// The longest payload of a batch: 64 KiB, and a last member.
const MAX_BATCH: u64 = (64 << 10) + Header::BYTES as u64 + MAX_BUFFER;
/// The longest payload that has a place by address.
const ROOM: usize = 1 << 16;

#[derive(Default)]
struct Log {
    room: Vec<u8>,
    frames: Vec<(Header, Vec<u8>)>,
    under_way: bool,
}

impl Log {
    fn wants(header: &Header) -> Result<bool, String> {
        match header.flags & 3 {
            0 if header.payload <= ROOM as u64 => Ok(true),
            1 => Ok(false),
            _ => Err("no place".to_owned()),
        }
    }
}

// SAFETY: `room` is as long as the longest payload that gets a place in it, and is read only when
// that payload is complete.
unsafe impl Sink for Log {
    fn place(&mut self, from: NodeId, header: &Header) -> Result<Destination, String> {
        assert!(from == PEER && header.from == PEER.0 && header.payload > 0 && !self.under_way);
        let by_address = Self::wants(header)?;
        self.under_way = header.payload <= MAX_BUFFER;
        Ok(if by_address { Destination::At(self.room.as_mut_ptr()) } else { Destination::Buffer })
    }

    fn frame(&mut self, _: NodeId, header: &Header, body: Option<&[u8]>) -> Result<(), String> {
        assert!((1..=LAST_KIND).contains(&header.kind) && header.from == PEER.0);
        let bytes = usize::try_from(header.payload).unwrap();
        let body = body.unwrap_or_else(|| &self.room[..bytes]).to_vec();
        assert_eq!(body.len(), bytes);
        self.under_way = false;
        self.frames.push((*header, body));
        Ok(())
    }

    fn lost(&mut self, _: NodeId, _: LostReason) {}

    fn refused(&mut self, _: String) {}
}

/// The frames of a batch, as far as they are right, and whether one is not.
fn members(mut batch: &[u8], frames: &mut Vec<(Header, Vec<u8>)>) -> bool {
    while !batch.is_empty() {
        let Ok(header) = Header::decode(batch) else { return true };
        let body = batch[Header::BYTES..].get(..header.payload as usize);
        let (Some(body), 1..=LAST_KIND, PEER) = (body, header.kind, NodeId(header.from)) else {
            return true;
        };
        if header.payload > 0 && refused(&header) {
            return true;
        }
        frames.push((header, body.to_vec()));
        batch = &batch[Header::BYTES + body.len()..];
    }
    false
}

fn refused(header: &Header) -> bool {
    let place = Log::wants(header);
    place.is_err() || (place == Ok(false) && header.payload > MAX_BUFFER)
}

/// What of a payload in parts has come.
enum Parts {
    No,
    Announced,
    Of(Header, Vec<u8>),
}

/// What the stream means, read at leisure: its frames, and whether it breaks the rules.
fn oracle(mut stream: &[u8]) -> (Vec<(Header, Vec<u8>)>, bool) {
    let (mut frames, mut parts) = (Vec::new(), Parts::No);
    while let Some((head, rest)) = stream.split_at_checked(Header::BYTES) {
        let Ok(header) = Header::decode(head) else { return (frames, true) };
        if header.from != PEER.0 {
            return (frames, true);
        }
        if header.kind == PART_TAKEN && header.payload == 0 {
            stream = rest;
            continue;
        }
        let bye = header.kind == BYE && header.payload == 0;
        let batch = header.kind == BATCH
            && header.flags & !MORE == 0
            && (1..=MAX_BATCH).contains(&header.payload);
        let ordinary = (1..=LAST_KIND).contains(&header.kind);
        match &mut parts {
            Parts::No if header.kind == PARTED && header.payload == 0 => {
                parts = Parts::Announced;
                stream = rest;
                continue;
            }
            Parts::No if bye => return (frames, !rest.is_empty()),
            Parts::No if batch || ordinary => {}
            Parts::Announced if ordinary && header.payload > 0 && !refused(&header) => {
                parts = Parts::Of(header, Vec::new());
                stream = rest;
                continue;
            }
            Parts::Of(of, body)
                if header.kind == PART
                    && (1..=of.payload - body.len() as u64).contains(&header.payload) =>
            {
                let Some((part, next)) = rest.split_at_checked(header.payload as usize) else {
                    break;
                };
                body.extend(part);
                stream = next;
                if body.len() as u64 == of.payload {
                    frames.push((*of, core::mem::take(body)));
                    parts = Parts::No;
                }
                continue;
            }
            Parts::No | Parts::Announced | Parts::Of(..) => return (frames, true),
        }
        if !batch && header.payload > 0 && refused(&header) {
            return (frames, true);
        }
        let Some((body, next)) = rest.split_at_checked(header.payload as usize) else { break };
        if !batch {
            frames.push((header, body.to_vec()));
        } else if members(body, &mut frames) {
            return (frames, true);
        }
        stream = next;
    }
    (frames, false)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let cuts = input.counted();
    let mut cuts = cuts.iter().chain(&[255]).map(|&cut| usize::from(cut)).cycle();
    let mut log = Log { room: vec![0; ROOM], ..Log::default() };
    let mut link = Stream::new(PEER);
    let read = link.feed(input.0, || cuts.next().unwrap_or(1), &mut log);
    let (frames, broken) = oracle(input.0);
    assert_eq!(log.frames, frames);
    match read {
        Ok(()) => {
            assert!(!broken);
            let end = link.end(&mut log);
            assert!(matches!(end, Some(LostReason::Left | LostReason::Died)), "{end:?}");
        }
        Err(reason) => assert!(broken && matches!(reason, LostReason::Violation(_)), "{reason:?}"),
    }
});
