//! What it costs to find writes: the first write to a page since a scan, and a scanned page that
//! nobody wrote, by each tracker.
//!
//!     cargo run --release -p multigrain-memory --example tracking [PAGES]
#![allow(clippy::unwrap_used, reason = "an example")]

#[path = "../tests/tracked/mod.rs"]
mod tracked;

use std::time::Instant;

use multigrain_memory::TrackingKind;
use tracked::{Tracked, address, write};

const PAGES: usize = 16_384;
const ROUNDS: usize = 51;

fn main() {
    let argument = std::env::args().nth(1);
    let pages = argument.map_or(PAGES, |pages| pages.parse().expect("a number of pages"));
    println!("{pages} pages, median of {ROUNDS} rounds, ns");
    println!("| tracker | first write | next write | scanned clean page | scanned written page |");
    println!("|---|---|---|---|---|");
    for kind in [TrackingKind::Faults, TrackingKind::Scans] {
        let Some(tracked) = Tracked::start(kind, pages) else { continue };
        let mut costs = [const { Vec::new() }; 4];
        for round in 0..ROUNDS {
            let value = u32::try_from(round).unwrap();
            costs[0].push(timed(pages, || (0..pages).for_each(|page| write(address(page), value))));
            costs[1].push(timed(pages, || (0..pages).for_each(|page| write(address(page), value))));
            costs[3].push(timed(pages, || assert_eq!(tracked.scan_all().len(), pages)));
            costs[2].push(timed(pages, || assert!(tracked.scan_all().is_empty())));
        }
        let [first, next, clean, written] = costs.map(|mut nanos| {
            nanos.sort_by(f64::total_cmp);
            nanos[ROUNDS / 2]
        });
        println!("| {kind} | {first:.0} | {next:.1} | {clean:.2} | {written:.0} |");
    }
}

/// Nanoseconds a page.
fn timed(pages: usize, act: impl FnOnce()) -> f64 {
    let start = Instant::now();
    act();
    start.elapsed().as_secs_f64() * 1e9 / pages as f64
}
