//! Random programs use every kind of operation and owner.

use super::generate;
use crate::release::program::{Job, Op};
use crate::sim::rng::Rng;

/// Random programs use all there is.
#[test]
fn every_operation_occurs() {
    let kinds = |job: Job| job.threads.into_iter().flat_map(|thread| thread.program);
    let name = |op: Op| {
        let words = format!("{op:?}");
        words.split(['(', ' ']).next().unwrap_or_default().to_owned()
    };
    let jobs = (0..300).map(|seed| generate(&mut Rng::of(seed, 1)));
    let used: std::collections::BTreeSet<String> = jobs.flat_map(kinds).map(name).collect();
    let all = [
        "Read",
        "Write",
        "Add",
        "Prefetch",
        "AwaitedPrefetch",
        "OpenAhead",
        "Lock",
        "Unlock",
        "Barrier",
        "Await",
        "Signal",
        "Push",
        "Reclaim",
        "Down",
        "Up",
        "Release",
        "Notify",
        "Receive",
        "Start",
        "Join",
    ];
    assert_eq!(used, all.into_iter().map(str::to_owned).collect());
}
