//! `multigrain bench mirage`: the tables and figures of MIRAGE+ (4 and 5) beside ours.
//!
//! | file | part |
//! |---|---|
//! | `faults` | the parts of a page fault, handshake against blast, who serves, invalidations (Tables 1 to 3, 4.6, 4.7) |
//! | `compression` | pages by what they compress to (Table 4, Figure 4) |
//! | `battleship` | two players in one page (Table 5, Figure 6) |
//! | `matmul` | a master and workers (Table 6, Figure 7) |
//! | `summary` | all of them by what is switched on (Table 7) |
//! | `job` | the jobs, and what is read of them |
//! | `chart` | Figures 4 and 7 as images |

mod battleship;
mod chart;
mod compression;
mod faults;
mod job;
mod matmul;
mod summary;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use job::Programs;
use serde_json::{Map, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Tables 1 to 7 and Figures 4, 6 and 7 of MIRAGE+ beside ours: page faults, compression, battleship, matrices.
///
/// Floors are measured in the same run: a plain socket, memcpy, a local program. What a network decides is measured between nodes
/// of this host, and once more on one as slow as the paper's (run --emulate 2700us,10M). The programs need root, as run --sysv
/// does; where they are not built, their tables are left out.
#[derive(Debug, Args)]
pub(super) struct MirageArgs {
    /// Which parts, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', hide_default_value = true,
          default_values_t = Part::value_variants().to_vec())]
    only: Vec<Part>,
    /// How often each program runs, of which the medians are shown.
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// Few samples, one run, small inputs: to see that it works.
    #[arg(long)]
    quick: bool,
    /// Where the programs are: `make -C apps/sysv OUT=DIR` builds them.
    #[arg(long, value_name = "DIR", default_value = "build/sysv")]
    apps_dir: PathBuf,
    /// Draws Figures 4 and 7 as SVG images into this directory.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

/// Parts of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Tables 1 to 3: what a page fault is made of, and who serves it.
    Faults,
    /// Table 4 and Figure 4.
    Compression,
    /// Table 5 and Figure 6.
    Battleship,
    /// Table 6 and Figure 7.
    Matmul,
    /// Table 7.
    Summary,
}

/// Measures and prints, part by part.
pub(super) fn run(args: &MirageArgs) -> Result<()> {
    let programs = Programs::at(&args.apps_dir);
    let runs = if args.quick { 1 } else { args.runs };
    let mut all = Map::new();
    for part in Part::value_variants().iter().filter(|part| args.only.contains(part)) {
        let name = part.to_possible_value().map(|value| value.get_name().to_owned());
        let name = name.unwrap_or_default();
        if !args.json {
            eprintln!("{name}");
        }
        let missing = || {
            format!(
                "{name}: no programs in {}; `make -C apps/sysv` builds them\n\n",
                args.apps_dir.display()
            )
        };
        let (value, text) = match (part, &programs) {
            (Part::Faults, _) => {
                let faults = faults::measure(args.quick)?;
                (json!(faults), faults.text()?)
            }
            (Part::Compression, _) => {
                let compression = compression::measure(args.quick)?;
                args.draw("mirage-4.svg", || chart::figure_4(&compression))?;
                (json!(compression), compression.text()?)
            }
            (Part::Battleship, Some(programs)) => {
                let battleship = battleship::measure(programs, runs, args.quick)?;
                (json!(battleship), battleship.text())
            }
            (Part::Matmul, Some(programs)) => {
                let matmul = matmul::measure(programs, runs, args.quick)?;
                args.draw("mirage-7.svg", || chart::figure_7(&matmul))?;
                (json!(matmul), matmul.text())
            }
            (Part::Summary, programs) => {
                let summary = summary::measure(programs.as_ref(), runs, args.quick)?;
                (json!(summary), summary.text()?)
            }
            (Part::Battleship | Part::Matmul, None) => (json!(null), missing()),
        };
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

impl MirageArgs {
    fn draw(&self, name: &str, image: impl FnOnce() -> String) -> Result<()> {
        let Some(directory) = &self.svg else { return Ok(()) };
        let file: &Path = &directory.join(name);
        fs::write(file, image()).with_context(|| format!("writing {}", file.display()))
    }
}
