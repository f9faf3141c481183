//! Writes the first inputs of every target: what real nodes say, in the form each target reads.
//!
//! `cargo run --example seeds [DIRECTORY]` makes DIRECTORY/TARGET/NAME, in `corpus` if not told.

use multigrain_memory::VIEWS_BASE;
use multigrain_protocol::invalidation_tree::Ranks;
use multigrain_protocol::{
    Attach, BarrierMessage, ConditionMessage, Kind, LockMessage, Message, PageMessage,
    ReadWriteMessage, SemaphoreMessage, Turns,
};
use multigrain_runtime::fuzzing::Codecs;
use multigrain_transport::fuzzing::{Shaker, TlsEnd};
use multigrain_transport::{Header, Refusal};
use multigrain_types::{Compression, MinipageId, NodeId, ThreadId};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const VIEWS: u64 = VIEWS_BASE as u64;

/// One message of every sort, as a manager, a holder and the synchronization engines send them.
fn messages() -> Vec<Message> {
    let (minipage, thread) = (MinipageId(1), ThreadId(3));
    let (kind, hurry) = (Kind::Write, true);
    let mut all: Vec<Message> = [
        PageMessage::Request { kind: Kind::Read },
        PageMessage::Request { kind },
        PageMessage::ReclaimRequest,
        PageMessage::PushRequest,
        PageMessage::Forward {
            kind,
            requester: NodeId(2),
            ack_now: hurry,
            turns: Turns { count: 2, longest_us: 0 },
        },
        PageMessage::PushForward { target: NodeId(2) },
        PageMessage::Reply { kind, attach: Attach::Page, ack_now: false, turns: Turns::NONE },
        PageMessage::Reply {
            kind,
            attach: Attach::Nothing,
            ack_now: hurry,
            turns: Turns { count: 3, longest_us: 90 },
        },
        PageMessage::PushReply,
        PageMessage::InvalidateRequest,
        PageMessage::InvalidateTree { below: Ranks::new(0, 0b1100).unwrap_or(Ranks::NONE) },
        PageMessage::InvalidateReply,
        PageMessage::Ack { turn_us: 0 },
        PageMessage::AckNow,
    ]
    .into_iter()
    .map(|body| body.about(minipage))
    .collect();
    all.extend([
        LockMessage::Request { tell: true }.about(1),
        LockMessage::Recall { to: NodeId(2), tell: false }.about(1),
        LockMessage::Grant.about(1),
        LockMessage::Offer.about(1),
        LockMessage::Probe.about(1),
        LockMessage::Busy.about(1),
        SemaphoreMessage::Try { thread }.about(1),
        SemaphoreMessage::Withdraw { thread }.about(1),
        SemaphoreMessage::Refused { thread }.about(1),
        ConditionMessage::Withdraw { thread }.about(1),
        ConditionMessage::Refused { thread }.about(1),
        ReadWriteMessage::Request { thread, kind: Kind::Write }.about(1),
        ReadWriteMessage::Grant { thread }.about(1),
        ReadWriteMessage::Try { thread, kind: Kind::Read }.about(1),
        ReadWriteMessage::Refused { thread }.about(1),
        ReadWriteMessage::Release { kind: Kind::Write }.about(1),
        BarrierMessage::Arrive { arrivals: 1, total: 2, quiescent: 0 }.about(1),
        BarrierMessage::Release { arrivals: 1, quiescent: true }.about(1),
        SemaphoreMessage::Request { thread }.about(1),
        SemaphoreMessage::Post { count: 2 }.about(1),
        SemaphoreMessage::Grant { thread }.about(1),
        ConditionMessage::Enqueue { thread }.about(1),
        ConditionMessage::Queued { thread }.about(1),
        ConditionMessage::Signal { all: true }.about(1),
        ConditionMessage::Wake { thread }.about(1),
    ]);
    all
}

/// The frame of a message, with a page of `bytes` if it carries one.
fn frame(message: Message, from: u16, bytes: usize) -> Vec<u8> {
    let words = message.to_words();
    let payload = if message.attach() == Attach::Page { bytes } else { 0 };
    let header = Header {
        kind: words.kind,
        flags: words.flags,
        from,
        thread: words.thread,
        subject: words.subject,
        value: words.value,
        extra: words.extra,
        payload: payload as u64,
    };
    [header.encode().to_vec(), vec![7; payload]].concat()
}

fn frames() -> Vec<Vec<u8>> {
    let all: Vec<u8> = messages().into_iter().flat_map(|message| frame(message, 1, 64)).collect();
    let bye = Header { kind: 243, from: 1, ..Header::default() }.encode();
    let batch =
        Header { kind: 244, from: 1, payload: all.len() as u64, ..Header::default() }.encode();
    let body = Header { kind: 68, flags: 1, from: 1, payload: 3, ..Header::default() }.encode();
    vec![
        [&[3, 10, 0, 200], &all[..]].concat(),
        [&[1, 33], &body[..], b"sum", &bye].concat(),
        [&[2, 0, 31], &all[..80]].concat(),
        [&[2, 40, 255], &batch[..], &all, &bye].concat(),
    ]
}

fn handshakes() -> Vec<Vec<u8>> {
    let job = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    let shaker = |rank| Shaker::new(NodeId(rank), 4, job, [9; 32], 3);
    let intruder = Shaker::new(NodeId(2), 4, job, [8; 32], 3);
    vec![
        [&[0], &shaker(2).hello()[..]].concat(),
        [&[0], &intruder.hello()[..]].concat(),
        [&[1], &shaker(0).welcome()[..]].concat(),
        [&[1], &shaker(0).refused(Refusal::Version(2))[..]].concat(),
        b"\0GET / HTTP/1.0\r\n\r\n".to_vec(),
    ]
}

/// Lengths, and so many bytes.
fn pieces(choice: u8, said: &[u8]) -> Vec<u8> {
    let pieces = said.chunks(255).flat_map(|piece| {
        let count = u8::try_from(piece.len()).expect("a short piece");
        [&[count], piece].concat()
    });
    core::iter::once(choice).chain(pieces).collect()
}

fn connections() -> Vec<Vec<u8>> {
    let [listens, connects] = [true, false].map(|listens| TlsEnd::new(listens, false));
    assert_eq!(connects.authenticate(), None);
    let hello = connects.said();
    assert!(listens.feed(&hello) && listens.authenticate().is_none());
    let answer = listens.said();
    // A record of nothing that anybody has sealed, and one that is longer than may be.
    let record = [&[23, 3, 3, 0, 40], &[7; 40][..], &[23, 3, 3, 255, 255]].concat();
    vec![
        pieces(0, &hello),
        pieces(4, &hello),
        pieces(1, &answer),
        pieces(0, b"GET / HTTP/1.1\r\n\r\n"),
        vec![2, 0, 60, 0, 0],
        vec![2, 1, 60, 0, 1],
        vec![6, 0, 200, 1, 128],
        pieces(3, &record),
    ]
}

/// A number as the target reads it; an address among the views from their start, wherever that is.
fn number(number: u64) -> Vec<u8> {
    let from_views = number.checked_sub(VIEWS).and_then(|offset| u32::try_from(offset).ok());
    match (u8::try_from(number), from_views) {
        (Ok(small @ ..250), _) => vec![small],
        (_, Some(offset)) => [&[254], &offset.to_le_bytes()[..]].concat(),
        (_, None) => [&[255], &number.to_le_bytes()[..]].concat(),
    }
}

/// A request with an area as its body: 8 KiB for 8 items, in minipages of 1 KiB or in pages.
fn area(kind: u8, id: u64, base: u64, file_offset: u64, pages: u64) -> Vec<u8> {
    let (slot, per_page) = if pages == 0 { (1024, 4) } else { (0, 0) };
    let fields =
        [0, 0, id, 1, base, file_offset, 8192, slot, per_page, pages, 1024, 8 / (pages + 1), 1, 0];
    let head = vec![1, kind - 64, 129];
    head.into_iter().chain(fields.into_iter().flat_map(number)).collect()
}

fn request(kind: u8, subject: u64, body: &[u8]) -> Vec<u8> {
    let count = u8::try_from(body.len()).expect("a short body");
    let head = vec![1, kind - 64, 1];
    [head, number(subject), number(0), vec![count], body.to_vec()].concat()
}

fn controls() -> Vec<Vec<u8>> {
    let base = VIEWS + (8 << 20);
    vec![
        [vec![0], area(64, 0, 0, 0, 0), request(66, 2, &[])].concat(),
        [vec![0], area(64, 0, 0, 0, 1)].concat(),
        [vec![1], area(65, 2, base, 16384, 0), request(67, base, &[])].concat(),
        [vec![0], request(68, 9, b"sum"), request(69, 0, b"sum"), request(69, 0, b"x")].concat(),
        [vec![4], request(67, VIEWS + 1024, &[]), request(67, VIEWS, &[])].concat(),
        [vec![1], request(71, 1, &[]), request(77, 1, &[]), request(72, 0, &[])].concat(),
        [vec![1], request(70, 1 << 20, &[])].concat(),
    ]
}

fn nodes() -> Vec<Vec<u8>> {
    // A frame step: op, kind, flags, thread, minipage, choice of payload.
    let step =
        |kind: u8, flags: u8, about: u8, payload: u8| vec![2, kind, flags, 0, about, payload];
    let fault = |write: u8, about: u8| vec![about << 2, write];
    let stream: Vec<u8> = frame(messages()[0], 1, 64);
    vec![
        // A fault on the other's minipage, its reply; a request for the own one, its ack.
        [vec![4], fault(0, 1), step(6, 2, 1, 1), vec![4, 6], step(8, 0, 1, 0)].concat(),
        [vec![4], step(1, 1, 0, 0), step(10, 0, 0, 0), fault(1, 0), step(6, 3, 0, 1)].concat(),
        [vec![0], step(1, 0, 0, 0), step(10, 0, 0, 0), step(1, 1, 0, 0), step(9, 0, 0, 0)].concat(),
        [vec![4, 9, u8::try_from(stream.len()).expect("a short frame")], stream].concat(),
        [vec![4], step(20, 0, 0, 0), step(23, 0, 0, 0), step(68, 0, 0, 3)].concat(),
    ]
}

fn talks() -> Vec<Vec<u8>> {
    let step = |message: &Message| {
        let words = message.to_words();
        let mut step = vec![1, words.kind, words.flags, words.thread as u8, words.subject as u8];
        if matches!(words.kind, 19 | 23) {
            step.push(words.value as u8);
        }
        step
    };
    let steps: Vec<Vec<u8>> = messages().iter().map(step).collect();
    let deeds: Vec<u8> = (0..12).flat_map(|op| [0, op, 5]).collect();
    let mut all: Vec<Vec<u8>> = steps.iter().map(|step| [&[0], &step[..]].concat()).collect();
    all.extend([[vec![0], steps.concat()].concat(), [vec![1], deeds].concat()]);
    all
}

fn lines() -> Vec<Vec<u8>> {
    let says = "ready\nprogress 3 10\nrefused node 1 refused a connection\nlost 2 died\n\
                fatal out of memory\nstats {\"upgrades\": 4, \"guard\": \"uffd\"}\nleft\n";
    vec![[b"\x02\x05\x40", says.as_bytes()].concat(), b"\0lost x\nprogress 1\n\xff\n".to_vec()]
}

fn areas() -> Vec<Vec<u8>> {
    let area = |choice: u8, bytes: u64, slot: u32, per_page: u16, pages: u32| {
        let mut all = vec![choice];
        all.extend(7u32.to_le_bytes());
        all.extend((VIEWS + (4 << 20)).to_le_bytes());
        all.extend(8192u64.to_le_bytes());
        all.extend(bytes.to_le_bytes());
        all.extend(slot.to_le_bytes());
        all.extend(per_page.to_le_bytes());
        all.extend(pages.to_le_bytes());
        all.extend([1, 2, 3, 4, 250, 0, 0, 0]);
        all
    };
    vec![
        area(0, 20 * 4096, 0, 0, 3),
        area(2, 65536, 64, 64, 0),
        area(7, 1 << 30, 148, 0, 0),
        area(1, 5 << 30, 0, 0, 16),
    ]
}

fn contents() -> Vec<Vec<u8>> {
    let mut codecs = Codecs::new();
    let text = b"a page that is sent to another node ".repeat(20);
    let word = [1, 2, 3, 4, 5, 6, 7, 8].repeat(512);
    let counted: Vec<u8> = (0..256_u32).flat_map(|number| (number / 9).to_le_bytes()).collect();
    let mut seeds = vec![text.clone()];
    for (number, codec) in (0..).zip(Compression::ALL) {
        for page in [&text, &word, &counted] {
            let Some(packed) = codecs.encode(codec, page) else { continue };
            let bytes = u16::try_from(page.len()).expect("a page").to_le_bytes();
            seeds.push([&[number], &bytes[..], packed].concat());
        }
    }
    seeds
}

fn write(directory: &Path, target: &str, seeds: &[Vec<u8>]) -> io::Result<()> {
    let place = directory.join(target);
    fs::create_dir_all(&place)?;
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(place.join(format!("seed-{number:02}")), seed)?;
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let directory = PathBuf::from(env::args_os().nth(1).unwrap_or_else(|| "corpus".into()));
    write(&directory, "frame", &frames())?;
    write(&directory, "handshake", &handshakes())?;
    write(&directory, "tls", &connections())?;
    write(&directory, "control", &controls())?;
    write(&directory, "node", &nodes())?;
    write(&directory, "messages", &talks())?;
    write(&directory, "contents", &contents())?;
    write(&directory, "launcher", &lines())?;
    write(&directory, "layout", &areas())
}
