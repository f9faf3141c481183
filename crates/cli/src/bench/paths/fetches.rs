//! A page fetched from another node, by path (ParADE Figure 10).

use super::{Way, median, table};
use crate::bench::row::{Report, Row};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::process::{Command, Stdio};

/// A read fetch of 4 KiB between two nodes over a Unix socket.
#[derive(Debug, Serialize)]
pub(super) struct Fetched {
    way: Way,
    row: Row,
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
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the measuring program ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find(|line| line.starts_with('{'));
    let report: Report =
        serde_json::from_str(line.context("the measuring program printed no report")?)?;
    let row = report.rows.into_iter().find(|row| row.key == "scale-fetch");
    row.context("the measuring program has not measured a fetch")
}

pub(super) fn text(all: &[Fetched]) -> String {
    let rows = all.iter().map(|Fetched { way, row }| {
        let floor = row.floor.as_ref().map_or_else(String::new, |floor| median(floor.time));
        let ratio = row.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        vec![way.path.name().to_owned(), way.guard.to_owned(), median(row.ours), floor, ratio]
    });
    format!(
        "A read fetch of 4 KiB between two nodes, us, medians (ParADE Figure 10); the floor is a raw round trip\n{}\n",
        table(["path", "guard", "fetch", "floor", "ratio"], rows)
    )
}
