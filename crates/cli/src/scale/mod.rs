//! `multigrain scale`: how the applications would run on 2 to 1,024 nodes.
//!
//! | file | part |
//! |---|---|
//! | `costs` | the cost model's numbers: from `bench costs`, or as given |
//! | `real` | the real applications, for what computing takes and for comparison |
//! | `validate` | predicted against measured |
//! | `barriers` | how long a barrier takes |
//! | `print` | tables, JSON, the plot |
//!
//! Patterns and engines are `multigrain_verify::scale`'s.

mod barriers;
mod costs;
mod print;
mod real;
mod validate;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use core::fmt;
use multigrain_protocol::invalidation_tree::TreeShape;
use multigrain_types::Placement;
use multigrain_verify::scale::{Costs, Hosts, Pattern, Plan, Projection, apps, project, work};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::bench::options::Transport;
use crate::proof::{Section, command_line};
use costs::CostArgs;
use real::Setting;

/// Rounds of each application that are simulated; the others are taken to be like the last ones.
const ROUNDS: u32 = 3;
/// Runs of which the fastest counts.
const RUNS: u32 = 3;

/// Project the applications' speed-up on up to 1,024 nodes.
///
/// The applications' sharing patterns run through the real engines on a virtual cluster, so that
/// messages are counted and only times are modelled. Each node has a host of its own.
#[derive(Debug, Args)]
pub(crate) struct ScaleArgs {
    /// Which applications, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_parser = ["sor", "is", "water", "lu", "tsp", "jacobi"])]
    apps: Vec<String>,
    /// Numbers of nodes, 1 to 1024, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024),
          default_value = "2,4,8,16,32,64,128,256,512,1024")]
    nodes: Vec<u16>,
    #[command(flatten)]
    costs: CostArgs,
    /// Whose costs: what carries the messages.
    #[arg(long, value_enum, default_value_t = Transport::Unix)]
    transport: Transport,
    /// Who manages minipages.
    #[arg(long, value_enum, default_value_t = Manager::Auto)]
    manager: Manager,
    /// Which inputs.
    #[arg(long, value_enum, default_value_t = Input::Paper)]
    input: Input,
    /// Where the applications are; one-node runs say how fast they compute.
    #[arg(long, value_name = "DIR", default_value = "build/apps")]
    apps_dir: PathBuf,
    /// What an element takes on one node, as --json prints it; then no application is run.
    #[arg(long, value_name = "NS", value_parser = costs::parse_cost, conflicts_with = "validate")]
    element_ns: Option<f64>,
    /// Compares predictions for small inputs with real runs on this host, on 2 and 4 nodes; fails
    /// where messages or bytes differ that should not.
    #[arg(long)]
    validate: bool,
    /// Draws the speed-ups as an SVG image into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Projects no application, but how long a barrier of all nodes takes.
    #[arg(long, conflicts_with_all = ["apps", "input", "element_ns", "validate", "svg", "proof"])]
    barriers: bool,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// Writes the figures into this file, docs/PROOF.md of the source.
    #[arg(long, value_name = "FILE", value_parser = crate::proof::file)]
    proof: Option<PathBuf>,
}

/// `--manager`, of the choices of `run` those that differ here: node 0 allocates.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Manager {
    /// As in such a job.
    Auto,
    /// The node that allocated: node 0.
    Allocator,
    /// Neighbours on one node after the other.
    Spread,
    /// On each node a block of neighbours.
    Block,
}

impl Manager {
    fn placement(self, nodes: u16) -> Placement {
        match self {
            Self::Auto => Placement::for_nodes(nodes),
            Self::Allocator => Placement::Allocator,
            Self::Spread => Placement::Spread,
            Self::Block => Placement::Block,
        }
    }
}

impl fmt::Display for Manager {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Auto => "auto",
            Self::Block => "block",
            Self::Allocator => "allocator",
            Self::Spread => "spread",
        })
    }
}

/// `--input`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Input {
    /// Those of the Millipage paper.
    Paper,
    /// Small ones, as for --validate.
    Small,
    /// Those that fill 64 machines; not of TSP.
    Filling,
    /// On each number of nodes, those that give a node the work that one of 64 has with `filling`.
    Growing,
}

impl Input {
    fn patterns(self, nodes: u16) -> Vec<Box<dyn Pattern>> {
        match self {
            Self::Paper => apps::paper(),
            Self::Small => apps::small(),
            Self::Filling => apps::filling(),
            Self::Growing => apps::growing(nodes),
        }
    }
}

/// An application and how fast it computes.
#[derive(Debug)]
struct App {
    /// With the input that is run for real.
    small: Box<dyn Pattern>,
    element_ns: f64,
}

/// One application on some nodes.
#[derive(Debug)]
struct Point {
    /// As the flags of the program give it.
    input: String,
    nodes: u16,
    result: Projection,
    /// Against one node with the same input.
    speed_up: f64,
}

impl Point {
    /// Of a perfect speed-up.
    fn efficiency(&self) -> f64 {
        self.speed_up / f64::from(self.nodes)
    }
}

/// All points of an application.
#[derive(Debug)]
struct Curve {
    app: App,
    points: Vec<Point>,
}

/// Everything that is printed.
#[derive(Debug)]
struct Report {
    costs: Costs,
    curves: Vec<Curve>,
    rows: Vec<validate::Row>,
}

pub(crate) fn run(args: &ScaleArgs) -> ExitCode {
    match scale(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("multigrain: scale: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// False if a prediction differs from a run where it must not.
fn scale(args: &ScaleArgs) -> Result<bool> {
    let setting =
        Setting { apps: &args.apps_dir, transport: args.transport, manager: args.manager };
    // Costs take a while to measure.
    if !args.barriers && args.element_ns.is_none() {
        inputs(args).try_for_each(|small| setting.program(small.as_ref()).map(drop))?;
    }
    let here = args.costs.here(args.transport, args.validate)?;
    let costs = args.costs.there(here);
    if args.barriers {
        print!("{}", barriers::text(&args.nodes, costs, args.json)?);
        return Ok(true);
    }
    let apps = chosen(args, setting)?;
    let mut rows = Vec::new();
    if args.validate {
        for app in &apps {
            rows.extend(validate::compare(app, setting, here)?);
        }
    }
    let curves = apps.into_iter().map(|app| curve(app, args, costs)).collect::<Result<_>>()?;
    let report = Report { costs, curves, rows };
    if let Some(file) = &args.svg {
        fs::write(file, print::plot(&report))
            .with_context(|| format!("writing {}", file.display()))?;
    }
    if args.json {
        println!("{}", print::json(&report)?);
    } else {
        print!("{}", print::text(&report));
    }
    let wrong = report.rows.iter().filter_map(validate::Row::complaint);
    let wrong: Vec<String> = wrong.collect();
    wrong.iter().for_each(|line| eprintln!("multigrain: scale: {line}"));
    if let (Some(file), true) = (&args.proof, wrong.is_empty()) {
        let (title, command) = ("Projected scale", &command_line());
        Section { name: "scale", title, command, body: &print::proof(&report) }.write(file)?;
    }
    Ok(wrong.is_empty())
}

/// What the applications asked for are run with.
fn inputs(args: &ScaleArgs) -> impl Iterator<Item = Box<dyn Pattern>> {
    let projected = args.input.patterns(1);
    let is_projected = move |name| projected.iter().any(|pattern| pattern.name() == name);
    let wanted = |name| args.apps.is_empty() || args.apps.iter().any(|app| app == name);
    apps::small()
        .into_iter()
        .filter(move |small| wanted(small.name()) && is_projected(small.name()))
}

/// The applications asked for; each runs on one node first, unless its speed is given.
fn chosen(args: &ScaleArgs, setting: Setting<'_>) -> Result<Vec<App>> {
    inputs(args)
        .map(|small| {
            let element_ns = match args.element_ns {
                Some(ns) => ns,
                None => element_ns(small.as_ref(), setting)?,
            };
            Ok(App { small, element_ns })
        })
        .collect()
}

/// On one node a program computes and does nothing else.
fn element_ns(pattern: &dyn Pattern, setting: Setting<'_>) -> Result<f64> {
    let alone = setting.best_of(RUNS, pattern, 1)?;
    #[expect(clippy::cast_precision_loss, reason = "a mean over at most 2^53 elements")]
    let elements = work(pattern) as f64;
    Ok(alone.ms * 1e6 / elements)
}

fn curve(app: App, args: &ScaleArgs, costs: Costs) -> Result<Curve> {
    let name = app.small.name();
    let of = |pattern: &dyn Pattern, nodes| {
        let plan = Plan {
            pattern,
            nodes,
            element_ns: app.element_ns,
            costs,
            hosts: Hosts::OWN,
            invalidations: TreeShape::default(),
            placement: args.manager.placement(nodes),
            most_rounds: ROUNDS,
        };
        let place = || format!("{name} on {nodes} nodes");
        project(&plan).map_err(anyhow::Error::msg).with_context(place)
    };
    let mut points = Vec::new();
    for &nodes in &args.nodes {
        let inputs = args.input.patterns(nodes).into_iter();
        let Some(pattern) = inputs.into_iter().find(|pattern| pattern.name() == name) else {
            continue;
        };
        if nodes > pattern.most_nodes() {
            continue;
        }
        let (alone, result) = (of(pattern.as_ref(), 1)?, of(pattern.as_ref(), nodes)?);
        #[expect(clippy::cast_precision_loss, reason = "a ratio of times")]
        let speed_up = alone.ns as f64 / result.ns as f64;
        points.push(Point { input: pattern.flags(), nodes, result, speed_up });
    }
    Ok(Curve { app, points })
}
