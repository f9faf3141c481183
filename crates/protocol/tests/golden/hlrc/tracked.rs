//! Tracked homes: no trap shows their writes.

use multigrain_protocol::Kind::{Read, Write};
use multigrain_protocol::hlrc::{Copy, Home};
use multigrain_types::{Access, NodeId};

use super::quiescent_barrier;
use crate::cluster::Cluster;

fn home(cluster: &Cluster, node: u16) -> Home {
    let Copy::Home { home, .. } = cluster.copy(node) else { panic!("{node} is not the home") };
    *home
}

#[test]
fn a_home_stays_open_when_the_first_copy_goes_elsewhere() {
    let mut cluster = Cluster::tracking(2);
    cluster.fault(1, Read);
    cluster.settle();
    assert_eq!(
        cluster.trace(),
        [
            "1 > 0: Fetch 1 epoch 0",
            "0: track from ReadWrite",
            "0 > 1: Data",
            "1: install ReadOnly",
            "1: wake 1"
        ]
    );
    assert_eq!(cluster.copy(0).access(), Access::ReadWrite);
}

#[test]
fn what_is_found_at_a_release_is_noticed_and_stays_open() {
    let mut cluster = Cluster::tracking(2);
    cluster.access(1, Read);
    for writes in [1, 1, 0, 1] {
        let before = cluster.release_tracker(0).log().notices();
        (0..writes).for_each(|_| cluster.write_unseen(0));
        cluster.release(0);
        assert_eq!(cluster.trace(), ["0: wake 0"], "nobody is asked, nothing is closed");
        assert_eq!(home(&cluster, 0), Home::Tracked);
        assert_eq!(cluster.release_tracker(0).log().notices(), before.max(writes));
    }
    quiescent_barrier(&mut cluster, 2);
    let trace = cluster.trace();
    assert!(
        trace.contains(&"0 > 1: WriteNotices [3], 0 wrote 0 in 3, all know [0]".to_owned()),
        "{trace:#?}"
    );
    assert!(trace.contains(&"1: protect ReadOnly to NoAccess".to_owned()), "{trace:#?}");
}

#[test]
fn a_tracked_home_that_migrates_is_closed_and_the_new_one_is_tracked() {
    let mut cluster = Cluster::tracking(2);
    cluster.access(1, Write);
    quiescent_barrier(&mut cluster, 2);
    let trace = cluster.trace();
    let place = |line: &str| trace.iter().position(|other| other == line).expect(line);
    assert!(place("0: protect ReadWrite to ReadOnly") < place("0: protect ReadOnly to NoAccess"));
    assert!(place("1: track from ReadOnly") < place("1: wake 1"));
    assert_eq!((home(&cluster, 1), cluster.copy(0).home()), (Home::Tracked, Some(NodeId(1))));
}

#[test]
fn found_on_what_nobody_else_has_or_had_is_nothing() {
    let mut cluster = Cluster::tracking(2);
    cluster.write_unseen(0);
    cluster.write_unseen(1);
    cluster.release(0);
    cluster.release(1);
    assert_eq!(cluster.trace(), ["0: wake 0", "1: wake 1"]);
}
