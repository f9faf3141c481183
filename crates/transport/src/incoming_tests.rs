//! The parser against streams cut anywhere.

use super::*;
use crate::fuzzing::fill;
use proptest::prelude::*;

/// Memory that payloads are placed in, one area per subject. Miri is slow.
const AREA: usize = if cfg!(miri) { 6_000 } else { 70_000 };

struct Seen {
    memory: Vec<u8>,
    frames: Vec<(Header, Vec<u8>)>,
    lost: Vec<LostReason>,
    /// Frames delivered when a place was asked for.
    placed_after: Vec<usize>,
    /// The places are not for who was given them any more.
    taken_back: bool,
}

impl Seen {
    fn new(subjects: usize) -> Self {
        Self {
            memory: vec![0; AREA * subjects],
            frames: Vec::new(),
            lost: Vec::new(),
            placed_after: Vec::new(),
            taken_back: false,
        }
    }

    fn area(&mut self, subject: u64) -> *mut u8 {
        self.memory.as_mut_ptr().wrapping_add(usize::try_from(subject).unwrap() * AREA)
    }
}

// SAFETY: the areas live as long as the sink and are longer than any payload of these tests.
unsafe impl Sink for Seen {
    fn place(&mut self, _from: NodeId, header: &Header) -> Result<Destination, String> {
        self.placed_after.push(self.frames.len());
        match header.flags {
            0 => Ok(Destination::At(self.area(header.subject))),
            1 => Ok(Destination::Buffer),
            _ => Err("no place".to_owned()),
        }
    }

    fn goes_on(&mut self, _: NodeId, _: &Header) -> Result<(), String> {
        if self.taken_back { Err("in use".to_owned()) } else { Ok(()) }
    }

    fn frame(&mut self, _: NodeId, header: &Header, body: Option<&[u8]>) -> Result<(), String> {
        let start = usize::try_from(header.subject).unwrap() * AREA;
        let placed = || self.memory[start..start + header.payload_bytes()].to_vec();
        let body = body.map_or_else(placed, <[u8]>::to_vec);
        self.frames.push((*header, body));
        Ok(())
    }

    fn lost(&mut self, _from: NodeId, reason: LostReason) {
        self.lost.push(reason);
    }

    fn refused(&mut self, _line: String) {}
}

fn frame(flags: u8, subject: u64, len: usize, seed: u8) -> (Header, Vec<u8>) {
    let payload = len as u64;
    let header =
        Header { kind: 7, flags, from: 3, thread: 1, subject, value: 2, extra: 3, payload };
    let bytes = (0..=250).cycle().map(|step: u8| seed.wrapping_add(step)).take(len).collect();
    (header, bytes)
}

fn stream(frames: &[(Header, Vec<u8>)]) -> Vec<u8> {
    frames.iter().flat_map(|(header, body)| [&header.encode()[..], body].concat()).collect()
}

/// The frames as the members of one batch.
fn batch(frames: &[(Header, Vec<u8>)]) -> (Header, Vec<u8>) {
    let payload = stream(frames);
    let bytes = payload.len() as u64;
    (Header { kind: BATCH, from: 3, payload: bytes, ..Header::default() }, payload)
}

/// What a parser makes of a stream that comes in one read.
fn read_all(bytes: &[u8]) -> (Seen, Result<Input, LostReason>) {
    let (mut seen, mut staging) = (Seen::new(1), Staging::new());
    let mut parser = Incoming::new(NodeId(3));
    let mut rest = bytes;
    let mut read = Ok(Input::Drained);
    while read.is_ok() && !rest.is_empty() {
        read = pump(&mut parser, &mut seen, &mut staging, &mut rest, usize::MAX);
    }
    (seen, read)
}

/// One read of `most` bytes at most.
fn pump(
    parser: &mut Incoming,
    seen: &mut Seen,
    staging: &mut Staging,
    stream: &mut &[u8],
    most: usize,
) -> Result<Input, LostReason> {
    let mut context = ReceiveContext::new(staging, seen);
    parser.pump(|spans| Ok(fill(spans, stream, most)), &mut context)
}

#[test]
fn what_a_peer_must_not_send_is_a_violation_and_never_a_panic() {
    let (good, body) = frame(0, 0, 10, 1);
    let bad = [
        Header { kind: 0, ..good },
        Header { kind: 240, ..good },
        Header { kind: BYE, ..good },
        Header { from: 2, ..good },
        Header { flags: 2, ..good },
        Header { flags: 1, payload: MAX_BUFFER + 1, ..good },
        Header { payload: u64::MAX, ..good },
        Header { kind: BATCH + 1, ..good },
    ];
    for header in bad {
        let bytes = stream(&[(header, body.clone())]);
        let (mut seen, mut staging) = (Seen::new(1), Staging::new());
        let mut parser = Incoming::new(NodeId(3));
        let read = pump(&mut parser, &mut seen, &mut staging, &mut &bytes[..], 1000);
        assert!(matches!(read, Err(LostReason::Violation(_))), "{header:?}: {read:?}");
        assert!(seen.frames.is_empty());
    }
}

#[test]
fn a_batch_of_what_must_not_be_in_one_is_a_violation_after_its_good_frames() {
    let good = frame(0, 0, 10, 1);
    let with = |header: Header| batch(&[good.clone(), (header, good.1.clone())]);
    let kind = |kind: u8| with(Header { kind, ..good.0 });
    let bye = Header { kind: BYE, from: 3, ..Header::default() };
    let long = Header { flags: 1, payload: MAX_BUFFER + 1, ..good.0 };
    let bad = [
        (
            batch(&[good.clone(), batch(core::slice::from_ref(&good))]),
            "has no business in it: kind 244",
        ),
        (batch(&[good.clone(), (bye, Vec::new())]), "has no business in it: kind 243"),
        (kind(LAST_KIND + 1), "has no business in it: kind 240"),
        (kind(0), "illegal frame kind 0"),
        (with(Header { from: 2, ..good.0 }), "another node's frame"),
        (with(Header { payload: 11, ..good.0 }), "cut short"),
        (with(Header { payload: 9, ..good.0 }), "here are 1"),
        (with(Header { flags: 2, ..good.0 }), "no place"),
        (batch(&[good.clone(), (long, vec![0; 1 + (1 << 20)])]), "1048577 bytes, in a batch"),
    ];
    for (batch, why) in bad {
        let (seen, read) = read_all(&stream(&[batch]));
        let Err(LostReason::Violation(text)) = read else { panic!("{why}: {read:?}") };
        assert!(text.contains(why), "{why}: {text}");
        // With 9 bytes of 10 the second frame is whole, too, and one byte is left.
        let whole = if why == "here are 1" { 2 } else { 1 };
        assert_eq!(seen.frames.len(), whole, "{why}");
    }
}

#[test]
fn a_batch_of_nothing_or_of_too_much_is_a_violation() {
    let bad = [
        (0, 0, "a batch of nothing"),
        (MAX_BATCH + 1, 0, "too long for a batch"),
        (64, MORE_FOLLOWS << 1, "with unknown flags"),
    ];
    for (payload, flags, why) in bad {
        let header = Header { payload, flags, ..batch(&[]).0 };
        let (_, read) = read_all(&header.encode());
        let Err(LostReason::Violation(text)) = read else { panic!("{why}: {read:?}") };
        assert!(text.contains(why), "{text}");
    }
}

/// A frame in parts of so many bytes.
fn in_parts(frame: &(Header, Vec<u8>), part: usize) -> Vec<(Header, Vec<u8>)> {
    let own = |kind, payload| Header { kind, from: 3, payload, ..Header::default() };
    let parts = frame.1.chunks(part).map(|part| (own(PART, part.len() as u64), part.to_vec()));
    [(own(PARTED, 0), Vec::new()), (frame.0, Vec::new())].into_iter().chain(parts).collect()
}

#[test]
fn a_payload_in_parts_arrives_whole_and_what_is_in_the_place_of_a_part_is_a_violation() {
    let sent = [frame(0, 0, 10, 1), frame(1, 0, 5, 2)];
    let (seen, read) = read_all(&stream(&sent.each_ref().map(|one| in_parts(one, 4)).concat()));
    assert_eq!((read.is_ok(), seen.frames), (true, sent.to_vec()));
    let parts = in_parts(&sent[0], 4);
    let [announced, header, first] = [0, 1, 2].map(|at| parts[at].clone());
    let taken = (Header { kind: PART_TAKEN, ..announced.0 }, Vec::new());
    let of = |part: &(Header, Vec<u8>), payload: usize| {
        (Header { payload: payload as u64, ..part.0 }, vec![0; payload])
    };
    let no_payload = (Header { payload: 0, ..header.0 }, Vec::new());
    let bad = [
        (vec![announced.clone(), announced.clone()], "in the place of a part"),
        (vec![announced.clone(), first.clone()], "in the place of a part"),
        (vec![announced.clone(), no_payload], "in the place of a part"),
        (vec![announced.clone(), batch(&sent)], "in the place of a part"),
        (vec![of(&announced, 1)], "a kind that has no business here"),
        (vec![first.clone()], "a kind that has no business here"),
        (vec![of(&taken, 1)], "a kind that has no business here"),
        (vec![announced.clone(), header.clone(), sent[1].clone()], "in the place of a part"),
        (vec![announced.clone(), header.clone(), announced.clone()], "in the place of a part"),
        (vec![announced.clone(), header.clone(), of(&first, 0)], "a part that does not fit"),
        (vec![announced.clone(), header.clone(), of(&first, 11)], "a part that does not fit"),
        (vec![announced, header, first.clone(), of(&first, 7)], "a part that does not fit"),
    ];
    for (frames, why) in bad {
        let (seen, read) = read_all(&stream(&frames));
        let Err(LostReason::Violation(text)) = read else { panic!("{why}: {read:?} {frames:?}") };
        assert!(text.contains(why), "{why}: {text} {frames:?}");
        assert!(seen.frames.is_empty());
    }
}

#[test]
fn a_page_in_a_batch_goes_to_its_place_when_its_turn_comes() {
    let sent = [frame(0, 0, 10, 1), frame(1, 0, 5, 2), frame(0, 0, 0, 3), frame(0, 0, 10, 4)];
    let (seen, read) = read_all(&stream(&[batch(&sent)]));
    assert!(read.is_ok());
    // Two pages went to the same place, one after the other.
    assert_eq!(seen.frames, sent);
    assert_eq!(seen.placed_after, [0, 1, 3]);
}

#[test]
fn the_end_of_the_stream_is_death_unless_bye_came_before() {
    let bye = Header { kind: BYE, from: 3, ..Header::default() }.encode();
    let (mut seen, mut staging) = (Seen::new(1), Staging::new());
    for (said, reason) in
        [(&bye[..], LostReason::Left), (&[], LostReason::Died), (&bye[..9], LostReason::Died)]
    {
        let mut parser = Incoming::new(NodeId(3));
        let mut rest = said;
        while !rest.is_empty() {
            pump(&mut parser, &mut seen, &mut staging, &mut rest, 5).unwrap();
        }
        let end = pump(&mut parser, &mut seen, &mut staging, &mut rest, 5);
        assert_eq!(end, Err(reason));
    }
}

#[test]
fn a_reset_after_bye_is_no_death() {
    let bye = Header { kind: BYE, from: 3, ..Header::default() }.encode();
    let (mut seen, mut staging) = (Seen::new(1), Staging::new());
    for errno in [Errno::CONNRESET, Errno::PIPE] {
        for (said, reason) in [(&bye[..], LostReason::Left), (&bye[..9], LostReason::Died)] {
            let mut parser = Incoming::new(NodeId(3));
            let mut rest = said;
            while !rest.is_empty() {
                pump(&mut parser, &mut seen, &mut staging, &mut rest, 5).unwrap();
            }
            let mut context = ReceiveContext::new(&mut staging, &mut seen);
            assert_eq!(parser.pump(|_| Err(errno), &mut context), Err(reason));
        }
    }
}

const SUBJECTS: usize = 4;

fn any_frame() -> impl Strategy<Value = (Header, Vec<u8>)> {
    let len = prop_oneof![Just(0), 1..64usize, Just(4096), 4000..5000usize, 0..AREA];
    (0..2u8, 0..SUBJECTS as u64, len, any::<u8>())
        .prop_map(|(flags, subject, len, seed)| frame(flags, subject, len, seed))
}

/// One frame, or a batch of some.
fn any_message() -> impl Strategy<Value = Vec<(Header, Vec<u8>)>> {
    prop_oneof![
        any_frame().prop_map(|frame| vec![frame]),
        proptest::collection::vec(any_frame(), 2..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 300 }, ..ProptestConfig::default() })]
    #[test]
    fn every_cut_gives_the_same_frames(
        messages in proptest::collection::vec(any_message(), 1..if cfg!(miri) { 4 } else { 12 }),
        cuts in proptest::collection::vec(prop_oneof![1..40usize, 1..10_000usize], 1..40),
    ) {
        let wire = |message: &Vec<(Header, Vec<u8>)>| match &message[..] {
            [alone] => alone.clone(),
            several => batch(several),
        };
        let bytes = stream(&messages.iter().map(wire).collect::<Vec<_>>());
        let sent = messages.concat();
        let (mut seen, mut staging) = (Seen::new(SUBJECTS), Staging::new());
        let mut parser = Incoming::new(NodeId(3));
        let mut rest = &bytes[..];
        for cut in cuts.into_iter().cycle() {
            let read = pump(&mut parser, &mut seen, &mut staging, &mut rest, cut);
            prop_assert!(read.is_ok());
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(seen.frames, sent);
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let (mut seen, mut staging) = (Seen::new(1), Staging::new());
        let mut parser = Incoming::new(NodeId(3));
        let mut good_start = Header { kind: 1, from: 3, ..Header::default() }.encode().to_vec();
        good_start.extend(bytes);
        let mut rest = &good_start[..];
        while !rest.is_empty() {
            if pump(&mut parser, &mut seen, &mut staging, &mut rest, 7).is_err() {
                break;
            }
        }
    }
}

/// Another peer may have supplied meanwhile what this payload is for.
#[test]
fn a_payload_does_not_go_on_into_a_place_that_was_taken_back() {
    let sent = frame(0, 0, 5_000, 1);
    let announced = Header::BYTES * 2 + Header::BYTES;
    for (stream, first) in [
        (stream(core::slice::from_ref(&sent)), Header::BYTES + 100),
        (stream(&in_parts(&sent, 100)), announced + 100),
    ] {
        let (mut seen, mut staging) = (Seen::new(1), Staging::new());
        let (mut parser, mut rest) = (Incoming::new(NodeId(3)), &stream[..]);
        assert!(pump(&mut parser, &mut seen, &mut staging, &mut rest, first).is_ok());
        assert_eq!(seen.memory[..100], sent.1[..100]);
        seen.taken_back = true;
        let read = pump(&mut parser, &mut seen, &mut staging, &mut rest, usize::MAX);
        assert_eq!(read.unwrap_err(), LostReason::Violation("in use".to_owned()));
        assert!(seen.memory[100..].iter().all(|&byte| byte == 0) && seen.frames.is_empty());
    }
}
