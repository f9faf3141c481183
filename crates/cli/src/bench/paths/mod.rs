//! `multigrain bench paths`: what the access paths cost (ParADE 5.2 and 5.3), each under each guard that the kernel has for
//! it here.
//!
//! | file | part |
//! |---|---|
//! | `calls` | the bare system calls (Table 1) |
//! | `operations` | making memory, updating a page, letting it go: one process, no job |
//! | `characteristics` | what the applications share (Table 2) |
//! | `initialization` | making that much memory (Table 3) |
//! | `fetches` | a page fetched from another node (Figure 10) |
//! | `programs` | applications by path, and how often their threads race for a page (Figures 11 to 15) |
//! | `plain` | system calls without anything around them |
//! | `chart` | Figures 10 and 11 as images |

mod calls;
mod characteristics;
mod chart;
mod fetches;
mod initialization;
mod operations;
mod plain;
mod programs;

use super::row::{Report, Row};
use super::samples::Summary;
use super::table::{Table, micros};
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use multigrain_memory::{AccessPath, GuardChoice, MemoryError};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What access paths (run --path) cost: Tables 1 to 3 and Figures 10 to 15 of ParADE beside ours.
///
/// Floors are measured in the same run, in turn: bare system calls, the same on private memory, a raw round trip of the same
/// size. The last table says of how many read faults another thread of the node was being served the same page.
#[derive(Debug, Args)]
pub(super) struct PathsArgs {
    /// Which parts, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', hide_default_value = true,
          default_values_t = Part::value_variants().to_vec())]
    only: Vec<Part>,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// Few samples and small inputs: to see that it works.
    #[arg(long)]
    quick: bool,
    /// Where the applications are; where there are none their tables are left out.
    #[arg(long, value_name = "DIR", default_value = "build/apps")]
    apps_dir: PathBuf,
    /// Draws Figures 10 and 11 as SVG images into this directory.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// Parts of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Table 1: bare system calls.
    Calls,
    /// The same of each path as a whole: making memory, updating a page, ending.
    Operations,
    /// Table 2: what the applications share.
    Characteristics,
    /// Table 3: making that much memory.
    Initialization,
    /// Figure 10: a page fetched from another node.
    Fetches,
    /// Figures 11 to 15: applications, and races for a page.
    Programs,
}

/// A path under a guard.
#[derive(Clone, Copy, Debug, Serialize)]
struct Way {
    #[serde(serialize_with = "name")]
    path: AccessPath,
    guard: &'static str,
}

fn name<S: serde::Serializer>(path: &AccessPath, out: S) -> core::result::Result<S::Ok, S::Error> {
    out.serialize_str(path.name())
}

impl Way {
    fn choice(self) -> GuardChoice {
        if self.guard == "uffd" { GuardChoice::Uffd } else { GuardChoice::Mprotect }
    }

    /// All that this system has.
    fn all() -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for path in AccessPath::ALL {
            for guard in ["uffd", "mprotect"] {
                let way = Self { path, guard };
                match operations::made(way, 0) {
                    Ok(_) => all.push(way),
                    Err(
                        MemoryError::PathNotGuarded { .. } | MemoryError::GuardUnavailable { .. },
                    ) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(all)
    }
}

/// Measures and prints, part by part.
pub(super) fn run(args: &PathsArgs) -> Result<()> {
    let ways = Way::all()?;
    let mut all = Map::new();
    for part in Part::value_variants().iter().filter(|part| args.only.contains(part)) {
        let name = part.to_possible_value().map(|value| value.get_name().to_owned());
        let name = name.unwrap_or_default();
        if !args.json {
            eprintln!("{name}");
        }
        let (value, text) = args.part(*part, &ways)?;
        if args.json {
            all.insert(name, value);
        } else {
            print!("{text}");
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}

impl PathsArgs {
    /// As JSON, and as text.
    fn part(&self, part: Part, ways: &[Way]) -> Result<(Value, String)> {
        Ok(match part {
            Part::Calls => {
                let calls = calls::measure(self.quick)?;
                (json!(calls), calls.text())
            }
            Part::Operations => {
                let operations = operations::measure(ways, self.quick)?;
                (json!(operations), operations.text())
            }
            Part::Characteristics => {
                let shared = characteristics::measure(&self.apps_dir, self.quick)?;
                (json!(shared), characteristics::text(&shared))
            }
            Part::Initialization => {
                let made = initialization::measure(self.quick)?;
                (json!(made), initialization::text(&made))
            }
            Part::Fetches => {
                let fetches = fetches::measure(ways, self.quick)?;
                self.draw("paths-10.svg", || chart::figure_10(&fetches))?;
                (json!(fetches), fetches::text(&fetches))
            }
            Part::Programs => {
                let programs = programs::measure(&self.apps_dir, self.quick)?;
                self.draw("paths-11.svg", || chart::figure_11(&programs))?;
                (json!(programs), programs::text(&programs))
            }
        })
    }

    fn draw(&self, name: &str, image: impl FnOnce() -> String) -> Result<()> {
        let Some(directory) = &self.svg else { return Ok(()) };
        let file = directory.join(name);
        fs::write(&file, image()).with_context(|| format!("writing {}", file.display()))
    }
}

/// What a measuring program reports.
fn rows(mut command: Command) -> Result<Vec<Row>> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the measuring program ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find(|line| line.starts_with('{'));
    let report: Report =
        serde_json::from_str(line.context("the measuring program printed no report")?)?;
    Ok(report.rows)
}

/// Rows of names and cells.
fn table<const N: usize>(heads: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new(heads);
    rows.for_each(|row| table.row(row));
    table.render()
}

fn median(summary: Summary) -> String {
    micros(summary.median_us)
}
