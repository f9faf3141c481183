//! Measures a row: several rounds, in each of which everything runs once, one after the other; then
//! medians.

use super::launch::{Build, Consistency, Launch};
use super::rows::{Baselines, Row};
use crate::bench::options::Transport;
use crate::bench::samples::median;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;

/// A row over one transport.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    pub(super) row: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) transport: Transport,
    pub(super) nodes: u16,
    pub(super) threads: u16,
    pub(super) lines: Vec<Line>,
}

/// One build of a row's program, or its floor. Medians of all rounds; ratios are made within a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) who: String,
    /// In the unit of the row.
    pub(super) value: f64,
    /// How many times as long as...
    pub(super) over_alone: Option<f64>,
    pub(super) over_threads: Option<f64>,
    pub(super) over_floor: Option<f64>,
    /// All numbers of the result line.
    pub(super) numbers: BTreeMap<String, f64>,
}

/// What was seen in one round.
#[derive(Clone, Debug, Default)]
struct Seen {
    value: f64,
    numbers: BTreeMap<String, f64>,
}

/// What runs in a round, and under which name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Sequential,
    Threads,
    LowerBound,
    Multigrain(Consistency),
}

/// Measures a row.
pub(super) fn row(
    row: &'static Row,
    transport: Transport,
    consistencies: &[Consistency],
    rounds: u32,
    launch: Launch<'_>,
) -> Result<Done> {
    let all = everybody(row, consistencies);
    let mut seen: Vec<Vec<Seen>> = vec![Vec::new(); all.len()];
    for round in 0..rounds {
        // Results are deterministic: they are checked in the first round only.
        let launch = Launch { check: round == 0, ..launch };
        for (who, seen) in all.iter().zip(&mut seen) {
            seen.push(once(row, *who, transport, launch)?);
        }
    }
    let of = |wanted: Who| all.iter().position(|&who| who == wanted).map(|at| seen[at].as_slice());
    let over = |ours: &[Seen], wanted: Who| {
        let pairs = ours.iter().zip(of(wanted)?);
        let ratios = pairs.map(|(ours, other)| row.unit.ratio(ours.value, other.value));
        ratios.collect::<Option<Vec<f64>>>().map(median)
    };
    let line = |(who, seen): (&Who, &Vec<Seen>)| Line {
        who: name(row, *who),
        value: median(seen.iter().map(|seen| seen.value)),
        over_alone: over(seen, Who::Sequential),
        over_threads: over(seen, Who::Threads),
        over_floor: over(seen, Who::LowerBound),
        numbers: medians(seen),
    };
    Ok(Done {
        row: row.name,
        what: row.what,
        unit: row.unit.name(),
        transport,
        nodes: row.nodes,
        threads: row.threads,
        lines: all.iter().zip(&seen).map(line).collect(),
    })
}

fn everybody(row: &Row, consistencies: &[Consistency]) -> Vec<Who> {
    let baselines: &[Who] = match row.baselines {
        Baselines::Nothing => &[],
        Baselines::Threads => &[Who::Threads],
        Baselines::SequentialAndThreads => &[Who::Sequential, Who::Threads],
    };
    let floor = row.floor.map(|_| Who::LowerBound);
    let ours = consistencies.iter().map(|&consistency| Who::Multigrain(consistency));
    baselines.iter().copied().chain(floor).chain(ours).collect()
}

fn name(row: &Row, who: Who) -> String {
    match who {
        Who::Sequential => "sequential build".to_owned(),
        Who::Threads => format!("{} threads", row.nodes * row.threads),
        Who::LowerBound => row.floor.map_or("floor", |floor| floor.name()).to_owned(),
        Who::Multigrain(consistency) => consistency.to_string(),
    }
}

fn once(row: &Row, who: Who, transport: Transport, launch: Launch<'_>) -> Result<Seen> {
    let build = match who {
        Who::Sequential => Build::Sequential,
        Who::Threads => Build::Threads,
        Who::Multigrain(consistency) => Build::Multigrain(consistency, transport),
        Who::LowerBound => {
            let value =
                row.floor.map_or(Ok(0.0), |floor| floor.measure(transport, launch.quick))?;
            return Ok(Seen { value, numbers: BTreeMap::new() });
        }
    };
    let result = launch.run(row, build)?;
    Ok(Seen { value: result.number(row.unit.key())?, numbers: result.numbers().clone() })
}

/// Of each number; all rounds have the same ones.
fn medians(seen: &[Seen]) -> BTreeMap<String, f64> {
    let keys = seen.first().into_iter().flat_map(|seen| seen.numbers.keys());
    let of = |key: &String| median(seen.iter().filter_map(|seen| seen.numbers.get(key).copied()));
    keys.map(|key| (key.clone(), of(key))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::programs::rows::ROWS;

    #[test]
    fn each_round_has_what_a_row_is_held_against() {
        let of = |name: &str| {
            let row = ROWS.iter().find(|row| row.name == name).unwrap();
            everybody(row, &[Consistency::Auto])
        };
        let ours = Who::Multigrain(Consistency::Auto);
        assert_eq!(of("counter"), [Who::LowerBound, ours]);
        assert_eq!(of("bulk-read"), [Who::Threads, Who::LowerBound, ours]);
        assert_eq!(of("water"), [Who::Sequential, Who::Threads, ours]);
    }

    #[test]
    fn each_number_has_its_own_median() {
        let seen = |ms: f64, messages: f64| Seen {
            value: ms,
            numbers: [("ms".to_owned(), ms), ("messages".to_owned(), messages)].into(),
        };
        let medians = medians(&[seen(1.0, 9.0), seen(2.0, 7.0), seen(3.0, 8.0)]);
        assert_eq!((medians["ms"], medians["messages"]), (2.0, 8.0));
    }
}
