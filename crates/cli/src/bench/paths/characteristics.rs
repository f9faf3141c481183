//! What ParADE's applications share (its Table 2).

use super::programs::{PROGRAMS, Program, result};
use super::table;
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;
use std::process::Command;

/// What one application asks for.
#[derive(Debug, Serialize)]
pub(super) struct Shared {
    program: &'static str,
    input: String,
    /// By its own reckoning, and what its node counts, with some bytes for the report.
    declared_bytes: f64,
    allocated_bytes: f64,
}

pub(super) fn measure(apps: &Path, quick: bool) -> Result<Vec<Shared>> {
    let mut all = Vec::new();
    for program in &PROGRAMS {
        let Some(place) = program.place(apps) else { continue };
        let input = if quick { program.small } else { program.papers };
        all.push(shared(program.name, &place, input)?);
    }
    Ok(all)
}

fn shared(program: &'static str, place: &Path, input: &[&str]) -> Result<Shared> {
    let mut command = Command::new(std::env::current_exe().context("the path of this program")?);
    command.args(["run", "-n", "1", "-t", "2", "--consistency", "lazy-release"]);
    command.args(["--no-tag-output", "--no-summary", "--timeout", "300", "--"]);
    command.arg(place).args(input);
    let line = result(command, &place.display().to_string())?;
    let [declared_bytes, allocated_bytes] = [line.number("declared")?, line.number("shared")?];
    Ok(Shared { program, input: input.join(" "), declared_bytes, allocated_bytes })
}

pub(super) fn text(all: &[Shared]) -> String {
    let rows = PROGRAMS.iter().map(|Program { name, paper, .. }| {
        let ours = match all.iter().find(|shared| shared.program == *name) {
            None => vec!["not built: make apps".to_owned()],
            Some(shared) => vec![
                shared.input.clone(),
                format!("{:.2}", shared.declared_bytes / f64::from(1 << 20)),
                shared.declared_bytes.to_string(),
                shared.allocated_bytes.to_string(),
            ],
        };
        let paper = paper.map(str::to_owned);
        core::iter::once((*name).to_owned()).chain(paper).chain(ours).collect()
    });
    let heads = ["application", "paper: input", "MB", "ours: input", "MiB", "bytes", "allocated"];
    format!(
        "Table 2: declared shared memory, which is counted and has no floor; one step, for steps allocate nothing. Allocated is what\n\
         the node counts: rounded up, and with the report's own. Ours declare what threads share; of its own the paper has the sum alone\n{}\n",
        table(heads, rows)
    )
}
