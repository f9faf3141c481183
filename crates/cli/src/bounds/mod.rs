//! `multigrain bounds`: shows on real nodes that what a program can fill is bounded (ADR 19).
//!
//! For tests, and as a tool that has to find mutants. In each job node 1 fills something for as long as it
//! is allowed to. Where only node 0 can make room, node 0 is stopped until node 1 makes no progress any more; a
//! node that goes on all the same has filled its memory.
//!
//! | file | part |
//! |---|---|
//! | `node` | a node of such a job: this binary again |

mod node;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use std::fmt;
use std::process::{Command, ExitCode, Stdio};

/// Fills queues on real nodes, which must end.
#[derive(Debug, Args)]
pub(crate) struct BoundsArgs {
    /// Runs as a node of such a job.
    #[arg(long, hide = true, value_enum, value_name = "SCENE")]
    node: Option<Scene>,
    /// Sockets of the jobs; several with commas.
    #[arg(long, value_delimiter = ',', default_value = "unix,tcp")]
    transport: Vec<String>,
}

/// What is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scene {
    /// The link to a stopped node, by posts to it.
    Posts,
    /// The same by hints.
    Pushes,
    /// The tracker, by posts to a third node behind a flush that a stopped one does not acknowledge.
    Held,
    /// The names of a job.
    Names,
}

impl fmt::Display for Scene {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value();
        out.write_str(name.as_ref().map_or("", |value| value.get_name()))
    }
}

/// No job takes longer, unless it hangs; in seconds.
const LIMIT: &str = "120";

/// Runs the jobs; the exit code says whether all that was filled had an end.
pub(crate) fn run(args: &BoundsArgs) -> ExitCode {
    if let Some(scene) = args.node {
        return node::run(scene);
    }
    let scenes = Scene::value_variants().iter();
    let mut jobs = scenes.flat_map(|scene| args.transport.iter().map(move |on| (*scene, on)));
    match jobs.try_for_each(|(scene, transport)| prove(scene, transport)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("multigrain: bounds: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn prove(scene: Scene, transport: &str) -> Result<()> {
    let this = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(&this);
    let nodes = if scene == Scene::Held { "3" } else { "2" };
    command.args(["run", "-n", nodes, "--no-tag-output", "--no-summary", "--timeout", LIMIT]);
    command.args(["--transport", transport]);
    if scene == Scene::Held {
        command.args(["--consistency", "lazy-release"]);
    }
    command.arg("--").arg(&this).args(["bounds", "--node", &scene.to_string()]);
    let ended = command.stdin(Stdio::null()).output().context("starting the job")?;
    let [out, err] = [&ended.stdout, &ended.stderr].map(|text| String::from_utf8_lossy(text));
    // The launcher's own lines say which node failed, and that one why.
    let complaint = err.lines().find(|line| !line.starts_with("multigrain: "));
    let complaint = complaint.or_else(|| err.lines().next()).unwrap_or("no word");
    ensure!(ended.status.success(), "{scene} over {transport}: {complaint}");
    println!("{scene} over {transport}: {}", out.trim());
    Ok(())
}
