//! Minipages that are opened for writes before anybody writes them.

use multigrain_protocol::Input;
use multigrain_protocol::Kind::{Read, Write};
use multigrain_types::{Access, NodeId};

use super::{dynamic, lazy, lock, read_by, unlock};
use crate::cluster::{Cluster, M};

fn open_ahead(cluster: &mut Cluster, node: u16) {
    cluster.input(node, Input::OpenAhead { minipage: M });
}

const OPENED: [&str; 2] = ["twin", "protect ReadOnly to ReadWrite"];

fn lines(node: u16, what: &[&str]) -> Vec<String> {
    what.iter().map(|what| format!("{node}: {what}")).collect()
}

#[test]
fn a_copy_that_nobody_has_written_is_closed_and_nobody_hears_of_it() {
    let mut cluster = read_by(2, &[1]);
    cluster.leave_unwritten(true);
    open_ahead(&mut cluster, 1);
    assert_eq!(cluster.trace(), lines(1, &OPENED));
    cluster.release(1);
    assert_eq!(cluster.trace(), lines(1, &["close, unwritten", "drop twin", "wake 1"]));
    assert_eq!(cluster.copy(1).access(), Access::ReadOnly);
    assert_eq!(cluster.release_tracker(1).log().notices(), 0);
    assert!(!cluster.release_tracker(1).has_outstanding());
}

#[test]
fn a_copy_that_was_written_sends_its_diff() {
    let mut cluster = read_by(2, &[1]);
    open_ahead(&mut cluster, 1);
    cluster.trace();
    cluster.release(1);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1: protect ReadWrite to ReadOnly",
            "1 > 0: Diff flush 1",
            "1: drop twin",
            "0: buffer diff",
            "0: merge",
            "0 > 1 later: DiffAck flush 1",
            "1: wake 1"
        ]
    );
    assert_eq!(cluster.release_tracker(1).log().notices(), 1);
}

#[test]
fn a_home_is_noticed_only_if_it_was_written() {
    let mut cluster = read_by(2, &[1]);
    cluster.leave_unwritten(true);
    open_ahead(&mut cluster, 0);
    cluster.release(0);
    let closed = ["close, unwritten", "drop twin", "wake 0"];
    assert_eq!(cluster.trace(), lines(0, &[&OPENED[..], &closed].concat()));
    assert_eq!(cluster.release_tracker(0).log().notices(), 0);
    cluster.leave_unwritten(false);
    open_ahead(&mut cluster, 0);
    cluster.release(0);
    let flushed = ["drop twin", "protect ReadWrite to ReadOnly", "wake 0"];
    assert_eq!(cluster.trace(), lines(0, &[&OPENED[..], &flushed].concat()));
    assert_eq!(cluster.release_tracker(0).log().notices(), 1);
}

#[test]
fn a_notice_takes_a_copy_that_nobody_has_written_without_a_diff() {
    let mut cluster = read_by(2, &[1]);
    lock(&mut cluster, 0);
    cluster.access(0, Write);
    open_ahead(&mut cluster, 1);
    cluster.leave_unwritten(true);
    unlock(&mut cluster, 0);
    cluster.trace();
    lock(&mut cluster, 1);
    cluster.settle();
    let trace = cluster.trace();
    let place = |line: &str| trace.iter().position(|other| other == line).expect(line);
    assert!(place("1: drop twin") < place("1: protect ReadOnly to NoAccess"), "{trace:#?}");
    assert!(trace.iter().all(|line| !line.contains("Diff")), "{trace:#?}");
    assert_eq!(cluster.copy(1).access(), Access::NoAccess);
}

#[test]
fn a_thread_that_traps_on_what_was_opened_meanwhile_goes_on() {
    let mut cluster = read_by(2, &[1]);
    for node in [0, 1] {
        open_ahead(&mut cluster, node);
        cluster.trace();
        cluster.fault(node, Write);
        let goes_on = ["reprotect ReadWrite".to_owned(), format!("wake {node}")];
        assert_eq!(cluster.trace(), goes_on.map(|what| format!("{node}: {what}")));
    }
}

#[test]
fn what_is_not_here_to_be_read_or_open_already_stays_as_it_is() {
    let mut cluster = lazy(2);
    open_ahead(&mut cluster, 0);
    open_ahead(&mut cluster, 1);
    assert!(cluster.trace().is_empty(), "exclusive; not here");
    cluster.fault(1, Read);
    open_ahead(&mut cluster, 1);
    assert_eq!(cluster.trace(), ["1 > 0: Fetch 1 epoch 0"], "on its way");
    cluster.settle();
    for node in [0, 1] {
        cluster.access(node, Write);
        open_ahead(&mut cluster, node);
        assert!(cluster.trace().is_empty(), "written on node {node}");
    }
}

#[test]
fn a_copy_whose_diff_is_on_its_way_is_not_opened_ahead() {
    let mut cluster = dynamic(2, &[1]);
    cluster.access(1, Write);
    cluster.release(1);
    cluster.trace();
    open_ahead(&mut cluster, 1);
    assert!(cluster.trace().is_empty());
    cluster.settle();
    cluster.trace();
    open_ahead(&mut cluster, 1);
    assert_eq!(cluster.trace(), lines(1, &OPENED));
}

#[test]
fn a_home_whose_contents_others_see_or_change_is_looked_at_first() {
    let asked = |written: bool| {
        let mut cluster = read_by(3, &[1]);
        open_ahead(&mut cluster, 0);
        cluster.leave_unwritten(!written);
        cluster.trace();
        cluster.fault(2, Read);
        cluster.settle();
        let (trace, access) = (cluster.trace(), cluster.copy(0).access());
        cluster.release(0);
        (trace[1..3].join(", "), access, cluster.release_tracker(0).log().notices())
    };
    let written = asked(true);
    assert_eq!(written, ("0: drop twin, 0 > 2: Data".to_owned(), Access::ReadWrite, 1));
    let closed = asked(false);
    assert_eq!(closed, ("0: close, unwritten, 0: drop twin".to_owned(), Access::ReadOnly, 0));
    let mut cluster = read_by(2, &[1]);
    cluster.access(1, Write);
    open_ahead(&mut cluster, 0);
    cluster.release(1);
    cluster.settle();
    cluster.release(0);
    assert_eq!(cluster.release_tracker(0).log().notices(), 1, "the diff has found it written");
}

#[test]
fn a_dynamic_home_that_nobody_has_written_goes_on() {
    for (written, sent) in [(true, "0 > 2: Data"), (false, "0 > 2: HomeTransfer")] {
        let mut cluster = dynamic(4, &[]);
        cluster.access(1, Read);
        cluster.access(0, Write);
        cluster.release(0);
        cluster.input(3, Input::Prefetch { minipage: M, kind: Read });
        cluster.settle();
        open_ahead(&mut cluster, 0);
        cluster.leave_unwritten(!written);
        cluster.fault(2, Write);
        cluster.settle();
        let trace = cluster.trace();
        assert!(trace.contains(&sent.to_owned()), "{trace:#?}");
    }
}

#[test]
fn a_home_that_came_to_be_read_is_closed_as_what_it_was() {
    let next = |opened: bool, written: bool| {
        let mut cluster = dynamic(4, &[]);
        cluster.access(1, Read);
        cluster.access(2, Read);
        assert_eq!(cluster.copy(0).home(), Some(NodeId(2)));
        let before = cluster.copy(2).clone();
        if opened {
            open_ahead(&mut cluster, 2);
            assert_eq!(cluster.trace(), lines(2, &OPENED));
        }
        cluster.leave_unwritten(!written);
        cluster.release(2);
        assert_eq!(*cluster.copy(2) == before, !written);
        cluster.access(3, Read);
        (cluster.copy(2).home(), cluster.release_tracker(2).log().notices())
    };
    assert_eq!(next(true, false), next(false, false), "nobody has written it");
    assert_eq!(next(true, true).1, 1);
}
