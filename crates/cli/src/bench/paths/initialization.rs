//! Making the memory of ParADE's applications on one node (its Table 3).

use super::operations::made;
use super::plain::{Child, Mapped, Sharing, file, fork, write};
use super::{Way, table};
use crate::bench::clock::timed;
use crate::bench::samples::{Samples, Summary};
use anyhow::{Context, Result};
use multigrain_memory::AccessPath;
use rustix::io::Errno;
use serde::Serialize;

/// An application, the shared memory that it declares in the paper, and the paper's milliseconds by a file, System V, mdup() and fork().
const APPLICATIONS: [(&str, usize, [&str; 4]); 4] = [
    ("CG", 64, ["891", "2", "2", "1"]),
    ("EP", 0, ["0", "0", "0", "0"]),
    ("Helmholtz", 32, ["446", "1", "2", "2"]),
    ("MD", 1, ["15", "1", "2", "1"]),
];

/// Making the memory of one application.
#[derive(Debug, Serialize)]
pub(super) struct Initialization {
    application: &'static str,
    mib: usize,
    /// Private memory of the size, mapped once.
    floor: Summary,
    /// In the order of [`AccessPath::ALL`].
    paths: Vec<Summary>,
    /// A file that is written, and shared memory that a child has: bare system calls.
    written: Summary,
    forked: Summary,
}

#[derive(Debug, Default)]
struct Times {
    floor: Samples,
    paths: [Samples; AccessPath::ALL.len()],
    written: Samples,
    forked: Samples,
}

pub(super) fn measure(quick: bool) -> Result<Vec<Initialization>> {
    let all = APPLICATIONS.iter().map(|&(application, mib, _)| {
        let mut times = Times::default();
        // In turn: the machine's speed drifts.
        for _ in 0..if quick { 2 } else { 20 } {
            times.round(mib << 20).with_context(|| format!("memory of {application}"))?;
        }
        Ok(Initialization {
            application,
            mib,
            floor: times.floor.summary(),
            paths: times.paths.iter().map(Samples::summary).collect(),
            written: times.written.summary(),
            forked: times.forked.summary(),
        })
    });
    all.collect()
}

impl Times {
    fn round(&mut self, bytes: usize) -> Result<()> {
        let mut mapped = Ok(None);
        self.floor
            .push(timed(|| mapped = some(bytes, |of| Mapped::anonymous(of, Sharing::Private))));
        mapped?.map_or(Ok(()), Mapped::unmap)?;
        for (path, times) in AccessPath::ALL.into_iter().zip(&mut self.paths) {
            let mut memory = None;
            times.push(timed(|| memory = Some(made(Way { path, guard: "mprotect" }, bytes))));
            memory.context("no memory")??;
        }
        let mut twice = Ok(None);
        self.written.push(timed(|| twice = some(bytes, mapped_twice)));
        if let Some([application, system]) = twice? {
            application.unmap()?;
            system.unmap()?;
        }
        let mut forked = Ok(None);
        self.forked.push(timed(|| forked = some(bytes, shared_with_a_child)));
        if let Some((mapped, child)) = forked? {
            child.end()?;
            mapped.unmap()?;
        }
        Ok(())
    }
}

/// Nothing is made of nothing.
fn some<T>(bytes: usize, made: impl Fn(usize) -> Result<T, Errno>) -> Result<Option<T>, Errno> {
    if bytes == 0 { Ok(None) } else { made(bytes).map(Some) }
}

/// As ParADE has it (4.1): the whole file is written before it is mapped.
fn mapped_twice(bytes: usize) -> Result<[Mapped; 2], Errno> {
    let file = file()?;
    write(&file, bytes)?;
    Ok([Mapped::of_file(&file, bytes)?, Mapped::of_file(&file, bytes)?])
}

/// 4.4.
fn shared_with_a_child(bytes: usize) -> Result<(Mapped, Child), Errno> {
    let mapped = Mapped::anonymous(bytes, Sharing::Shared)?;
    Ok((mapped, fork()?))
}

pub(super) fn text(all: &[Initialization]) -> String {
    let millis = |summary: Summary| format!("{:.3}", summary.median_us / 1e3);
    let rows = all.iter().zip(APPLICATIONS).map(|(of, (name, mib, paper))| {
        let ours = core::iter::once(of.floor).chain(of.paths.iter().copied());
        let ours = ours.chain([of.written, of.forked]).map(millis);
        let names = [name.to_owned(), mib.to_string()];
        names.into_iter().chain(ours).chain(paper.map(str::to_owned)).collect()
    });
    let heads = [
        "application",
        "MB",
        "private memory",
        "memfd",
        "file",
        "sysv",
        "mdup",
        "file, written",
        "mmap + fork",
        "paper: file",
        "sysv",
        "mdup",
        "fork",
    ];
    format!(
        "Table 3: initialization on one node, ms, medians: making what the paper's application declares, and mapping it twice, guard\n\
         mprotect; the floor is private memory, mapped once. A file's blocks are allocated; ParADE wrote them, which `file, written` does\n\
         by bare system calls. fork() is no access path here (ADR 56): mmap and fork of this process stand in its place\n{}\n",
        table(heads, rows)
    )
}
