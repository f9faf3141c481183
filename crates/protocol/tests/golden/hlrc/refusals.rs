//! What no correct peer sends.

use multigrain_protocol::{HlrcMessage as Word, Input, Kind, MgsMessage};
use multigrain_types::NodeId;

use super::{dynamic, lazy, read_by};
use crate::cluster::M;
use crate::refusals::refused;

#[test]
fn contents_nobody_asked_for_are_refused() {
    for body in [Word::Data, Word::FirstTouch] {
        assert_eq!(refused(&mut lazy(2), 1, 0, body.about(M)), "copy");
        assert_eq!(refused(&mut read_by(2, &[1]), 1, 0, body.about(M)), "copy");
        assert_eq!(refused(&mut lazy(2), 0, 1, body.about(M)), "home");
    }
}

#[test]
fn a_diff_is_refused_by_a_home_that_nobody_has_copied() {
    let diff = Word::Diff { writer: NodeId(1), flush: 1, epoch: 0 }.about(M);
    assert_eq!(refused(&mut lazy(2), 0, 1, diff), "home");
}

#[test]
fn an_acknowledgement_of_no_flush_is_refused() {
    let ack = Word::DiffAck { flush: 1, count: 1 }.about(M);
    assert_eq!(refused(&mut lazy(2), 1, 0, ack), "release tracker");
    let mut cluster = lazy(2);
    cluster.access(1, Kind::Write);
    cluster.release(1);
    assert_eq!(
        refused(&mut cluster, 1, 0, Word::DiffAck { flush: 2, count: 1 }.about(M)),
        "release tracker"
    );
    let two = Word::DiffAck { flush: 1, count: 2 }.about(M);
    assert_eq!(refused(&mut cluster, 1, 0, two), "release tracker", "of one");
    cluster.settle();
    assert_eq!(refused(&mut cluster, 1, 0, ack), "release tracker", "a second time");
}

#[test]
fn an_acknowledgement_counts_of_the_node_alone_that_the_diff_was_sent_to() {
    let mut cluster = lazy(3);
    cluster.access(1, Kind::Write);
    cluster.access(2, Kind::Write);
    cluster.release(2);
    let ack = Word::DiffAck { flush: 1, count: 1 }.about(M);
    assert_eq!(refused(&mut cluster, 2, 1, ack), "release tracker", "the home is node 0");
    assert!(!cluster.release_tracker(2).is_settled());
    cluster.settle();
    assert!(cluster.release_tracker(2).is_settled());
}

/// Before a barrier has moved the home, the owner alone has been another.
#[test]
fn who_has_never_been_the_home_speaks_for_nobody() {
    let fetch =
        |requester| Word::Fetch { requester: NodeId(requester), epoch: 0, waits: true }.about(M);
    let diff = |writer| Word::Diff { writer: NodeId(writer), flush: 1, epoch: 0 }.about(M);
    assert_eq!(refused(&mut lazy(3), 0, 2, fetch(1)), "home", "nobody else has been");
    assert_eq!(refused(&mut read_by(3, &[1]), 0, 2, fetch(1)), "home");
    assert_eq!(refused(&mut read_by(3, &[1]), 0, 2, diff(1)), "home");
    let mut cluster = lazy(4);
    cluster.hold_zeros(true);
    cluster.access(1, Kind::Write);
    cluster.hold_zeros(false);
    assert_eq!(cluster.copy(1).home(), None, "it has touched it first");
    assert_eq!(refused(&mut cluster, 1, 3, fetch(2)), "home", "that came from node 0");
    cluster.access(2, Kind::Read);
}

#[test]
fn a_home_nobody_asked_for_is_refused() {
    let hand_over = Word::HomeTransfer.about(M);
    assert_eq!(refused(&mut dynamic(2, &[]), 1, 0, hand_over), "copy");
    assert_eq!(refused(&mut dynamic(2, &[1]), 1, 0, hand_over), "copy");
    assert_eq!(refused(&mut dynamic(2, &[1]), 0, 1, hand_over), "home");
    let mut cluster = lazy(2);
    cluster.fault(1, Kind::Read);
    assert_eq!(
        refused(&mut cluster, 1, 0, hand_over),
        "copy",
        "homes that stay are not transferred"
    );
}

#[test]
fn a_diff_of_nobody_or_for_who_was_never_the_home_is_refused() {
    let diff = |writer| Word::Diff { writer: NodeId(writer), flush: 1, epoch: 0 }.about(M);
    assert_eq!(refused(&mut dynamic(2, &[1]), 0, 1, diff(2)), "home");
    assert_eq!(refused(&mut read_by(3, &[1]), 1, 2, diff(2)), "copy", "homes that stay");
    assert_eq!(refused(&mut dynamic(3, &[1]), 1, 2, diff(1)), "copy", "of the receiver");
    assert_eq!(refused(&mut dynamic(3, &[1]), 1, 0, diff(0)), "copy", "of who should be the home");
}

#[test]
fn an_acknowledgement_of_no_diff_is_refused_where_homes_are_dynamic() {
    let ack = Word::DiffAck { flush: 1, count: 1 }.about(M);
    assert_eq!(refused(&mut dynamic(2, &[1]), 1, 0, ack), "copy");
}

#[test]
fn a_fetch_for_the_receiver_or_for_nobody_is_refused() {
    let fetch =
        |requester| Word::Fetch { requester: NodeId(requester), epoch: 0, waits: true }.about(M);
    assert_eq!(refused(&mut lazy(2), 0, 1, fetch(0)), "home");
    assert_eq!(refused(&mut lazy(2), 0, 1, fetch(2)), "home");
    assert_eq!(refused(&mut lazy(2), 1, 0, fetch(1)), "copy");
    assert_eq!(refused(&mut lazy(2), 1, 0, fetch(0)), "copy", "of who should be the home");
}

/// The turn after the next has no node made, for this one would have to come to its barrier.
#[test]
fn who_knows_of_two_turns_more_is_refused() {
    let fetch = |epoch| Word::Fetch { requester: NodeId(1), epoch, waits: true }.about(M);
    let diff = |epoch| Word::Diff { writer: NodeId(1), flush: 1, epoch }.about(M);
    for epoch in [2, u64::MAX] {
        assert_eq!(refused(&mut lazy(3), 0, 1, fetch(epoch)), "home");
        assert_eq!(refused(&mut lazy(3), 2, 1, fetch(epoch)), "home");
        assert_eq!(refused(&mut lazy(3), 2, 1, diff(epoch)), "home");
    }
    let mut cluster = lazy(3);
    let early = Input::Message { from: NodeId(1), message: fetch(1) };
    cluster.try_input(2, early).expect("it knows of the next turn");
    assert_eq!(refused(&mut cluster, 2, 1, fetch(1)), "home", "it has not been answered");
}

#[test]
fn words_of_eager_consistency_are_refused() {
    assert_eq!(refused(&mut lazy(2), 0, 1, MgsMessage::ReadRequest.about(M)), "minipage");
}
