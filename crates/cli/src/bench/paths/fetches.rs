//! A page fetched from another node, by path (ParADE Figure 10).

use super::{Way, median, rows, table};
use crate::bench::row::Row;
use anyhow::{Context, Result};
use multigrain_memory::AccessPath;
use serde::Serialize;
use std::process::Command;

/// A read fetch of 4 KiB between two nodes over a Unix socket.
#[derive(Debug, Serialize)]
pub(super) struct Fetched {
    way: Way,
    row: Row,
}

impl Fetched {
    pub(super) fn path(&self) -> AccessPath {
        self.way.path
    }

    /// Of this guard alone.
    pub(super) fn us(&self, guard: &str) -> Option<f64> {
        (self.way.guard == guard).then_some(self.row.ours.median_us)
    }

    pub(super) fn floor_us(&self, guard: &str) -> Option<f64> {
        let floor = self.row.floor.as_ref()?;
        (self.way.guard == guard).then_some(floor.time.median_us)
    }
}

pub(super) fn measure(ways: &[Way], quick: bool) -> Result<Vec<Fetched>> {
    let samples = if quick { "64" } else { "4096" };
    ways.iter().map(|&way| Ok(Fetched { way, row: fetched(way, samples)? })).collect()
}

fn fetched(way: Way, samples: &str) -> Result<Row> {
    let this = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(&this);
    command.args(["run", "-n", "2", "--path", way.path.name(), "--guard", way.guard]);
    command.args(["--transport", "unix", "--wait", "adaptive", "--manager", "allocator"]);
    command.args(["--chunk", "1", "--learn", "off", "--timeout", "120"]);
    command.args(["--no-tag-output", "--no-summary", "--"]).arg(&this);
    command.args(["bench", "node", "scale", "--samples", samples, "--minipages", "256"]);
    command.args(["--grain", "4096", "--batch", "64", "--transport", "unix"]);
    let row = rows(command)?.into_iter().find(|row| row.key == "scale-fetch");
    row.context("the measuring program has not measured a fetch")
}

pub(super) fn text(all: &[Fetched]) -> String {
    let cells = all.iter().map(|Fetched { way, row }| {
        let floor = row.floor.as_ref().map_or_else(String::new, |floor| median(floor.time));
        let ratio = row.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        vec![way.path.name().to_owned(), way.guard.to_owned(), median(row.ours), floor, ratio]
    });
    format!(
        "Figure 10: a read fetch of 4 KiB between two nodes, us, medians; the floor is a raw round trip. The paper's has no numbers: its\n\
         paths are alike but for fork(), whose protocol takes twice as long. The parts of a fetch: bench costs\n{}\n",
        table(["path", "guard", "fetch", "floor", "ratio"], cells)
    )
}
