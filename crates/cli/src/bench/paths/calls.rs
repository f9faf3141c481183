//! The system calls that access paths are made of, in the rows of ParADE's Table 1.

use super::plain::{Mapped, Segment, Sharing, file, fork, write};
use super::{rows, table};
use crate::bench::clock::timed;
use crate::bench::samples::{Samples, Summary};
use crate::bench::table::micros;
use anyhow::{Context, Result};
use multigrain_types::PAGE_BYTES;
use serde::Serialize;
use std::process::Command;

const SIZES: [usize; 2] = [PAGE_BYTES, 64 << 20];

/// In the order of [`ROWS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    MapFile,
    MapAnonymous,
    Shmget,
    Shmat,
    Mdup,
    Fork,
    Write,
    CloseFile,
    CloseAnonymous,
    CloseSegment,
    CopyFile,
    CopyAnonymous,
    CopySegment,
    UnmapFile,
    UnmapAnonymous,
    Shmdt,
    Shmctl,
}

/// What the paper calls it, and what it has for it on Linux, 4 KB and 64 MB.
const ROWS: [(Call, &str, [&str; 2]); 17] = [
    (Call::MapFile, "mmap(), file", ["5.0", "35.9"]),
    (Call::MapAnonymous, "mmap(), anonymous memory", ["6.5", "43.9"]),
    (Call::Shmget, "shmget()", ["7.2", "54.7"]),
    (Call::Shmat, "shmat()", ["4.9", "31.4"]),
    (Call::Mdup, "mdup()", ["316.6", "1720.7"]),
    (Call::Fork, "fork()", ["94.0", "17348.8"]),
    (Call::Write, "write()", ["43.6", "849617.2"]),
    (Call::CloseFile, "mprotect(), file", ["3.4", "37.5"]),
    (Call::CloseAnonymous, "mprotect(), anonymous memory", ["2.9", "33.7"]),
    (Call::CloseSegment, "mprotect(), System V", ["4.4", "34.1"]),
    (Call::CopyFile, "memcpy(), file", ["5.0", "472543.6"]),
    (Call::CopyAnonymous, "memcpy(), anonymous memory", ["7.8", "492053.5"]),
    (Call::CopySegment, "memcpy(), System V", ["7.9", "530368.3"]),
    (Call::UnmapFile, "munmap(), file", ["5.7", "17117.9"]),
    (Call::UnmapAnonymous, "munmap(), anonymous memory", ["10.2", "46934.5"]),
    (Call::Shmdt, "shmdt()", ["28.0", "14528.1"]),
    (Call::Shmctl, "shmctl()", ["8.6", "30821.6"]),
];

/// Medians of a call.
#[derive(Debug, Serialize)]
struct Cost {
    call: &'static str,
    page: Summary,
    large: Summary,
}

#[derive(Debug, Serialize)]
pub(super) struct Calls {
    calls: Vec<Cost>,
    /// A trap with an empty handler.
    trap: Summary,
}

/// Times of one size.
#[derive(Debug, Default)]
struct Times([Samples; ROWS.len()]);

impl Times {
    fn of<T>(&mut self, call: Call, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut done = None;
        let nanos = timed(|| done = Some(operation()));
        self.0[call as usize].push(nanos);
        done.with_context(|| format!("{call:?}"))?.with_context(|| format!("{call:?}"))
    }
}

pub(super) fn measure(quick: bool) -> Result<Calls> {
    // Shared, so that it is no part of what fork copies.
    let contents = Mapped::anonymous(SIZES[1], Sharing::Shared)?;
    contents.fill(7);
    let mut times = [Times::default(), Times::default()];
    for (times, (bytes, rounds)) in times.iter_mut().zip(SIZES.into_iter().zip([100, 10])) {
        for _ in 0..if quick { 2 } else { rounds } {
            of_file(times, bytes, &contents)?;
            anonymous(times, bytes, &contents)?;
            of_segment(times, bytes, &contents)?;
        }
    }
    contents.unmap()?;
    let cost = |&(call, name, _): &(Call, &'static str, _)| Cost {
        call: name,
        page: times[0].0[call as usize].summary(),
        large: times[1].0[call as usize].summary(),
    };
    let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
    command.args(["bench", "node", "memory", "--samples", if quick { "100" } else { "4000" }]);
    let trap = rows(command)?.into_iter().find(|row| row.key == "access-fault");
    let trap = trap.and_then(|row| row.floor).context("no trap was measured")?.time;
    Ok(Calls { calls: ROWS.iter().map(cost).collect(), trap })
}

/// Of a file that is written before it is mapped.
fn of_file(times: &mut Times, bytes: usize, contents: &Mapped) -> Result<()> {
    let file = file()?;
    times.of(Call::Write, || Ok(write(&file, bytes)?))?;
    let mapped = times.of(Call::MapFile, || Ok(Mapped::of_file(&file, bytes)?))?;
    times.of(Call::CopyFile, || copied(&mapped, contents))?;
    times.of(Call::CloseFile, || Ok(mapped.close()?))?;
    times.of(Call::UnmapFile, || Ok(mapped.unmap()?))
}

/// It is duplicated, and a child made, when it has its pages.
fn anonymous(times: &mut Times, bytes: usize, contents: &Mapped) -> Result<()> {
    let make = || Ok(Mapped::anonymous(bytes, Sharing::Shared)?);
    let mapped = times.of(Call::MapAnonymous, make)?;
    times.of(Call::CopyAnonymous, || copied(&mapped, contents))?;
    times.of(Call::Mdup, || Ok(mapped.duplicate()?))?.unmap()?;
    times.of(Call::Fork, || Ok(fork()?))?.end()?;
    times.of(Call::CloseAnonymous, || Ok(mapped.close()?))?;
    times.of(Call::UnmapAnonymous, || Ok(mapped.unmap()?))
}

/// A segment is removed after it was detached, and its pages with it.
fn of_segment(times: &mut Times, bytes: usize, contents: &Mapped) -> Result<()> {
    let segment = times.of(Call::Shmget, || Ok(Segment::new(bytes)?))?;
    let mut used = || -> Result<()> {
        let mapped = times.of(Call::Shmat, || Ok(segment.attach(bytes)?))?;
        times.of(Call::CopySegment, || copied(&mapped, contents))?;
        times.of(Call::CloseSegment, || Ok(mapped.close()?))?;
        times.of(Call::Shmdt, || Ok(mapped.detach()?))
    };
    let used = used();
    // Whatever became of it: it would outlive this process.
    times.of(Call::Shmctl, || Ok(segment.remove()?))?;
    used
}

fn copied(mapped: &Mapped, contents: &Mapped) -> Result<()> {
    mapped.copy(contents);
    Ok(())
}

impl Calls {
    pub(super) fn text(&self) -> String {
        let rows = self.calls.iter().zip(&ROWS).map(|(cost, (.., paper))| {
            let ours = [cost.page, cost.large].map(|time| micros(time.median_us));
            let paper = paper.map(str::to_owned);
            core::iter::once(cost.call.to_owned()).chain(ours).chain(paper).collect()
        });
        let trap = ["SIGSEGV handler".to_owned(), micros(self.trap.median_us), String::new()];
        let trap = trap.into_iter().chain(["9.8".to_owned()]).collect();
        let heads = ["system call, us", "4 KiB", "64 MiB", "paper: 4 KB", "64 MB"];
        format!(
            "Table 1: bare system calls, medians, which are the floors of what stands below; the paper's on a Pentium III of 600 MHz.\n\
             mdup() is mremap() with an old size of 0 here, the file lies in TMPDIR\n{}\n",
            table(heads, rows.chain(core::iter::once(trap)))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_stands_in_the_row_of_its_name() {
        assert!(ROWS.iter().enumerate().all(|(at, (call, ..))| *call as usize == at));
    }
}
