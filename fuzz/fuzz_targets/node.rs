//! A real node (receiver, protocol, tables, memory) between two hostile peers, while its own
//! threads fault, prefetch, push and free.
//!
//! Input: the victim, then steps. A step is a deed of its own, bytes on a link, or a whole frame
//! about a minipage that exists, whose payload has the right length or nearly. Of the frames a quarter
//! are for release consistent areas: contents, diffs, write notices, and batches of them.
#![cfg_attr(fuzzing, no_main)]

use multigrain_fuzz::{Input, ends_well, fuzz_target, peer, relaxed, victim};
use multigrain_runtime::fuzzing::{AREAS, MINIPAGES, NODES, Outcome, Victim};
use multigrain_transport::Header;
use multigrain_transport::fuzzing::Stream;
use multigrain_types::{AreaId, MinipageId, NodeId};

/// Bytes of the minipages of each area.
const BYTES: [usize; AREAS as usize] = [1024, 4096];

fn minipage(choice: u8) -> MinipageId {
    let choice = u32::from(choice);
    MinipageId::new(AreaId(choice % AREAS), choice / AREAS % MINIPAGES)
}

/// A frame about a minipage.
fn frame(input: &mut Input<'_>, from: NodeId) -> Vec<u8> {
    let (kind, flags, thread) = (input.byte(), input.byte(), input.byte().into());
    let (about, choice) = (minipage(input.byte()), input.byte());
    let right = BYTES[about.area().0 as usize];
    let bytes = [0, right, right + 1, usize::from(choice)][usize::from(choice % 4)];
    let payload = bytes as u64;
    let header = Header {
        kind,
        flags,
        from: from.0,
        thread,
        subject: about.0,
        payload,
        ..Header::default()
    };
    let mut frame = header.encode().to_vec();
    frame.resize(frame.len() + bytes, choice);
    frame
}

fn step(input: &mut Input<'_>, rank: NodeId, victim: &mut Victim, links: &mut [Stream]) -> Outcome {
    let op = input.byte();
    let from = peer(rank, op >> 2);
    let link = &mut links[from.index()];
    match op % 4 {
        0 => victim.act(input.byte(), minipage(op >> 2)),
        1 => victim.receive(from, link, input.counted(), || usize::from(op >> 3) + 1),
        2 => victim.receive(from, link, &frame(input, from), || usize::MAX),
        _ => relaxed::step(input, from, victim, link),
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let (rank, mut victim) = victim(input.byte());
    let mut links: Vec<Stream> = (0..NODES).map(|node| Stream::new(NodeId(node))).collect();
    while !input.is_empty() {
        let outcome = step(&mut input, rank, &mut victim, &mut links);
        if outcome != Outcome::Alive {
            return ends_well(&outcome);
        }
    }
});
