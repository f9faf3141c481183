//! The measuring jobs: a list, and how each is started through this binary's own launcher.

use super::probe::{cache_line_us, cpus};
use crate::bench::options::{Transport, WaitMode};
use crate::bench::row::{Report, Row};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::process::{Command, Stdio};

/// A job to run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) program: &'static str,
    pub(super) nodes: u32,
    pub(super) transport: Transport,
    pub(super) wait: WaitMode,
    samples: usize,
    size: Option<Size>,
}

/// A job of the series that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) name: &'static str,
    minipages: usize,
    grain: usize,
    batch: usize,
}

pub(super) const SMALL: Size = Size { name: "1 MiB", minipages: 256, grain: 4096, batch: 64 };
pub(super) const LARGE: Size = Size { name: "4 GiB", minipages: 1 << 20, grain: 4096, batch: 64 };
pub(super) const ONE: Size = Size { name: "1 minipage", minipages: 1, grain: 128, batch: 1 };
pub(super) const MILLION: Size =
    Size { name: "1,000,000 minipages", minipages: 1_000_000, grain: 128, batch: 1 };

/// A job that was run.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    pub(super) program: &'static str,
    pub(super) nodes: u32,
    pub(super) transport: Option<Transport>,
    pub(super) wait: Option<WaitMode>,
    pub(super) size: Option<&'static str>,
    /// Each node was kept on a CPU of its own.
    pub(super) pinned: bool,
    /// One hop of a cache line between two threads just before, and just after.
    pub(super) cache_line_us: [Option<f64>; 2],
    pub(super) guard: String,
    pub(super) rows: Vec<Row>,
}

/// All jobs, in order.
pub(super) fn plan(transports: &[Transport], waits: &[WaitMode], quick: bool) -> Vec<Plan> {
    let cpus = cpus();
    let samples = if quick { 64 } else { 2048 };
    let any = Plan {
        program: "memory",
        nodes: 1,
        transport: Transport::Unix,
        wait: WaitMode::Adaptive,
        samples,
        size: None,
    };
    let mut plans = vec![any.clone(), Plan { program: "local", ..any.clone() }];
    for &transport in transports {
        for &wait in waits.iter().filter(|&&wait| wait != WaitMode::Spin || cpus > 1) {
            plans.push(Plan { program: "pair", nodes: 2, transport, wait, ..any.clone() });
        }
    }
    let nodes = if quick { 3 } else { 8 };
    // More threads than cores: a thread that spins would starve those it waits for.
    let oversubscribed =
        if waits == [WaitMode::Block] { WaitMode::Block } else { WaitMode::Adaptive };
    for &transport in transports {
        plans.push(Plan { program: "many", nodes, transport, wait: oversubscribed, ..any.clone() });
    }
    for &transport in transports {
        for &wait in waits.iter().filter(|&&wait| wait != WaitMode::Spin || cpus > 1) {
            plans.push(Plan { program: "release", nodes: 2, transport, wait, ..any.clone() });
        }
        plans.push(Plan {
            program: "release",
            nodes: 4,
            transport,
            wait: oversubscribed,
            ..any.clone()
        });
    }
    // The sizes take turns, for the machine's speed drifts.
    for _ in 0..if quick { 1 } else { 5 } {
        for size in [SMALL, LARGE, ONE, MILLION] {
            let (transport, samples) = (transports[0], samples / 4);
            let plan = Plan { program: "scale", nodes: 2, transport, samples, ..any.clone() };
            plans.push(Plan { size: Some(size), ..plan });
        }
    }
    plans
}

impl Plan {
    /// What it measures, in a line.
    pub(super) fn title(&self) -> String {
        let (transport, wait) = (self.transport, self.wait);
        match (self.program, self.size) {
            ("memory", _) => "memory layer, one process".to_owned(),
            ("local", _) => "one node".to_owned(),
            ("release", _) => {
                format!("{} nodes, {transport}, {wait}, release consistency", self.nodes)
            }
            (_, None) => format!("{} nodes, {transport}, {wait}", self.nodes),
            (_, Some(size)) => {
                format!("{} nodes, {transport}, {wait}, {} shared", self.nodes, size.name)
            }
        }
    }

    /// Runs it, the cache-line probe before and after it.
    pub(super) fn run(&self) -> Result<Done> {
        let before = cache_line_us();
        let report = self.report().with_context(|| format!("measuring {}", self.title()))?;
        let linked = self.nodes > 1;
        Ok(Done {
            program: self.program,
            nodes: self.nodes,
            transport: linked.then_some(self.transport),
            wait: linked.then_some(self.wait),
            size: self.size.map(|size| size.name),
            pinned: self.is_pinned(),
            cache_line_us: [before, cache_line_us()],
            guard: report.guard,
            rows: report.rows,
        })
    }

    /// Two nodes on one CPU wake each other much faster than on two: left free, it is chance that
    /// is measured, for ours as for the raw sockets.
    fn is_pinned(&self) -> bool {
        self.nodes > 1 && self.nodes as usize <= cpus()
    }

    fn report(&self) -> Result<Report> {
        let mut command = self.command()?;
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = command.output().context("starting the measuring program")?;
        ensure!(output.status.success(), "the measuring program ended with {}", output.status);
        let text = String::from_utf8(output.stdout)?;
        let line = text.lines().find(|line| line.starts_with('{'));
        Ok(serde_json::from_str(line.context("the measuring program printed no report")?)?)
    }

    fn command(&self) -> Result<Command> {
        let this = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(&this);
        if self.program != "memory" {
            let (nodes, transport) = (self.nodes.to_string(), self.transport.to_string());
            let wait = self.wait.to_string();
            command.args(["run", "-n", &nodes, "--transport", &transport, "--wait", &wait]);
            command.args(["--manager", "allocator", "--chunk", "1", "--timeout", "900"]);
            command.args(["--learn", "off"]);
            command.args(["--no-tag-output", "--no-summary", "--"]).arg(&this);
        }
        command.args(["bench", "node", self.program, "--samples", &self.samples.to_string()]);
        let (transport, wait) = (self.transport.to_string(), self.wait.to_string());
        command.args(["--transport", &transport, "--wait", &wait]);
        if self.is_pinned() {
            command.arg("--pin");
        }
        if let Some(size) = self.size {
            command.args(["--minipages", &size.minipages.to_string()]);
            command.args(["--grain", &size.grain.to_string()]);
            command.args(["--batch", &size.batch.to_string()]);
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_meets_every_way_of_waiting_and_many_nodes_never_spin() {
        let plans =
            plan(&[Transport::Unix, Transport::Tcp], &[WaitMode::Spin, WaitMode::Block], false);
        let pairs = plans.iter().filter(|plan| plan.program == "pair").count();
        let cpus = cpus();
        assert_eq!(pairs, if cpus > 1 { 4 } else { 2 });
        let many: Vec<WaitMode> =
            plans.iter().filter(|plan| plan.program == "many").map(|plan| plan.wait).collect();
        assert_eq!(many, [WaitMode::Adaptive, WaitMode::Adaptive]);
    }
}
