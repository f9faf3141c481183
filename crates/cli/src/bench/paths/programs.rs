//! ParADE's applications by path, and how often their threads race for a page (ParADE Figures 11 to 15).

use super::table;
use crate::bench::result::ResultLine;
use crate::bench::samples::median;
use anyhow::{Context, Result, ensure};
use multigrain_memory::AccessPath;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Nodes of two threads each, as the paper's.
pub(super) const NODES: [u32; 2] = [2, 4];

/// One of ParADE's applications.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// What its times are of, and a small one.
    input: &'static [&'static str],
    pub(super) small: &'static [&'static str],
    /// The paper's, with as few steps as there can be.
    pub(super) papers: &'static [&'static str],
    /// What the paper's Table 2 says of it.
    pub(super) paper: [&'static str; 2],
}

pub(super) const PROGRAMS: [Program; 4] = [
    Program {
        name: "cg",
        input: &["--rows", "7000", "--nonzeros", "8", "--shift", "12"],
        small: &["--rows", "1400", "--nonzeros", "7", "--shift", "10"],
        papers: &["--rows", "14000", "--nonzeros", "11", "--iterations", "1"],
        paper: ["class A", "64"],
    },
    Program {
        name: "ep",
        input: &["--log2", "24"],
        small: &["--log2", "18"],
        papers: &["--log2", "18"],
        paper: ["class A", "0"],
    },
    Program {
        name: "helmholtz",
        input: &["--rows", "500", "--cols", "500", "--iterations", "50"],
        small: &["--rows", "90", "--cols", "70"],
        papers: &["--rows", "1000", "--cols", "1000", "--iterations", "1"],
        paper: ["1000 x 1000", "32"],
    },
    Program {
        name: "md",
        input: &["--particles", "300", "--steps", "60"],
        small: &["--particles", "45", "--steps", "30"],
        papers: &["--particles", "500", "--steps", "1"],
        paper: ["1000 iterations", "1"],
    },
];

impl Program {
    /// Where it is, if it is built.
    pub(super) fn place(&self, apps: &Path) -> Option<PathBuf> {
        Some(apps.join(format!("{}-mg", self.name))).filter(|place| place.is_file())
    }
}

/// One application on so many nodes.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    pub(super) program: &'static str,
    pub(super) nodes: u32,
    /// Milliseconds of the measured section, in the order of [`AccessPath::ALL`].
    millis: Vec<f64>,
    /// By the first of these paths.
    read_faults: f64,
    racing: f64,
}

impl Done {
    /// Of the read faults those in a race.
    pub(super) fn share(&self) -> f64 {
        if self.read_faults > 0.0 { self.racing / self.read_faults } else { 0.0 }
    }
}

pub(super) fn measure(apps: &Path, quick: bool) -> Result<Vec<Done>> {
    let rounds = if quick { 1 } else { 3 };
    let mut all = Vec::new();
    for program in &PROGRAMS {
        let Some(place) = program.place(apps) else { continue };
        let input = if quick { program.small } else { program.input };
        for nodes in NODES {
            let mut lines: Vec<Vec<ResultLine>> = AccessPath::ALL.map(|_| Vec::new()).into();
            for _ in 0..rounds {
                for (path, lines) in AccessPath::ALL.into_iter().zip(&mut lines) {
                    lines.push(ran(&place, path, nodes, input)?);
                }
            }
            all.push(done((program.name, nodes), &lines)?);
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
    command.args(input);
    result(command, &format!("{} on {nodes} nodes by --path {path}", program.display()))
}

pub(super) fn result(mut command: Command, what: &str) -> Result<ResultLine> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{what} ended with {}", output.status);
    ResultLine::find(&String::from_utf8_lossy(&output.stdout)).with_context(|| what.to_owned())
}

pub(super) fn text(all: &[Done]) -> String {
    if all.is_empty() {
        return "Applications are not there: `make apps` builds them where the source is, --apps-dir says where\n"
            .to_owned();
    }
    let rows = all.iter().map(|done| {
        let first = done.millis.first().copied().unwrap_or_default();
        let ratios = done.millis.iter().skip(1).map(|ms| format!("{:.2}", ms / first));
        let names = [done.program.to_owned(), done.nodes.to_string(), format!("{first:.0}")];
        let counts = [format!("{:.0}", done.read_faults), format!("{:.0}", done.racing)];
        let share = format!("{:.0} %", done.share() * 100.0);
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
        "Figures 11 to 15: applications of two threads a node, lazily consistent, guard mprotect, --learn off: the time by memfd, by\n\
         the others against it, and read faults while another thread of the node was served the page. The paper's have no numbers\n{}",
        table(heads, rows)
    )
}
