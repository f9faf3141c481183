//! How long a job takes whose nodes do nothing: the launcher alone.
//!
//!     cargo bench -p multigrain-cli

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 100;
/// What the median stays below on a quiet machine.
const PROMISE: Duration = Duration::from_millis(60);

fn main() {
    let mut times: Vec<Duration> = (0..RUNS).map(|_| launch()).collect();
    times.sort_unstable();
    let (quickest, median) = (times[0], times[RUNS / 2]);
    println!(
        "4 nodes that do nothing: {median:.1?} (quickest {quickest:.1?}, promised {PROMISE:.0?})"
    );
}

fn launch() -> Duration {
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_multigrain"));
    command.args(["run", "-n", "4", "/bin/true"]).stdin(Stdio::null());
    assert!(command.status().is_ok_and(|status| status.success()));
    start.elapsed()
}
