//! `multigrain bench paths`: what the access paths cost (ParADE 5.2 and 5.3), each under each guard that the kernel has for
//! it here.
//!
//! | file | part |
//! |---|---|
//! | `operations` | making memory, updating a page, letting it go (Table 1): one process, no job |
//! | `fetches` | a page fetched from another node (Figure 10) |
//! | `programs` | applications by path, and how often their threads race for a page (Figures 11 to 15) |

mod fetches;
mod operations;
mod programs;

use super::samples::Summary;
use super::table::{Table, micros};
use anyhow::Result;
use clap::Args;
use multigrain_memory::{AccessPath, GuardChoice, MemoryError};
use serde::Serialize;
use std::path::PathBuf;

/// What access paths (run --path) cost: making memory, updating a page, fetching one, whole applications.
///
/// The floor, in turn with each operation, is the same on private memory; of a fetch, a raw round trip of the same size.
/// The last table says of how many read faults another thread of the node was being served the same page.
#[derive(Debug, Args)]
pub(super) struct PathsArgs {
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// Few samples and small inputs: to see that it works.
    #[arg(long)]
    quick: bool,
    /// Where the applications are; where there are none their table is left out.
    #[arg(long, value_name = "DIR", default_value = "build/apps")]
    apps_dir: PathBuf,
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
                match operations::made(way) {
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

/// Measures and prints.
pub(super) fn run(args: &PathsArgs) -> Result<()> {
    let ways = Way::all()?;
    let say = |what: &str| {
        if !args.json {
            eprintln!("{what}");
        }
    };
    say("1 of 3: operations");
    let operations = operations::measure(&ways, args.quick)?;
    say("2 of 3: fetches");
    let fetches = fetches::measure(&ways, args.quick)?;
    say("3 of 3: applications");
    let programs = programs::measure(&args.apps_dir, args.quick)?;
    if args.json {
        let all = serde_json::json!({
            "operations": operations, "fetches": fetches, "programs": programs
        });
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print!("{}", operations.text());
        print!("{}", fetches::text(&fetches));
        print!("{}", programs::text(&programs));
    }
    Ok(())
}

/// Rows of a path, a guard and cells.
fn table<const N: usize>(heads: [&str; N], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new(heads);
    rows.for_each(|row| table.row(row));
    table.render()
}

fn median(summary: Summary) -> String {
    micros(summary.median_us)
}
