//! What a hostile node can make another one store. Under shuttle, which provides a runtime over a pair of sockets;
//! one schedule is enough.

#![expect(unsafe_code, reason = "the other node's sink")]

use multigrain_memory::{Area, GuardChoice, Memory, Shape, VIEWS_BASE};
use multigrain_protocol::sync::{Element, Operation};
use multigrain_protocol::{
    Attach, HlrcMessage, Input, Kind, Message, MgsMessage, PageMessage, Turns,
};
use multigrain_transport::{Destination, Header, LostReason, Mesh, Sink, Timeout, pair};
use multigrain_types::{AreaId, Compression, Consistency, MinipageId, NodeId, Placement, ThreadId};

use crate::area::{AreaRecord, Items, NamedSharing, Origin};
use crate::atomic_op::{AtomicAction, AtomicOp};
use crate::config::Config;
use crate::directory::names;
use crate::driver::sink::NodeSink;
use crate::frames::{COMPRESSED, DriverFrame, Request, header_of};
use crate::job::Runtime;
use crate::receiver::slots;
use crate::shuttle_tests::play_random;

/// Node 1 asks what node 0 keeps: a thread of it one thing at a time, and not too many names.
fn ask_too_much() {
    slots::forget_all();
    let [ours, theirs] = pair(None);
    let memory = multigrain_memory::Config::new(4096, GuardChoice::Mprotect);
    let memory = Memory::new(&memory).unwrap();
    let runtime = Runtime::assemble(&Config::single(), 2, memory, ours, None).unwrap();
    let asks = |kind, thread, body: &[u8]| {
        let header = Header { kind, thread, ..Header::default() };
        runtime.driver.serve_request(NodeId(1), &header, body).is_ok()
    };
    assert!(
        asks(Request::Lookup.number(), 3, b"late") && asks(Request::Lookup.number(), 4, b"late")
    );
    assert!(!asks(Request::Lookup.number(), 3, b"other"), "it waits for its answer");
    assert!(!asks(Request::ThreadJoin.number(), 4, b""), "so does this one");
    assert!(!asks(Request::Lookup.number(), 4096, b"late"), "no node has such a thread");
    assert!(asks(Request::Publish.number(), 5, b"late"));
    assert!(asks(Request::Lookup.number(), 3, b"late"), "it has its answer");
    let mut codes = Codes::default();
    while codes.0.len() < 4 {
        theirs.receive(&mut codes, Timeout::Now);
    }
    for number in 1..names::MOST + 1 {
        assert!(asks(Request::Publish.number(), 5, &number.to_le_bytes()));
        theirs.receive(&mut codes, Timeout::Now);
    }
    assert!(asks(Request::Publish.number(), 5, b"late"), "a name that there is");
    while codes.0.len() < 4 + names::MOST + 1 {
        theirs.receive(&mut codes, Timeout::Now);
    }
    let refused: Vec<usize> = (0..codes.0.len()).filter(|&answer| codes.0[answer] != 0).collect();
    assert_eq!(refused, [4 + names::MOST - 1], "one name too many");
    assert_eq!(codes.0[refused[0]], u64::from((-7i32).cast_unsigned()));
}

/// Node 1 answers what it was not asked, and gives node 0 what it did not ask for.
fn answer_unasked() {
    slots::forget_all();
    let [ours, theirs] = pair(None);
    let memory = multigrain_memory::Config::new(4096, GuardChoice::Mprotect);
    let memory = Memory::new(&memory).unwrap();
    let runtime = Runtime::assemble(&Config::single(), 2, memory, ours, None).unwrap();
    let header = |kind| Header { kind, thread: 3, ..Header::default() };
    let serve = |from, header| runtime.driver.serve_request(NodeId(from), &header, b"");
    let why = serve(1, header(DriverFrame::Answer.number())).unwrap_err();
    assert_eq!(why, "it answers thread 3, which has not asked it");
    runtime.driver.pretend_to_ask(ThreadId(3), NodeId(1), Request::Free);
    let odd = Header { subject: 1 << 32, ..header(DriverFrame::Answer.number()) };
    assert_eq!(serve(1, odd), Err("an answer with code 4294967296".to_owned()));
    assert_eq!(serve(1, header(DriverFrame::Answer.number())), Ok(()));
    assert!(serve(1, header(DriverFrame::Answer.number())).is_err(), "it has its answer");
    assert!(serve(1, header(Request::AreaMapped.number())).is_err(), "no area waits for that");
    drop(theirs);
}

#[test]
fn an_answer_that_nobody_asked_for_is_refused() {
    play_random(answer_unasked, 1);
}

/// The codes of all answers.
#[derive(Default)]
struct Codes(Vec<u64>);

// SAFETY: it names no place.
unsafe impl Sink for Codes {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, _: NodeId, header: &Header, _: Option<&[u8]>) -> Result<(), String> {
        assert_eq!(header.kind, DriverFrame::Answer.number());
        self.0.push(header.subject);
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        panic!("{reason}");
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

#[test]
fn a_thread_asks_one_thing_at_a_time_and_a_job_has_so_many_names() {
    play_random(ask_too_much, 1);
}

/// Node 0, with memory for two pages.
fn node_of_two_pages(mesh: Mesh) -> Runtime {
    slots::forget_all();
    let memory = multigrain_memory::Config::new(2 * 4096, GuardChoice::Mprotect);
    let memory = Memory::new(&memory).unwrap();
    Runtime::assemble(&Config::single(), 2, memory, mesh, None).unwrap()
}

/// An area of one sequentially consistent page, the first or the second of them.
fn page_of(owner: NodeId, id: u32, origin: Origin) -> AreaRecord {
    let (shape, bytes) = (Shape::Pages { pages: 1 }, 4096);
    let base = VIEWS_BASE + usize::try_from(id).unwrap() * multigrain_memory::VIEW_ALIGN;
    let area = Area { id: AreaId(id), base, file_offset: u64::from(id) * bytes, bytes, shape };
    let items = Items { bytes, count: 1, chunk: 1, array: false };
    AreaRecord { area, owner, items, consistency: Consistency::Sequential, origin }
}

/// Node 1 takes back minipages, of which one is its own.
fn take_back() {
    let [ours, _theirs] = pair(None);
    let runtime = node_of_two_pages(ours);
    for (id, owner) in [(0, NodeId(0)), (1, NodeId(1))] {
        assert_eq!(runtime.adopt(page_of(owner, id, Origin::Heap)), 0);
        let message = PageMessage::ReclaimRequest.about(MinipageId::new(AreaId(id), 0));
        let place = NodeSink::new(&runtime.driver).place(NodeId(1), &header_of(message));
        assert_eq!(place.is_err_and(|why| why.contains("not its own")), owner == NodeId(0));
    }
}

#[test]
fn a_node_takes_back_only_what_it_allocated() {
    play_random(take_back, 1);
}

/// A node of two, with an area of each.
fn with_areas(me: u16) -> (Runtime, Mesh) {
    slots::forget_all();
    let mut meshes = pair(None).into_iter();
    let (zero, one) = (meshes.next().unwrap(), meshes.next().unwrap());
    let (ours, theirs) = if me == 0 { (zero, one) } else { (one, zero) };
    let memory = multigrain_memory::Config::new(2 * 4096, GuardChoice::Mprotect);
    let memory = Memory::new(&memory).unwrap();
    let config = Config { rank: NodeId(me), ..Config::single() };
    let runtime = Runtime::assemble(&config, 2, memory, ours, None).unwrap();
    let (shape, bytes) = (Shape::Pages { pages: 1 }, 4096);
    let items = Items { bytes, count: 1, chunk: 1, array: false };
    for (id, owner) in [(0, NodeId(0)), (1, NodeId(1))] {
        let base = VIEWS_BASE + usize::from(owner.0) * multigrain_memory::VIEW_ALIGN;
        let area = Area { id: AreaId(id), base, file_offset: u64::from(id) * bytes, bytes, shape };
        let consistency = Consistency::Sequential;
        assert_eq!(
            runtime.adopt(AreaRecord { area, owner, items, consistency, origin: Origin::Heap }),
            0
        );
    }
    (runtime, theirs)
}

/// Kinds and subjects of what came.
#[derive(Default)]
struct Frames(Vec<(u8, u64)>);

impl Frames {
    /// The next two that come.
    fn two(mesh: &Mesh) -> [(u8, u64); 2] {
        let mut frames = Self::default();
        while frames.0.len() < 2 {
            mesh.receive(&mut frames, Timeout::Now);
        }
        frames.0.try_into().unwrap()
    }
}

// SAFETY: it names no place.
unsafe impl Sink for Frames {
    fn place(&mut self, _: NodeId, _: &Header) -> Result<Destination, String> {
        Ok(Destination::Buffer)
    }

    fn frame(&mut self, _: NodeId, header: &Header, _: Option<&[u8]>) -> Result<(), String> {
        self.0.push((header.kind, header.subject));
        Ok(())
    }

    fn lost(&mut self, _: NodeId, reason: LostReason) {
        panic!("{reason}");
    }

    fn refused(&mut self, line: String) {
        panic!("{line}");
    }
}

const NOT_PERMITTED: u64 = (-10i32).cast_unsigned() as u64;

/// Node 1 gives back node 0's area, which is in use, and then its own, which it says is in use.
fn give_back() {
    let (runtime, theirs) = with_areas(0);
    let says = |kind, thread, subject, value| {
        let header = Header { kind, thread, subject, value, ..Header::default() };
        runtime.driver.serve_request(NodeId(1), &header, b"")
    };
    assert_eq!(says(Request::AreaReturn.number(), 3, 0, 0), Ok(()));
    assert_eq!(says(Request::AreaReturn.number(), 4, 1, 0), Ok(()));
    let came = Frames::two(&theirs);
    assert_eq!(
        came,
        [(DriverFrame::Answer.number(), NOT_PERMITTED), (Request::AreaRetire.number(), 1)]
    );
    assert!(runtime.driver.memory().area(AreaId(1)).is_some(), "first from who has made it");
    assert_eq!(says(Request::AreaMapped.number(), 0, 1, NOT_PERMITTED), Ok(()));
    assert!(says(Request::AreaMapped.number(), 0, 1, 0).is_err(), "once");
    assert_eq!(says(Request::AreaReturn.number(), 3, 1, 0), Ok(()));
    let came = Frames::two(&theirs);
    assert_eq!(
        came,
        [(DriverFrame::Answer.number(), NOT_PERMITTED), (Request::AreaRetire.number(), 1)]
    );
    let left = |id| runtime.driver.memory().area(AreaId(id)).is_some();
    assert!(left(0) && left(1));
    assert_eq!(says(Request::AreaMapped.number(), 0, 1, 0), Ok(()));
    assert!(left(0) && !left(1));
}

#[test]
fn an_area_goes_from_nobody_before_who_has_made_it_lets_it_go() {
    play_random(give_back, 1);
}

/// Node 1 asks for atomic operations: on a word of node 0's, and on what node 0 must not touch for it.
fn act_on_words() {
    let [ours, theirs] = pair(None);
    let runtime = node_of_two_pages(ours);
    assert_eq!(runtime.adopt(page_of(NodeId(0), 0, Origin::Heap)), 0);
    let relaxed = Consistency::LazyRelease;
    let other = AreaRecord { consistency: relaxed, ..page_of(NodeId(0), 1, Origin::Heap) };
    assert_eq!(runtime.adopt(other), 0);
    let [own, lazy] = [0, 1].map(|id| VIEWS_BASE + id * multigrain_memory::VIEW_ALIGN);
    let add = AtomicAction::Combine(Operation::Sum);
    let add = AtomicOp::new(add, Element::Int64, 7).unwrap().to_bytes();
    let asks = |thread, address: usize, body: &[u8]| {
        let (kind, subject) = (DriverFrame::Atomic.number(), address as u64);
        let header = Header { kind, thread, subject, ..Header::default() };
        runtime.driver.serve_request(NodeId(1), &header, body).is_ok()
    };
    assert!(asks(0, own, &add) && asks(1, own + 4088, &add));
    assert!(!asks(2, own + 4, &add), "not aligned");
    assert!(!asks(4, 0, &add) && !asks(5, usize::MAX - 7, &add), "no shared memory");
    assert!(!asks(7, own, &add[1..]) && !asks(8, own, &[9; 18]), "no operation");
    // What lay there when it was asked for may have been freed.
    assert!(asks(3, own + 4096, &add), "behind its minipage");
    assert!(asks(6, lazy, &add), "of another consistency");
    let mut codes = Codes::default();
    while codes.0.len() < 4 {
        theirs.receive(&mut codes, Timeout::Now);
    }
    assert_eq!(codes.0, [0, 0, BUSY, BUSY]);
    let minipage = MinipageId::new(AreaId(0), 0);
    let (place, _) = runtime.driver.memory().privileged(minipage);
    let word = |at: usize| {
        // SAFETY: it lies in the page, which nobody else uses.
        unsafe { place.wrapping_add(at).cast::<u64>().read() }
    };
    assert_eq!((word(0), word(8), word(4088)), (7, 0, 7));
}

#[test]
fn an_atomic_operation_of_another_node_is_for_a_word_that_this_one_manages() {
    play_random(act_on_words, 1);
}

const BUSY: u64 = crate::error_code::BUSY.cast_unsigned() as u64;

/// A word that node 1 manages is none that it may ask node 0 for.
fn act_on_own_word() {
    let [ours, theirs] = pair(None);
    let runtime = node_of_two_pages(ours);
    assert_eq!(runtime.adopt(page_of(NodeId(1), 0, Origin::Heap)), 0);
    let op = AtomicOp::new(AtomicAction::Exchange, Element::Int64, 7).unwrap();
    let (kind, subject) = (DriverFrame::Atomic.number(), VIEWS_BASE as u64);
    let header = Header { kind, subject, ..Header::default() };
    assert_eq!(runtime.driver.serve_request(NodeId(1), &header, &op.to_bytes()), Ok(()));
    let mut codes = Codes::default();
    while codes.0.is_empty() {
        theirs.receive(&mut codes, Timeout::Now);
    }
    assert_eq!(codes.0, [BUSY]);
}

#[test]
fn an_atomic_operation_goes_to_no_node_but_the_manager() {
    play_random(act_on_own_word, 1);
}

/// Node 0 takes areas away from node 1, of which one is node 1's own and in use.
fn take_away() {
    let (runtime, theirs) = with_areas(1);
    let takes = |subject| {
        let header = Header { kind: Request::AreaRetire.number(), subject, ..Header::default() };
        runtime.driver.serve_request(NodeId(0), &header, b"")
    };
    assert!(takes(7).is_err() && takes(1 << 32).is_err());
    assert_eq!((takes(1), takes(0)), (Ok(()), Ok(())));
    assert_eq!(
        Frames::two(&theirs),
        [(Request::AreaMapped.number(), 1), (Request::AreaMapped.number(), 0)]
    );
    let left = |id| runtime.driver.memory().area(AreaId(id)).is_some();
    assert!(left(1) && !left(0));
    assert!(takes(0).is_err(), "it is gone");
}

#[test]
fn node_0_takes_no_area_from_its_owner_that_was_not_given_back() {
    play_random(take_away, 1);
}

/// A page of each release consistent kind, whose diffs may be so long and no longer.
fn send_long_diffs() {
    slots::forget_all();
    let [ours, _theirs] = pair(None);
    let memory = multigrain_memory::Config::new(4 * 4096, GuardChoice::Mprotect);
    let memory = Memory::new(&memory).unwrap();
    let runtime = Runtime::assemble(&Config::single(), 2, memory, ours, None).unwrap();
    let (shape, bytes) = (Shape::Pages { pages: 1 }, 4096);
    let items = Items { bytes, count: 1, chunk: 1, array: false };
    let place = |id: u32, payload| {
        let minipage = MinipageId::new(AreaId(id), 0);
        let message = if id == 0 {
            MgsMessage::Diff.about(minipage)
        } else {
            HlrcMessage::Diff { writer: NodeId(1), flush: 1, epoch: 0 }.about(minipage)
        };
        NodeSink::new(&runtime.driver).place(NodeId(1), &Header { payload, ..header_of(message) })
    };
    let relaxed = [Consistency::EagerRelease, Consistency::LazyRelease, Consistency::Auto];
    for (id, consistency) in (0..).zip(relaxed) {
        let number = usize::try_from(id).unwrap();
        let base = VIEWS_BASE + number * multigrain_memory::VIEW_ALIGN;
        let area = Area { id: AreaId(id), base, file_offset: u64::from(id) * bytes, bytes, shape };
        assert_eq!(
            runtime.adopt(AreaRecord {
                area,
                owner: NodeId(0),
                items,
                consistency,
                origin: Origin::Heap
            }),
            0
        );
        assert_eq!(place(id, 64 * 80), Ok(Destination::Buffer));
        let refused = place(id, 64 * 80 + 1).unwrap_err();
        assert!(refused.starts_with("a diff of 5121 bytes"), "{refused}");
    }
}

#[test]
fn a_diff_is_no_longer_than_its_minipage_allows() {
    play_random(send_long_diffs, 1);
}

/// Node 1 sends compressed contents of its segment, which node 0 awaits, or says that they are.
fn send_wrong_codes() {
    let [ours, _theirs] = pair(None);
    let runtime = node_of_two_pages(ours);
    let (placement, compression) = (Placement::Allocator, Compression::RunLength);
    let named = Origin::Named(NamedSharing { placement, compression });
    for (id, origin) in (0..).zip([named, Origin::Heap]) {
        assert_eq!(runtime.adopt(page_of(NodeId(1), id, origin)), 0);
    }
    let page = |id| MinipageId::new(AreaId(id), 0);
    let (kind, attach) = (Kind::Read, Attach::Page);
    let reply = PageMessage::Reply { kind, attach, ack_now: false, turns: Turns::NONE };
    let receive = |message: Message, body: &[u8]| {
        let plain = header_of(message);
        let (flags, payload) = (plain.flags | COMPRESSED, body.len() as u64);
        let header = Header { flags, payload, from: 1, ..plain };
        let mut sink = NodeSink::new(&runtime.driver);
        if payload > 0 {
            assert_eq!(sink.place(NodeId(1), &header)?, Destination::Buffer, "beside the page");
        }
        sink.frame(NodeId(1), &header, (payload > 0).then_some(body))
    };
    let refused = |message: Message, body: &[u8], why: &str| {
        let said = receive(message, body).unwrap_err();
        assert!(said.contains(why), "{said}");
    };
    let word = [[0, 0x82].as_slice(), &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
    for id in 0..2 {
        let (thread, minipage) = (ThreadId(id), page(id));
        runtime.driver.engine().step_sure(Input::Fault { thread, minipage, kind });
    }
    refused(PageMessage::Ack { turn_us: 0 }.about(page(0)), &[], "has no contents, compressed");
    refused(reply.about(page(1)), &word, "whose memory has no compression");
    refused(reply.about(page(0)), &[7; 3073], "3073 bytes of compressed contents");
    let (place, _) = runtime.driver.memory().privileged(page(0));
    // SAFETY: nobody else has this page.
    unsafe { place.write_bytes(9, 4096) };
    for wrong in [&[][..], &[0, 0], &word[..9], &[&word[..], &[0]].concat(), &[255; 300]] {
        refused(reply.about(page(0)), wrong, "by RunLength");
    }
    // SAFETY: as above.
    assert!((0..4096).all(|at| unsafe { place.add(at).read() } == 9), "nothing of them is kept");
    assert_eq!(receive(reply.about(page(0)), &word), Ok(()));
    // SAFETY: as above.
    assert!((0..4096).all(|at| unsafe { place.add(at).read() } == word[2 + at % 8]));
    refused(reply.about(page(0)), &word, "which is in use here");
}

#[test]
fn compressed_contents_that_are_none_are_refused_and_nothing_of_them_is_kept() {
    play_random(send_wrong_codes, 1);
}

/// An area is taken away between the moment in which its contents begin to come in and the one in which they are unpacked.
/// They are wrong, so that it ends there.
fn retire_before_unpacking() {
    let [ours, _theirs] = pair(None);
    let runtime = node_of_two_pages(ours);
    let (placement, compression) = (Placement::Allocator, Compression::RunLength);
    let named = Origin::Named(NamedSharing { placement, compression });
    assert_eq!(runtime.adopt(page_of(NodeId(1), 0, named)), 0);
    let (minipage, kind, attach) = (MinipageId::new(AreaId(0), 0), Kind::Read, Attach::Page);
    let turns = Turns::NONE;
    let reply = PageMessage::Reply { kind, attach, ack_now: false, turns }.about(minipage);
    runtime.driver.engine().step_sure(Input::Fault { thread: ThreadId(0), minipage, kind });
    let (place, _) = runtime.driver.memory().privileged(minipage);
    // SAFETY: nobody else has this page.
    unsafe { place.write_bytes(9, 4096) };
    let plain = header_of(reply);
    let header = Header { flags: plain.flags | COMPRESSED, payload: 2, from: 1, ..plain };
    let mut sink = NodeSink::new(&runtime.driver);
    assert_eq!(sink.place(NodeId(1), &header), Ok(Destination::Buffer));
    assert!(runtime.driver.retire_area(AreaId(0)));
    assert!(sink.frame(NodeId(1), &header, Some(&[0, 0])).is_err());
    // SAFETY: as above; the object has this page still.
    assert_eq!(unsafe { place.read() }, 9, "its bytes were given back before");
}

#[test]
fn an_area_is_not_given_back_before_contents_that_had_begun_to_come_in_are_in_their_place() {
    play_random(retire_before_unpacking, 1);
}

/// Node 2 announces contents that node 1 then sends, and says its own when a thread of node 0 uses the page.
fn send_into_a_page_in_use() {
    slots::forget_all();
    let [ours, _theirs] = pair(None);
    let memory = multigrain_memory::Config::new(2 * 4096, GuardChoice::Mprotect);
    let memory = Memory::new(&memory).unwrap();
    let runtime = Runtime::assemble(&Config::single(), 3, memory, ours, None).unwrap();
    let (placement, compression) = (Placement::Allocator, Compression::RunLength);
    let named = Origin::Named(NamedSharing { placement, compression });
    let (kind, attach) = (Kind::Read, Attach::Page);
    let reply = PageMessage::Reply { kind, attach, ack_now: false, turns: Turns::NONE };
    let word = [[0, 0x82].as_slice(), &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
    let (packed, bytes) = (word.len() as u64, 4096);
    for (id, flags, payload) in [(0, 0, bytes), (1, COMPRESSED, packed)] {
        assert_eq!(runtime.adopt(page_of(NodeId(1), id, named)), 0);
        let minipage = MinipageId::new(AreaId(id), 0);
        runtime.driver.engine().step_sure(Input::Fault { thread: ThreadId(id), minipage, kind });
        let from = |from: u16, flags, payload| {
            let header = header_of(reply.about(minipage));
            Header { from, flags: header.flags | flags, payload, ..header }
        };
        let (hostile, right) = (from(2, flags, payload), from(1, 0, bytes));
        let place = |of: &Header| NodeSink::new(&runtime.driver).place(NodeId(of.from), of);
        assert!(place(&hostile).is_ok());
        assert!(NodeSink::new(&runtime.driver).goes_on(NodeId(2), &hostile).is_ok(), "so far");
        assert!(matches!(place(&right), Ok(Destination::At(_))));
        assert_eq!(NodeSink::new(&runtime.driver).frame(NodeId(1), &right, None), Ok(()));
        let mut sink = NodeSink::new(&runtime.driver);
        let late = match flags {
            0 => sink.goes_on(NodeId(2), &hostile),
            _ => sink.frame(NodeId(2), &hostile, Some(&word)),
        };
        assert!(late.is_err_and(|why| why.contains("which is in use here")), "page {id}");
        let (place, _) = runtime.driver.memory().privileged(minipage);
        // SAFETY: nobody else has this page.
        assert!((0..4096).all(|at| unsafe { place.add(at).read() } == 0), "page {id}");
    }
}

#[test]
fn a_payload_that_was_kept_open_does_not_go_into_a_page_in_use() {
    play_random(send_into_a_page_in_use, 1);
}
