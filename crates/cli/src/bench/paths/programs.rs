//! ParADE's applications by path, and how often their threads race for a page (ParADE Figures 11 to 15).

use super::table;
use crate::bench::result::ResultLine;
use crate::bench::samples::median;
use anyhow::{Context, Result, ensure};
use multigrain_memory::AccessPath;
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};

/// Nodes of two threads each, as the paper's.
const NODES: [u32; 2] = [2, 4];

/// Name, input, and a small one.
const PROGRAMS: [(&str, &[&str], &[&str]); 4] = [
    (
        "cg",
        &["--rows", "7000", "--nonzeros", "8", "--shift", "12"],
        &["--rows", "1400", "--nonzeros", "7", "--shift", "10"],
    ),
    ("ep", &["--log2", "24"], &["--log2", "18"]),
    (
        "helmholtz",
        &["--rows", "500", "--cols", "500", "--iterations", "50"],
        &["--rows", "90", "--cols", "70"],
    ),
    ("md", &["--particles", "300", "--steps", "60"], &["--particles", "45", "--steps", "30"]),
];

/// One application on so many nodes.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    program: &'static str,
    nodes: u32,
    /// Milliseconds of the measured section, in the order of [`AccessPath::ALL`].
    millis: Vec<f64>,
    /// By the first of these paths.
    read_faults: f64,
    racing: f64,
}

pub(super) fn measure(apps: &Path, quick: bool) -> Result<Vec<Done>> {
    let rounds = if quick { 1 } else { 3 };
    let mut all = Vec::new();
    for &(program, input, small) in &PROGRAMS {
        let place = apps.join(format!("{program}-mg"));
        if !place.is_file() {
            continue;
        }
        for nodes in NODES {
            let mut lines: Vec<Vec<ResultLine>> = AccessPath::ALL.map(|_| Vec::new()).into();
            for _ in 0..rounds {
                for (path, lines) in AccessPath::ALL.into_iter().zip(&mut lines) {
                    lines.push(ran(&place, path, nodes, if quick { small } else { input })?);
                }
            }
            all.push(done((program, nodes), &lines)?);
        }
    }
    Ok(all)
}

fn done((program, nodes): (&'static str, u32), lines: &[Vec<ResultLine>]) -> Result<Done> {
    let median = |lines: &Vec<ResultLine>, key: &str| {
        let numbers: Result<Vec<f64>> = lines.iter().map(|line| line.number(key)).collect();
        numbers.map(median)
    };
    let millis: Result<_> = lines.iter().map(|lines| median(lines, "ms")).collect();
    let first = lines.first().context("no path")?;
    let (read_faults, racing) = (median(first, "read_faults")?, median(first, "racing")?);
    Ok(Done { program, nodes, millis: millis?, read_faults, racing })
}

/// One run, whose result the program checks. Under the guard that every path has.
fn ran(program: &Path, path: AccessPath, nodes: u32, input: &[&str]) -> Result<ResultLine> {
    let this = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(this);
    command.args(["run", "--path", path.name(), "--guard", "mprotect", "--learn", "off"]);
    command.args(["-n", &nodes.to_string(), "-t", "2", "--consistency", "lazy-release"]);
    command.args(["--no-tag-output", "--no-summary", "--timeout", "300", "--"]).arg(program);
    let output = command.args(input).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    let what = || format!("{} on {nodes} nodes by --path {path}", program.display());
    ensure!(output.status.success(), "{} ended with {}", what(), output.status);
    ResultLine::find(&String::from_utf8_lossy(&output.stdout)).with_context(what)
}

pub(super) fn text(all: &[Done]) -> String {
    if all.is_empty() {
        return "Applications are not there: `make apps` builds them, --apps-dir says where\n"
            .to_owned();
    }
    let rows = all.iter().map(|done| {
        let first = done.millis.first().copied().unwrap_or_default();
        let ratios = done.millis.iter().skip(1).map(|ms| format!("{:.2}", ms / first));
        let share = if done.read_faults > 0.0 { done.racing / done.read_faults } else { 0.0 };
        let names = [done.program.to_owned(), done.nodes.to_string(), format!("{first:.0}")];
        let counts = [format!("{:.0}", done.read_faults), format!("{:.0}", done.racing)];
        let share = format!("{:.0} %", share * 100.0);
        names.into_iter().chain(ratios).chain(counts).chain([share]).collect()
    });
    let heads = [
        "program",
        "nodes",
        "memfd, ms",
        "file",
        "sysv",
        "mdup",
        "read faults",
        "in a race",
        "share",
    ];
    format!(
        "Applications of two threads a node, lazily consistent, guard mprotect, --learn off (ParADE Figures 11 to 15): the time by \
         memfd, by the others against it, and read faults while another thread of the node was served the page\n{}",
        table(heads, rows)
    )
}
