//! Shares of nodes that compete for one minipage, in virtual time.

use multigrain_verify::sim::contention::{compete, complaint, contentions};

#[test]
fn nodes_that_compete_get_like_shares_and_no_thread_waits_long() {
    let mut complaints = Vec::new();
    for contention in contentions() {
        let shares = compete(&contention).expect("shared memory holds");
        let ratio = shares.ratio();
        println!("{contention:?}: {ratio:.2}, {shares:?}");
        complaints.extend(complaint(&contention, &shares).map(|text| (contention, text)));
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}
