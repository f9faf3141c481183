//! What twins and diffs of a page of 4 KiB cost, in nanoseconds.
//!
//! `cargo run --release -p multigrain-memory --example diffs` prints the best of many rounds, for
//! each kernel that works on this processor: making a diff of a page that changed so much, and
//! applying it (which includes checking it) where others write the page or, *alone*, do not. All memory is in the cache.
#![expect(unsafe_code, reason = "pages are passed by pointer")]
#![expect(clippy::unwrap_used, reason = "a bench may panic")]

use core::hint::black_box;
use std::time::{Duration, Instant};

use multigrain_memory::Twins;
use multigrain_memory::diff::{Diff, Kernel, Others};
use multigrain_types::{AreaId, MinipageId, PAGE_BYTES};

type Page = [u8; PAGE_BYTES];
/// What changed: a name, and whether the byte at an offset did.
type Case = (&'static str, fn(usize) -> bool);

const CASES: [Case; 6] = [
    ("nothing", |_| false),
    ("one word", |at| at / 8 == 300),
    ("a word in every line", |at| at / 8 % 8 == 5),
    ("every other word", |at| at / 8 % 2 == 0),
    ("7 bytes of every word", |at| at % 8 != 7),
    ("everything", |_| true),
];

/// Aligned as pages are.
#[repr(align(4096))]
struct Aligned(Page);

fn main() {
    let mut twin = Aligned([0; PAGE_BYTES]);
    let mut page = Aligned([0; PAGE_BYTES]);
    println!("{:34} {:>7}", "ns for a page of 4096 bytes", "ns");
    let memcpy = best(|| {
        let (from, to) = (black_box(&raw const page.0), black_box(&raw mut twin.0));
        // SAFETY: two pages of this function.
        unsafe { from.copy_to_nonoverlapping(to, 1) };
    });
    println!("{:34} {memcpy:7.1}", "memcpy");
    let twins = Twins::new();
    let made = best(|| {
        let minipage = MinipageId::new(AreaId(0), 0);
        // SAFETY: a page of this function.
        unsafe { twins.make(minipage, black_box(&raw const page.0).cast(), PAGE_BYTES) };
        twins.discard(minipage);
    });
    println!("{:34} {made:7.1}", "twin made and discarded");
    for kernel in Kernel::all() {
        println!(
            "\n{:34} {:>7} {:>7} {:>7} {:>7}",
            format!("{kernel}: changed"),
            "encode",
            "apply",
            "alone",
            "bytes"
        );
        for (name, changed) in CASES {
            for (at, byte) in page.0.iter_mut().enumerate() {
                *byte = u8::from(changed(at));
            }
            let mut out = Vec::new();
            let encode = best(|| {
                out.clear();
                let page = black_box(&raw const page.0).cast();
                // SAFETY: a page of this function.
                unsafe { kernel.encode(black_box(&twin.0), page, &mut out) }
            });
            let [apply, alone] = [Others::Write, Others::Read].map(|others| {
                let mut target = Aligned([0; PAGE_BYTES]);
                let time = best(|| {
                    let diff = Diff::check(black_box(&out), PAGE_BYTES).unwrap();
                    let to = black_box(&raw mut target.0).cast();
                    // SAFETY: a page of this function.
                    unsafe { kernel.apply(&diff, to, others) };
                });
                assert!(target.0 == page.0, "{kernel}: {name}");
                time
            });
            println!("{name:34} {encode:7.1} {apply:7.1} {alone:7.1} {:7}", out.len());
        }
    }
}

/// Nanoseconds of one call, in the best of many rounds: short ones, so that some are not disturbed.
fn best<R>(mut call: impl FnMut() -> R) -> f64 {
    const CALLS: u32 = 50;
    let mut round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(call());
        }
        start.elapsed()
    };
    let best = (0..500).map(|_| round()).min().unwrap_or(Duration::MAX);
    best.as_secs_f64() * 1e9 / f64::from(CALLS)
}
