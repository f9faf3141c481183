//! Allocation and free of this node's shared memory, next to the C library's.
#![expect(unsafe_code, reason = "calls malloc and free")]

use super::team::Team;
use crate::bench::clock::grouped;
use crate::bench::row::{Row, size_name};
use crate::bench::samples::Samples;
use anyhow::Result;

/// Pairs of one sample.
const GROUP: usize = 200;

pub(super) fn measure(team: &mut Team) -> Result<()> {
    for bytes in [64, 100 << 10] {
        for threads in [1, 2] {
            pairs(team, bytes, threads)?;
        }
    }
    Ok(())
}

/// An allocation and its free, by so many threads at once.
fn pairs(team: &mut Team, bytes: usize, threads: usize) -> Result<()> {
    let runtime = team.runtime;
    let groups = (team.samples / 8).max(8);
    let ours = || -> Result<Samples> {
        let mut result = Ok(());
        let times = grouped(groups, GROUP, |_| {
            let done = runtime.malloc(bytes).and_then(|place| runtime.free(place));
            if done.is_err() {
                result = done;
            }
        });
        result?;
        Ok(times)
    };
    let floor = || -> Result<Samples> {
        Ok(grouped(groups, GROUP, |_| {
            // SAFETY: any size may be asked for, and NULL be freed.
            let place = core::hint::black_box(unsafe { libc::malloc(bytes) });
            // SAFETY: malloc gave it just now.
            unsafe { libc::free(place) };
        }))
    };
    let (mut times, mut floors) = (Samples::default(), Samples::default());
    for _ in 0..4 {
        floors.append(together(threads, floor)?);
        times.append(together(threads, ours)?);
    }
    let size = size_name(bytes);
    let (key, operation) = match threads {
        1 => (format!("malloc-{bytes}"), format!("malloc + free, {size}")),
        _ => (
            format!("malloc-{bytes}-threads-{threads}"),
            format!("malloc + free, {size}, {threads} threads"),
        ),
    };
    let row = Row::new(key, operation, times.summary());
    team.report(row.over("the C library's", floors.summary()));
    Ok(())
}

/// The times of all threads that do the same.
fn together(threads: usize, work: impl Fn() -> Result<Samples> + Sync) -> Result<Samples> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&work)).collect();
        let mut all = work()?;
        for other in others {
            all.append(other.join().map_err(|_| anyhow::anyhow!("a measuring thread panicked"))??);
        }
        Ok(all)
    })
}
