//! The cost model's numbers: from `bench costs`, or as given.

use anyhow::{Context, Result, ensure};
use clap::Args;
use multigrain_verify::scale::Costs;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::bench::options::Transport;

/// Where the costs come from; what is not given is measured.
#[derive(Debug, Args)]
pub(super) struct CostArgs {
    /// Takes the costs from a saved `bench costs --json`, instead of measuring for some seconds.
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// One way through the network [default: 0, nodes on one machine]
    #[arg(long, value_name = "US", value_parser = parse_cost)]
    latency_us: Option<f64>,
    /// Of a node's wire [default: as measured between two nodes here]
    #[arg(long, value_name = "GBIT", value_parser = parse_cost)]
    bandwidth_gbit: Option<f64>,
    /// What a fault takes beside its messages [default: as measured]
    #[arg(long, value_name = "US", value_parser = parse_cost)]
    fault_us: Option<f64>,
    /// A node's time to take a frame and act on it [default: as measured]
    #[arg(long, value_name = "US", value_parser = parse_cost)]
    service_us: Option<f64>,
    /// A node's time to send a frame [default: as measured]
    #[arg(long, value_name = "US", value_parser = parse_cost)]
    send_us: Option<f64>,
    /// How much later a node that computes or sleeps takes a frame [default: as measured]
    #[arg(long, value_name = "US", value_parser = parse_cost)]
    wake_us: Option<f64>,
}

/// Microseconds or Gbit/s.
pub(super) fn parse_cost(text: &str) -> Result<f64, String> {
    let wrong = "give a number from 0.001 to 1000000, such as 12.5";
    let number: f64 = text.parse().map_err(|_| wrong)?;
    if (0.001..=1e6).contains(&number) { Ok(number) } else { Err(wrong.to_owned()) }
}

impl CostArgs {
    /// What two nodes on this machine cost; zeroes if they are not `needed`
    /// and all is given.
    ///
    /// # Errors
    ///
    /// The file, or what was measured, is not what `bench costs --json` prints.
    pub(super) fn here(&self, transport: Transport, needed: bool) -> Result<Costs> {
        let given =
            [self.bandwidth_gbit, self.fault_us, self.service_us, self.send_us, self.wake_us];
        if let Some(file) = &self.costs {
            let text = fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            derive(&text, transport).with_context(|| {
                format!("{}: give what `bench costs --json` printed", file.display())
            })
        } else if needed || given.iter().any(Option::is_none) {
            derive(&measure(transport)?, transport).context("what was measured just now")
        } else {
            Ok(Costs::default())
        }
    }

    /// The same with what is given in its place.
    pub(super) fn there(&self, here: Costs) -> Costs {
        let ns = |us: Option<f64>, or: u64| us.map_or(or, |us| whole(us * 1e3));
        Costs {
            latency_ns: ns(self.latency_us, here.latency_ns),
            byte_ps: self.bandwidth_gbit.map_or(here.byte_ps, |gbit| whole(8e3 / gbit)),
            send_ns: ns(self.send_us, here.send_ns),
            service_ns: ns(self.service_us, here.service_ns),
            fault_ns: ns(self.fault_us, here.fault_ns),
            wake_ns: ns(self.wake_us, here.wake_ns),
        }
    }
}

/// `bench costs --quick` of this very program.
fn measure(transport: Transport) -> Result<String> {
    eprintln!("measuring costs; --costs FILE takes them from a file");
    let this = std::env::current_exe().context("the path of this program")?;
    let mut command = Command::new(this);
    command.args(["bench", "costs", "--quick", "--json", "--wait", "adaptive"]);
    command.args(["--transport", &transport.to_string()]);
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("starting the measurement")?;
    ensure!(output.status.success(), "the measurement ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// The model's numbers from those of two nodes that poll and then sleep.
///
/// A header's way from node to node is half sending and half taking it, as on one machine there is
/// no network between. A remote lock is a header there and one back, and the engines; a fetch is
/// that, the trap and what installs the page, and its bytes.
fn derive(json: &str, transport: Transport) -> Result<Costs> {
    let result: Value = serde_json::from_str(json)?;
    let jobs = result["jobs"].as_array().context("no jobs")?;
    let is_pair = |job: &&Value| {
        job["program"] == "pair"
            && job["wait"] == "adaptive"
            && job["transport"] == transport.to_string()
    };
    let job = jobs.iter().find(is_pair);
    let job = job.with_context(|| format!("no 2 nodes, {transport}, adaptive"))?;
    let ns = |key: &str| {
        let rows = job["rows"].as_array().into_iter().flatten();
        let row = rows.into_iter().find(|row| row["key"] == key);
        let us = row.and_then(|row| row["ours"]["median_us"].as_f64());
        us.map(|us| us * 1e3).with_context(|| format!("no row {key}"))
    };
    let (message, lock) = (ns("message-0")?, ns("lock-remote")?);
    let (small, page, large) =
        (ns("read-fetch-128")?, ns("read-fetch-4096")?, ns("read-fetch-65536")?);
    Ok(Costs {
        latency_ns: 0,
        byte_ps: whole((large - page) * 1e3 / f64::from((64 << 10) - (4 << 10))),
        send_ns: whole(message / 2.0),
        service_ns: whole((lock - message) / 2.0),
        fault_ns: whole(small - lock),
        wake_ns: whole(ns("read-fetch-computing")? - page),
    })
}

/// A whole number; 0 of a difference that noise made negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time of at most seconds"
)]
fn whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}

/// In a line.
pub(super) fn text(costs: &Costs) -> String {
    #[expect(clippy::cast_precision_loss, reason = "times of at most seconds")]
    let us = |ns: u64| ns as f64 / 1e3;
    format!(
        "latency {:.2} us, {:.3} ns a byte, sending a frame {:.2} us, taking it {:.2} us, fault \
         {:.2} us, waking {:.2} us",
        us(costs.latency_ns),
        us(costs.byte_ps),
        us(costs.send_ns),
        us(costs.service_ns),
        us(costs.fault_ns),
        us(costs.wake_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_costs_add_up_to_what_was_measured() {
        let rows: Vec<Value> = [
            ("message-0", 5.0),
            ("lock-remote", 12.0),
            ("read-fetch-128", 20.0),
            ("read-fetch-4096", 22.0),
            ("read-fetch-65536", 43.0),
            ("read-fetch-computing", 47.0),
        ]
        .map(|(key, us)| json!({ "key": key, "ours": { "median_us": us } }))
        .into();
        let pair =
            json!({ "program": "pair", "wait": "adaptive", "transport": "tcp", "rows": rows });
        let text = json!({ "jobs": [pair] }).to_string();
        let costs = derive(&text, Transport::Tcp).unwrap();
        assert_eq!(2 * (costs.send_ns + costs.service_ns), 12_000);
        assert_eq!(costs.fault_ns, 8_000);
        assert_eq!(costs.wake_ns, 25_000);
        assert_eq!(costs.byte_ps, 342);
        assert!(derive(&text, Transport::Unix).is_err());
        assert!(derive("{}", Transport::Tcp).is_err());
    }
}
