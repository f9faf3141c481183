//! What a hostile node may make another one keep, tried on a live node: a tool that shall find mutants. The
//! tests of the same are in `bounds.rs`.

use multigrain_protocol::HlrcMessage;
use multigrain_protocol::MOST_THREADS;
use multigrain_transport::Header;
use multigrain_types::{AreaId, MinipageId, NodeId, Placement};

use crate::control::kind;
use crate::fuzzing::{AREAS, Outcome, Victim};
use crate::headers::header_of;

/// All scenes, by name.
pub const SCENES: [(&str, fn()); 2] = [
    ("a thread asks one thing at a time", a_thread_asks_one_thing_at_a_time),
    ("what comes too early has a bound", what_comes_too_early_has_a_bound),
];

const PEER: NodeId = NodeId(1);
/// The victim's own lazily consistent area: the eager ones lie before it.
const LAZY: AreaId = AreaId(AREAS + 2);

fn a_thread_asks_one_thing_at_a_time() {
    let mut victim = Victim::new(NodeId(0), Placement::Allocator);
    let look_up = Header { kind: kind::LOOKUP, thread: 3, ..Header::default() };
    assert_eq!(victim.request(PEER, &look_up, b"late"), Outcome::Alive);
    let again = victim.request(PEER, &look_up, b"other");
    ends(again, "asks before it has its answer", "a thread asks twice");
}

fn what_comes_too_early_has_a_bound() {
    let mut victim = Victim::new(NodeId(0), Placement::Allocator);
    let fetch = HlrcMessage::Fetch { requester: PEER, epoch: 1, waits: true };
    let fetch = header_of(fetch.about(MinipageId::new(LAZY, 0)));
    for _ in 0..MOST_THREADS {
        assert_eq!(victim.request(PEER, &fetch, &[]), Outcome::Alive);
    }
    let last = victim.request(PEER, &fetch, &[]);
    ends(
        last,
        "too much that waits for the next migration plan",
        "a node asks too early without end",
    );
}

fn ends(outcome: Outcome, why: &str, goes_on: &str) {
    match outcome {
        Outcome::Ended(_, said) => assert!(said.contains(why), "{said}"),
        Outcome::Alive => panic!("{goes_on}"),
    }
}
