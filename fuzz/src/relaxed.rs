//! What hostile peers send a node about release consistent areas, and what its own threads do there.

use multigrain_protocol::migration::MigrationPlan;
use multigrain_protocol::release::{WriteNotice, WriteNotices};
use multigrain_runtime::fuzzing::{AREAS, MINIPAGES, NODES, Outcome, RELAXED, Victim};
use multigrain_transport::Header;
use multigrain_transport::fuzzing::Stream;
use multigrain_types::{AreaId, MinipageId, NodeId};

use crate::Input;

/// The runtime's own frame that brings notices.
const WRITE_NOTICES: u8 = 73;
/// Frames that travel as one message.
const BATCH: u8 = 244;
/// Kinds of the protocol's messages, those of synchronization first.
const KINDS: u8 = 64;

fn minipage(choice: u8) -> MinipageId {
    let choice = u32::from(choice);
    MinipageId::new(AreaId(AREAS + choice % RELAXED), choice / RELAXED % MINIPAGES)
}

/// Bytes of the minipages of an area.
fn bytes_of(minipage: MinipageId) -> usize {
    if minipage.area().0.is_multiple_of(2) { 1024 } else { 4096 }
}

/// A number that may be one of a flush, an epoch or a writer.
fn small(input: &mut Input<'_>) -> u64 {
    (input.byte() & 7).into()
}

/// Words of some lines, in order; right but for what the input spoils.
fn diff(input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut line = 0;
    for _ in 0..input.byte() & 3 {
        line += u32::from(input.byte() & 31);
        let bit = input.byte();
        bytes.extend(line.to_le_bytes());
        bytes.extend((1u64 << (bit & 63)).to_le_bytes());
        bytes.extend([bit; 8]);
        line += 1;
    }
    if input.byte() & 7 == 7 {
        bytes.extend(input.counted());
    }
    bytes
}

/// Write notices of nodes and minipages that exist, most of the time.
fn write_notices(input: &mut Input<'_>) -> Vec<u8> {
    if input.byte() & 15 == 15 {
        return input.counted().to_vec();
    }
    let node = |byte: u8| NodeId(u16::from(byte) % NODES);
    let clock = |input: &mut Input<'_>| (0..NODES).map(|_| (input.byte() & 3).into()).collect();
    let told: Vec<_> = clock(input);
    let notices = (0..input.byte() & 3)
        .map(|_| {
            let byte = input.byte();
            let interval = (byte >> 6).into();
            WriteNotice { writer: node(byte), interval, minipage: minipage(input.byte()) }
        })
        .collect();
    let floor = clock(input);
    let last = input.byte();
    let turn = (last & 1 == 1).then(|| {
        let moves = vec![(minipage(input.byte()), node(last >> 1))];
        MigrationPlan { epoch: (last >> 4).into(), clock: told.clone(), moves }
    });
    WriteNotices {
        below: turn.is_none() && told.len() % 2 == 1,
        clock: told,
        notices,
        floor,
        plan: turn,
    }
    .to_bytes()
}

/// A frame with the payload that its kind may have.
fn frame(input: &mut Input<'_>, from: NodeId) -> Vec<u8> {
    let (op, kind, flags) = (input.byte(), input.byte() % KINDS, input.byte());
    let about = minipage(input.byte());
    let (thread, value) = (small(input) as u32, small(input) | small(input) << 32);
    let about_sync = u64::from(op >> 4);
    let (kind, subject, body) = match op & 7 {
        0 => (kind, about.0, Vec::new()),
        1 | 2 => (kind, about.0, diff(input)),
        3 => (kind, about.0, vec![op; bytes_of(about)]),
        4 => (kind, about_sync, Vec::new()),
        5 => (kind, about_sync, write_notices(input)),
        6 => (WRITE_NOTICES, 0, write_notices(input)),
        _ => (kind, about.0, input.counted().to_vec()),
    };
    let payload = body.len() as u64;
    let header =
        Header { kind, flags, from: from.0, thread, subject, value, payload, ..Header::default() };
    let mut frame = header.encode().to_vec();
    frame.extend(body);
    frame
}

/// One thing that happens to the victim.
pub fn step(
    input: &mut Input<'_>,
    from: NodeId,
    victim: &mut Victim,
    link: &mut Stream,
) -> Outcome {
    let op = input.byte();
    let bytes = match op & 3 {
        0 => return victim.act(input.byte(), minipage(op >> 2)),
        1 => return victim.synchronize(op >> 2, input.byte()),
        2 => frame(input, from),
        _ => {
            let members: Vec<u8> = (0..2 + (op >> 6)).flat_map(|_| frame(input, from)).collect();
            let (flags, payload) = (op >> 2 & 1, members.len() as u64);
            let header = Header { kind: BATCH, flags, from: from.0, payload, ..Header::default() };
            [header.encode().as_slice(), &members].concat()
        }
    };
    victim.receive(from, link, &bytes, || usize::MAX)
}
