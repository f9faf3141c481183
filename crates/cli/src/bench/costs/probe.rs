//! How far apart the CPUs are: how long a cache line takes from one to the other. A virtual machine's CPUs are
//! placed anew from time to time, on one core, near to each other or far apart, and all latencies
//! follow.

use crate::bench::samples::median;
use core::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

/// CPUs this process may use.
pub(super) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What a hop of so many microseconds says of the place of the two CPUs.
pub(super) fn place(hop_us: f64) -> &'static str {
    match hop_us {
        us if us < 0.08 => "one core",
        us if us < 0.3 => "near",
        _ => "far",
    }
}

const TURNS: u32 = 200;
const BURSTS: u32 = 100;

/// One hop, microseconds; `None` on one core.
pub(super) fn cache_line_us() -> Option<f64> {
    if cpus() < 2 {
        return None;
    }
    let ball = AtomicU32::new(0);
    let last = 2 * TURNS * BURSTS;
    let hops = thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 1;
            while next < last {
                wait_for(&ball, next);
                ball.store(next + 1, Ordering::Release);
                next += 2;
            }
        });
        let mut next = 0;
        let burst = |_| {
            let start = Instant::now();
            for _ in 0..TURNS {
                ball.store(next + 1, Ordering::Release);
                wait_for(&ball, next + 2);
                next += 2;
            }
            start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * TURNS)
        };
        (0..BURSTS).map(burst).collect::<Vec<_>>()
    });
    Some(median(hops))
}

fn wait_for(ball: &AtomicU32, value: u32) {
    while ball.load(Ordering::Acquire) != value {
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_that_were_seen() {
        assert_eq!([0.03, 0.12, 0.19, 0.46].map(place), ["one core", "near", "near", "far"]);
    }

    #[test]
    fn the_probe_ends_and_a_hop_takes_time() {
        assert!(cache_line_us().is_none_or(|hop| hop > 0.0));
    }
}
