//! What a hostile node can make another one store, tried on a live node, for the mutants. `hostile_tests.rs` has
//! the tests of the same.

use multigrain_protocol::HlrcMessage;
use multigrain_protocol::migration::MigrationPlan;
use multigrain_protocol::release::WriteNotices;
use multigrain_transport::Header;
use multigrain_types::limits::MAX_THREADS;
use multigrain_types::{AreaId, MinipageId, NodeId, Placement};

use crate::frames::{DriverFrame, Request, header_of};
use crate::fuzzing::{AREAS, Outcome, Victim};

/// All scenes, by name.
pub const SCENES: [(&str, fn()); 3] = [
    ("a thread asks one thing at a time", a_thread_asks_one_thing_at_a_time),
    ("what comes too early has a bound", what_comes_too_early_has_a_bound),
    ("homes move once a barrier", homes_move_once_a_barrier),
];

const PEER: NodeId = NodeId(1);
/// The victim's own lazily consistent area: the eager ones lie before it.
const LAZY: AreaId = AreaId(AREAS + 2);
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

fn ends(outcome: Outcome, why: &str, goes_on: &str) {
    match outcome {
        Outcome::Ended(_, said) => assert!(said.contains(why), "{said}"),
        Outcome::Alive => panic!("{goes_on}"),
    }
}
