//! The results as text and as JSON.

use super::measure::{Done, Line};
use crate::bench::table::Table;
use anyhow::Result;
use serde_json::json;

/// What the table has of the result line, and under which heads. Waits are those of all threads.
const COLUMNS: [(&str, &[&str]); 8] = [
    ("messages", &["messages"]),
    ("KB", &["bytes"]),
    ("faults", &["read_faults", "write_faults"]),
    ("switches", &["switches"]),
    ("fault ms", &["fault_wait_ms"]),
    ("lock ms", &["lock_wait_ms"]),
    ("barrier ms", &["barrier_wait_ms"]),
    ("other ms", &["other_wait_ms"]),
];

/// One object.
pub(super) fn json(rows: &[Done], rounds: u32) -> Result<String> {
    Ok(serde_json::to_string_pretty(&json!({ "pairs": rounds, "rows": rows }))?)
}

/// What stands above all tables.
pub(super) fn head(rounds: u32) -> String {
    format!(
        "Medians of {rounds}, in each of which everything ran once; x: how many times as long as that.\n\
         Counts and waits are those of the measured part, of all nodes and threads together.\n"
    )
}

/// The table of a row.
pub(super) fn text(done: &Done) -> String {
    let (nodes, threads) = (plural(done.nodes, "node"), plural(done.threads, "thread"));
    let over = if done.nodes > 1 { format!(", {}", done.transport) } else { String::new() };
    let mut text = format!("\n{}: {}; {nodes} x {threads}{over}\n", done.row, done.what);
    let heads = ["", done.unit, "x alone", "x threads", "x floor"];
    let mut table = Table::new(heads.into_iter().chain(COLUMNS.map(|(head, _)| head)));
    for line in &done.lines {
        table.row(cells(line));
    }
    text.push_str(&table.render());
    for line in &done.lines {
        text.extend(fairness(line));
    }
    text
}

fn plural(count: u16, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn cells(line: &Line) -> Vec<String> {
    let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), digits);
    let ratios = [line.over_alone, line.over_threads, line.over_floor].map(ratio);
    let counted = line.numbers.get("messages").is_some_and(|&messages| messages > 0.0);
    let column = |(head, keys): (&str, &[&str])| {
        let numbers = keys.iter().filter_map(|&key| line.numbers.get(key));
        let sum = numbers.fold(0.0, |sum, number| sum + number);
        match head {
            "switches" if !line.numbers.is_empty() => format!("{sum:.0}"),
            _ if !counted => String::new(),
            "KB" => format!("{:.0}", sum / 1e3),
            head if head.ends_with(" ms") => digits(sum),
            _ => format!("{sum:.0}"),
        }
    };
    let own = [line.who.clone(), digits(line.value)];
    own.into_iter().chain(ratios).chain(COLUMNS.map(column)).collect()
}

/// Fairness: the least share that a thread had of the contended resource, and how long threads waited.
fn fairness(line: &Line) -> Option<String> {
    let number = |key: &str| line.numbers.get(key).copied();
    let (share, p99) = (number("share_min")?, number("wait_p99_us")?);
    Some(format!(
        "{}: least share {share:.0} %; 99 % of waits within {} us, longest {} us\n",
        line.who,
        digits(p99),
        digits(number("wait_max_us")?),
    ))
}

/// Three digits or so.
fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::options::Transport;

    #[test]
    fn a_row_shows_ratios_counts_and_who_had_how_much() {
        let numbers = [
            ("messages", 30.0),
            ("bytes", 4500.0),
            ("read_faults", 2.0),
            ("write_faults", 3.0),
            ("switches", 7.0),
            ("lock_wait_ms", 12.34),
            ("share_min", 42.0),
            ("wait_p99_us", 3.5),
            ("wait_max_us", 120.0),
        ];
        let line = Line {
            who: "auto".to_owned(),
            value: 5.0,
            over_alone: None,
            over_threads: Some(2.5),
            over_floor: None,
            numbers: numbers.map(|(key, value)| (key.to_owned(), value)).into(),
        };
        let done = Done {
            row: "queue",
            what: "tasks",
            unit: "us",
            transport: Transport::Tcp,
            nodes: 2,
            threads: 1,
            lines: vec![line],
        };
        let text = text(&done);
        let row: Vec<&str> = text
            .lines()
            .find(|line| line.starts_with("auto "))
            .unwrap()
            .split_whitespace()
            .collect();
        assert_eq!(
            row,
            ["auto", "5.00", "2.50", "30", "4", "5", "7", "0.00", "12.3", "0.00", "0.00"]
        );
        assert!(text.contains("queue: tasks; 2 nodes x 1 thread, tcp\n"), "{text}");
        assert!(
            text.contains("auto: least share 42 %; 99 % of waits within 3.50 us, longest 120 us")
        );
    }
}
