//! What a hostile node can make another one store, tried on a live node, for the mutants. `hostile_tests.rs` has
//! the tests of the same.

use multigrain_protocol::migration::MigrationPlan;
use multigrain_protocol::release::WriteNotices;
use multigrain_protocol::{Attach, HlrcMessage, Kind, PageMessage, Turns};
use multigrain_transport::Header;
use multigrain_transport::fuzzing::Stream;
use multigrain_types::limits::MAX_THREADS;
use multigrain_types::{AreaId, MinipageId, NodeId, PAGE_BYTES, Placement};

use crate::frames::{DriverFrame, Request, header_of};
use crate::fuzzing::{AREAS, Outcome, Victim};

/// All scenes, by name.
pub const SCENES: [(&str, fn()); 5] = [
    ("a thread asks one thing at a time", a_thread_asks_one_thing_at_a_time),
    ("what comes too early has a bound", what_comes_too_early_has_a_bound),
    ("homes move once a barrier", homes_move_once_a_barrier),
    ("who was sent a diff acknowledges it", who_was_sent_a_diff_acknowledges_it),
    ("a page in use is not received into", a_page_in_use_is_not_received_into),
];

const PEER: NodeId = NodeId(1);
/// The victim's own lazily consistent area: the eager ones lie before it.
const LAZY: AreaId = AreaId(AREAS + 2);
/// That of another node.
const FAR_LAZY: AreaId = AreaId(AREAS + 3);
/// Deeds of a thread of the victim.
const READ_FAULT: u8 = 0;
const WRITE_FAULT: u8 = 1;
const RELEASE: u8 = 0;
/// Another node's area with dynamic homes, where diffs are passed on.
const AUTO: AreaId = AreaId(AREAS + 5);

fn a_thread_asks_one_thing_at_a_time() {
    let mut victim = Victim::new(NodeId(0), Placement::Allocator);
    let look_up = Header { kind: Request::Lookup.number(), thread: 3, ..Header::default() };
    assert_eq!(victim.request(PEER, &look_up, b"late"), Outcome::Alive);
    let again = victim.request(PEER, &look_up, b"other");
    ends(again, "asks before it has its answer", "a thread asks twice");
}

fn what_comes_too_early_has_a_bound() {
    let mut victim = Victim::new(NodeId(0), Placement::Allocator);
    // Of a home elsewhere, in the name of whom it likes.
    let diff = HlrcMessage::Diff { writer: NodeId(2), flush: 1, epoch: 1 };
    let diff = header_of(diff.about(MinipageId::new(AUTO, 0)));
    for _ in 0..MAX_THREADS {
        assert_eq!(victim.request(PEER, &diff, &[]), Outcome::Alive);
    }
    assert_eq!(victim.request(NodeId(2), &diff, &[]), Outcome::Alive);
    let last = victim.request(PEER, &diff, &[]);
    ends(
        last,
        "too much that waits for the next migration plan",
        "a node asks too early without end",
    );
}

fn homes_move_once_a_barrier() {
    let mut victim = Victim::new(NodeId(0), Placement::Allocator);
    let moves = vec![(MinipageId::new(LAZY, 0), PEER)];
    let plan = Some(MigrationPlan { epoch: 1, clock: Vec::new(), moves });
    let notices = WriteNotices { plan, ..WriteNotices::default() }.to_bytes();
    let header = Header { kind: DriverFrame::WriteNotices.number(), ..Header::default() };
    assert_eq!(victim.request(PEER, &header, &notices), Outcome::Alive);
    let again = victim.request(PEER, &header, &notices);
    ends(again, "has moved the home of another minipage last", "a home moves twice");
}

fn who_was_sent_a_diff_acknowledges_it() {
    let mut victim = Victim::new(NodeId(0), Placement::Allocator);
    let minipage = MinipageId::new(FAR_LAZY, 0);
    assert_eq!(victim.act(WRITE_FAULT, minipage), Outcome::Alive);
    let data =
        Header { payload: PAGE_BYTES as u64, ..header_of(HlrcMessage::Data.about(minipage)) };
    let data = contents(PEER, &data);
    assert_eq!(victim.receive(PEER, &mut Stream::new(PEER), &data, || usize::MAX), Outcome::Alive);
    victim.write(FAR_LAZY);
    assert_eq!(victim.synchronize(RELEASE, 0), Outcome::Alive);
    let ack = header_of(HlrcMessage::DiffAck { flush: 1, count: 1 }.about(minipage));
    let other = victim.request(NodeId(2), &ack, &[]);
    ends(other, "flush 1 of", "a diff is acknowledged by another node than its home");
}

fn a_page_in_use_is_not_received_into() {
    let mut victim = Victim::new(NodeId(0), Placement::Allocator);
    let minipage = MinipageId::new(AreaId(1), 0);
    assert_eq!(victim.act(READ_FAULT, minipage), Outcome::Alive);
    let (kind, attach) = (Kind::Read, Attach::Page);
    let reply = PageMessage::Reply { kind, attach, ack_now: false, turns: Turns::NONE };
    let reply = Header { payload: PAGE_BYTES as u64, ..header_of(reply.about(minipage)) };
    let mut slow = Stream::new(NodeId(2));
    let kept_open = contents(NodeId(2), &reply);
    let (announced, rest) = kept_open.split_at(Header::BYTES + 1);
    assert_eq!(victim.receive(NodeId(2), &mut slow, announced, || usize::MAX), Outcome::Alive);
    let right = contents(PEER, &reply);
    assert_eq!(victim.receive(PEER, &mut Stream::new(PEER), &right, || usize::MAX), Outcome::Alive);
    let late = victim.receive(NodeId(2), &mut slow, rest, || usize::MAX);
    ends(late, "which is in use here", "contents go into a page in use");
}

/// A frame of a node, whose contents are zeros.
fn contents(from: NodeId, header: &Header) -> Vec<u8> {
    let mut bytes = Header { from: from.0, ..*header }.encode().to_vec();
    bytes.resize(Header::BYTES + PAGE_BYTES, 0);
    bytes
}

fn ends(outcome: Outcome, why: &str, goes_on: &str) {
    match outcome {
        Outcome::Ended(_, said) => assert!(said.contains(why), "{said}"),
        Outcome::Alive => panic!("{goes_on}"),
    }
}
