//! The criteria that the results are compared with.

use super::jobs::{Done, LARGE, MILLION, ONE, SMALL};
use crate::bench::options::{Transport, WaitMode};
use crate::bench::row::Row;
use crate::bench::samples::median;
use serde::Serialize;

/// Costs may grow so much with the size of the job; noise, that is.
const GROWTH: f64 = 1.10;
/// A node that computes may answer so much later than an idle one.
const COMPUTING: f64 = 3.0;

/// A release of many pages that changed wholly may take so many times what handing their bytes to a
/// socket takes.
const BULK: f64 = 2.5;

/// One promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Criterion {
    pub(super) promise: String,
    pub(super) value: f64,
    pub(super) limit: f64,
    pub(super) pass: bool,
}

impl Criterion {
    fn new(promise: String, value: f64, limit: f64) -> Self {
        Self { promise, value, limit, pass: value <= limit }
    }
}

/// All promises that these jobs tell something about.
pub(super) fn check(jobs: &[Done]) -> Vec<Criterion> {
    let mut criteria = Vec::new();
    for job in jobs.iter().filter(|job| job.program == "pair") {
        let (Some(transport), Some(wait)) = (job.transport, job.wait) else { continue };
        let over_raw = row(job, "read-fetch-4096").and_then(Row::ratio);
        let bare_over_raw = row(job, "bare-read-fetch-4096").and_then(Row::ratio);
        if let (Some(ratio), Some(limit)) = (over_raw, raw_limit(transport, wait)) {
            let promise = format!("read fetch 4 KiB / raw round trip, {transport}, {wait}");
            criteria.push(Criterion::new(promise, ratio, limit.ours));
            if let Some(bare) = bare_over_raw {
                let promise = format!("read fetch 4 KiB / bare fetch, {transport}, {wait}");
                criteria.push(Criterion::new(promise, ratio / bare, limit.ours / limit.bare));
            }
        }
        let computing = median_of(job, "read-fetch-computing");
        let asleep = median_of(job, "read-fetch-asleep");
        if let (Some(computing), Some(asleep)) = (computing, asleep) {
            let promise = format!("fetch from a computing node / an idle one, {transport}, {wait}");
            criteria.push(Criterion::new(promise, computing / asleep, COMPUTING));
        }
    }
    for job in jobs.iter().filter(|job| job.program == "release") {
        let (Some(transport), Some(wait)) = (job.transport, job.wait) else { continue };
        if let Some(ratio) = row(job, "lazy-release-1000-full").and_then(Row::ratio) {
            let promise = format!("release 1000 pages / bytes to a socket, {transport}, {wait}");
            criteria.push(Criterion::new(promise, ratio, BULK));
        }
    }
    for (large, small) in [(LARGE.name, SMALL.name), (MILLION.name, ONE.name)] {
        for (what, key) in [
            ("read fetch", "scale-fetch"),
            ("barrier", "barrier-2"),
            ("lock + unlock, remote", "lock-remote"),
        ] {
            if let (Some(more), Some(less)) = (typical(jobs, large, key), typical(jobs, small, key))
            {
                let promise = format!("{what}: {large} / {small}");
                criteria.push(Criterion::new(promise, more / less, GROWTH));
            }
        }
    }
    criteria
}

/// How many raw round trips a fetch may take, and how many the bare mechanism took where these limits
/// were set. Traps and protections cost more on other machines, the more the deeper a virtual machine
/// is nested: there the bare mechanism is the floor.
#[derive(Clone, Copy, Debug)]
struct RawLimit {
    ours: f64,
    bare: f64,
}

fn raw_limit(transport: Transport, wait: WaitMode) -> Option<RawLimit> {
    match (transport, wait) {
        (Transport::Tcp, WaitMode::Spin) => Some(RawLimit { ours: 1.6, bare: 1.4 }),
        (Transport::Unix, WaitMode::Spin) => Some(RawLimit { ours: 2.3, bare: 2.0 }),
        (Transport::Tcp, WaitMode::Block) => Some(RawLimit { ours: 1.3, bare: 1.1 }),
        (Transport::Unix, WaitMode::Block) => Some(RawLimit { ours: 1.3, bare: 1.2 }),
        (Transport::Tcp | Transport::Unix, WaitMode::Adaptive) => None,
    }
}

fn row<'a>(job: &'a Done, key: &str) -> Option<&'a Row> {
    job.rows.iter().find(|row| row.key == key)
}

fn median_of(job: &Done, key: &str) -> Option<f64> {
    row(job, key).map(|row| row.ours.median_us).filter(|&us| us > 0.0)
}

/// The median of the jobs of one size, over the floor of the same job: the machine's clock drifts by
/// more than a job's size may cost.
fn typical(jobs: &[Done], size: &str, key: &str) -> Option<f64> {
    let of_size = jobs.iter().filter(|job| job.size == Some(size));
    let ratios: Vec<f64> = of_size.filter_map(|job| row(job, key)?.ratio()).collect();
    (!ratios.is_empty()).then(|| median(ratios))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::samples::Summary;

    fn timed(key: &str, us: f64) -> Row {
        Row::new(key, key, Summary { samples: 9, median_us: us, p99_us: us })
    }

    fn job(program: &'static str, size: Option<&'static str>, rows: Vec<Row>) -> Done {
        Done {
            program,
            nodes: 2,
            transport: Some(Transport::Tcp),
            wait: Some(WaitMode::Spin),
            size,
            pinned: true,
            cache_line_us: [None; 2],
            guard: String::new(),
            rows,
        }
    }

    #[test]
    fn a_fetch_is_held_against_the_raw_round_trip_of_its_own_job() {
        let raw = Summary { samples: 9, median_us: 10.0, p99_us: 10.0 };
        let rows = vec![
            timed("read-fetch-4096", 17.0).over("raw", raw),
            timed("bare-read-fetch-4096", 16.0).over("raw", raw),
            timed("read-fetch-asleep", 20.0),
            timed("read-fetch-computing", 50.0),
        ];
        let criteria = check(&[job("pair", None, rows)]);
        let results: Vec<_> =
            criteria.iter().map(|criterion| (criterion.value, criterion.pass)).collect();
        assert_eq!(results, [(1.7, false), (1.0625, true), (2.5, true)]);
    }

    #[test]
    fn growth_compares_what_is_typical_of_each_size_over_the_floor_of_its_job() {
        let of = |size: &'static str, us, floor| {
            let raw = Summary { samples: 9, median_us: floor, p99_us: floor };
            job("scale", Some(size), vec![timed("barrier-2", us).over("raw", raw)])
        };
        let criteria = check(&[
            of(SMALL.name, 10.0, 5.0),
            of(LARGE.name, 8.4, 4.0),
            of(LARGE.name, 50.0, 10.0),
            of(LARGE.name, 9.0, 9.0),
        ]);
        assert_eq!(criteria.len(), 1);
        assert!(criteria[0].pass && (criteria[0].value - 1.05).abs() < 1e-9, "{criteria:?}");
    }
}
