//! `multigrain mutants`: tests of the tests. Every tool against every seeded fault.
//!
//! The faults are `multigrain_protocol::mutants`' and are in this binary only if it was built with
//! the feature `mutants`; `make mutants` does that.
//!
//! | file | part |
//! |---|---|
//! | `in_process` | tools that need no job |
//! | `tool` | the tools, and how one is run |
//! | `table` | what caught what, as Markdown |

mod in_process;
mod table;
mod tool;

use crate::proof::Section;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
pub(crate) use in_process::{ScenesArgs, play};
use multigrain_protocol::mutants::{MUTANTS, Row};
use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;
use table::Caught;
use tool::{Subject, TOOLS, Tool, Verdict};

/// Runs every tool against every seeded fault of the protocol and the runtime.
///
/// Those of release consistency have tools of their own, the same on release consistent memory; so
/// have flags in the wrong order and queues without a bound.
/// Exits with 1 if a mutant survives all tools, if a tool catches none, or if a tool finds
/// something without a mutant.
#[derive(Debug, Args)]
pub(crate) struct MutantsArgs {
    /// Mutants to try; all if none is given.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Tools to use, with commas between them; all if none is given.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    tools: Vec<String>,
    /// Tries the mutants of the protocol alone: the model checker does not see what lies below.
    #[arg(long)]
    protocol: bool,
    /// Leaves out the control, each tool without a mutant, where its time is not needed: `cargo test`
    /// runs the same.
    #[arg(long)]
    without_control: bool,
    /// Tries a mutant with no further tool once one has caught it.
    #[arg(long, conflicts_with_all = ["table", "proof"])]
    first_catch: bool,
    /// Mutants tried at the same time.
    #[arg(long, value_name = "N", default_value_t = NonZeroUsize::MIN)]
    jobs: NonZeroUsize,
    /// Lists the mutants and what they break; runs nothing.
    #[arg(long)]
    list: bool,
    /// Writes the table into this file, docs/tables/mutants.md of the source.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "tools", "protocol", "list"])]
    table: Option<PathBuf>,
    /// Writes the figures into this file, docs/PROOF.md of the source.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "tools", "protocol", "list"])]
    proof: Option<PathBuf>,
}

pub(crate) fn run(args: &MutantsArgs) -> ExitCode {
    let (rows, tools) = match (chosen_mutants(args), chosen_tools(args)) {
        (Ok(rows), Ok(tools)) => (rows, tools),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("multigrain: mutants: {error:#}");
            return ExitCode::from(2);
        }
    };
    if args.list {
        rows.iter().for_each(|row| println!("{:30} {}", row.name, row.breaks));
        return ExitCode::SUCCESS;
    }
    match try_all(args, &rows, &tools) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("multigrain: mutants: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn chosen_mutants(args: &MutantsArgs) -> Result<Vec<&'static Row>> {
    for name in &args.names {
        if !MUTANTS.iter().any(|row| row.name == name) {
            bail!("{name} is no mutant; multigrain mutants --list has them");
        }
    }
    let wanted = |row: &&Row| {
        (args.names.is_empty() || args.names.iter().any(|name| name == row.name))
            && !(args.protocol && row.is_of_runtime())
    };
    Ok(MUTANTS.iter().filter(wanted).collect())
}

fn chosen_tools(args: &MutantsArgs) -> Result<Vec<&'static Tool>> {
    if args.tools.is_empty() {
        return Ok(TOOLS.iter().collect());
    }
    let named = |name: &String| {
        let tool = TOOLS.iter().find(|tool| tool.name == name);
        let all = || TOOLS.map(|tool| tool.name).join(", ");
        tool.with_context(|| format!("{name} is no tool: there are {}", all()))
    };
    args.tools.iter().map(named).collect()
}

/// How long a tool may take, in seconds.
const LIMIT: u64 = 120;
/// Where not to end is a finding: so many times as long as without a mutant, and a second more.
const PATIENCE: u64 = 10;

/// Runs a tool without a mutant, the control; how long it may take with one.
fn limit(tool: &Tool, without_control: bool) -> Result<u64> {
    if without_control && !tool.may_hang {
        return Ok(LIMIT);
    }
    let start = Instant::now();
    match tool.run(None, LIMIT)? {
        Verdict::Passed => {}
        Verdict::Caught(what) => bail!("{} fails without a mutant: {what}", tool.name),
        Verdict::Hangs | Verdict::TimedOut | Verdict::NotTried => {
            bail!("{} does not end without a mutant", tool.name)
        }
    }
    println!("no mutant: {} passes in {:.1} s", tool.name, start.elapsed().as_secs_f64());
    let patience = PATIENCE * (start.elapsed().as_secs() + 1);
    Ok(if tool.may_hang { patience } else { LIMIT })
}

/// The mutants of a subject, and what its tools said about them.
struct Outcome {
    subject: Subject,
    tools: Vec<&'static Tool>,
    caught: Vec<Caught>,
}

impl Outcome {
    fn text(&self) -> String {
        let (title, summary) = (self.subject.title(), table::summary(&self.caught, &self.tools));
        format!("{title}: {summary}.\n\n{}", table::markdown(&self.caught, &self.tools))
    }
}

/// Runs everything, prints as it goes, and judges.
fn try_all(args: &MutantsArgs, rows: &[&'static Row], tools: &[&'static Tool]) -> Result<()> {
    let begin = Instant::now();
    let mut outcomes = Vec::new();
    for subject in Subject::ALL {
        let rows: Vec<_> = rows.iter().copied().filter(|row| Subject::of(row) == subject).collect();
        let tools: Vec<_> = tools.iter().copied().filter(|tool| tool.subject == subject).collect();
        if !rows.is_empty() && !tools.is_empty() {
            let limits = tools.iter().map(|tool| limit(tool, args.without_control));
            let limits = limits.collect::<Result<Vec<u64>>>()?;
            let caught = try_each(&rows, &tools, &limits, args)?;
            outcomes.push(Outcome { subject, tools, caught });
        }
    }
    for Outcome { subject, tools, caught } in &outcomes {
        println!("{}: {}", subject.title(), table::summary(caught, tools));
    }
    println!("{:.0} s", begin.elapsed().as_secs_f64());
    let text = outcomes.iter().map(Outcome::text).collect::<Vec<_>>().join("\n");
    if let Some(file) = &args.table {
        let text = format!("{}\n{text}", table::HEAD);
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let survivors =
        outcomes.iter().flat_map(|outcome| &outcome.caught).filter(|one| one.survives());
    let survivors: Vec<&str> = survivors.map(|one| one.row.name).collect();
    ensure!(survivors.is_empty(), "nothing catches {}", survivors.join(", "));
    for outcome in &outcomes {
        for (index, tool) in outcome.tools.iter().enumerate() {
            let useful = outcome.caught.iter().any(|one| one.verdicts[index].is_caught());
            ensure!(useful, "{} catches nothing", tool.name);
        }
    }
    let Some(file) = &args.proof else { return Ok(()) };
    Section { name: "mutants", title: "Seeded faults", command: "make mutants", body: &text }
        .write(file)
}

/// Every tool against every mutant, of which `args.jobs` are tried at a time.
fn try_each(
    rows: &[&'static Row],
    tools: &[&'static Tool],
    limits: &[u64],
    args: &MutantsArgs,
) -> Result<Vec<Caught>> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, Caught)>> {
        let mut caught = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&row) = rows.get(at) else { return Ok(caught) };
            caught.push((at, try_one(row, tools, limits, args.first_catch)?));
        }
    };
    let caught = thread::scope(|scope| {
        let workers: Vec<_> = (0..args.jobs.get()).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(|worker| worker.join().expect("workers do not panic"));
        joined.collect::<Result<Vec<_>>>()
    })?;
    let mut caught: Vec<(usize, Caught)> = caught.into_iter().flatten().collect();
    caught.sort_by_key(|&(at, _)| at);
    Ok(caught.into_iter().map(|(_, caught)| caught).collect())
}

/// All tools against one mutant, or all up to the first that catches it; what they said is printed when the
/// last has.
fn try_one(
    row: &'static Row,
    tools: &[&'static Tool],
    limits: &[u64],
    first_catch: bool,
) -> Result<Caught> {
    let mut text = format!("{}: {}\n", row.name, row.breaks);
    let mut verdicts = vec![Verdict::NotTried; tools.len()];
    let mut note = |at: usize, start: Instant, verdict: Verdict| {
        let (took, said) = (start.elapsed().as_secs_f64(), table::cell(&verdict));
        let _ = writeln!(text, "  {:13} {took:>5.1} s  {said}", tools[at].name);
        verdicts[at] = verdict;
        first_catch && verdicts[at].is_caught()
    };
    let each = || tools.iter().zip(limits).enumerate();
    let mut caught = false;
    for (at, (tool, &limit)) in each().filter(|_| first_catch) {
        let start = Instant::now();
        if let Some(verdict) = tool.run_where_seen(row.name, limit) {
            caught |= note(at, start, verdict?);
        }
    }
    for (at, (tool, &limit)) in each() {
        if !caught {
            let start = Instant::now();
            caught = note(at, start, tool.run(Some(row.name), limit)?);
        }
    }
    print!("{text}");
    Ok(Caught { row, verdicts })
}
