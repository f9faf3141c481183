//! Results as tables, as JSON and as a plot.

use anyhow::Result;
use core::fmt::Write;
use serde_json::{Value, json};

use super::costs;
use super::validate::Row;
use super::{Curve, Point, Report};
use crate::bench::chart::{Axis, Chart, Line, Scale};
use crate::bench::table::Table;

/// Everything, for people.
pub(super) fn text(report: &Report) -> String {
    let mut text = format!(
        "Projected: messages are those of the real engines, times are modelled from these costs:\n{}\n",
        costs::text(&report.costs)
    );
    for Curve { app, points } in &report.curves {
        let name = app.small.name();
        let inputs = match points.first().filter(|_| !differ(points)) {
            Some(first) => first.input.as_str(),
            None => "with an input for each number of nodes",
        };
        let _ = write!(text, "\n{name} {inputs}; {:.2} ns an element\n", app.element_ns);
        text.push_str(&curve_table(points).render());
    }
    if !report.rows.is_empty() {
        text.push_str(
            "\nPredicted with the costs of this host against measured on it, small inputs, best of some runs\n",
        );
        text.push_str(&validation(&report.rows).render());
    }
    text
}

/// Whether the numbers of nodes have inputs of their own.
fn differ(points: &[Point]) -> bool {
    points.windows(2).any(|pair| pair[0].input != pair[1].input)
}

fn curve_table(points: &[Point]) -> Table {
    let input = differ(points).then_some("input");
    let heads = ["nodes", "ms", "speed-up", "efficiency", "faults", "messages", "MB"];
    let mut table = Table::new(heads.into_iter().chain(input));
    for point in points {
        let Point { nodes, result, speed_up, .. } = point;
        let cells = [
            nodes.to_string(),
            format!("{:.1}", float(result.ns) / 1e6),
            digits(*speed_up),
            digits(point.efficiency()),
            (result.read_faults + result.write_faults).to_string(),
            result.messages.to_string(),
            format!("{:.1}", float(result.bytes) / 1e6),
        ];
        table.row(cells.into_iter().chain(input.map(|_| point.input.clone())));
    }
    table
}

fn validation(rows: &[Row]) -> Table {
    let heads = [
        "app",
        "nodes",
        "ms predicted",
        "measured",
        "error",
        "messages",
        "measured",
        "error",
        "bytes error",
        "faults error",
    ];
    let mut table = Table::new(heads);
    for row in rows {
        let [ms, messages, bytes, faults] = row.errors().map(percent);
        table.row([
            row.app.to_owned(),
            row.nodes.to_string(),
            format!("{:.1}", row.predicted_ms()),
            format!("{:.1}", row.measured.ms),
            ms,
            row.predicted.messages.to_string(),
            row.measured.messages.to_string(),
            messages,
            bytes,
            faults,
        ]);
    }
    table
}

/// A speed-up, with as many digits as it is worth.
fn digits(speed_up: f64) -> String {
    if speed_up < 0.1 { format!("{speed_up:.4}") } else { format!("{speed_up:.2}") }
}

fn percent(share: f64) -> String {
    format!("{:+.1}%", share * 100.0)
}

/// One object.
pub(super) fn json(report: &Report) -> Result<String> {
    let costs = report.costs;
    let point = |point: &Point| {
        let Point { input, nodes, result, speed_up } = point;
        json!({
            "flags": input, "nodes": nodes, "ms": float(result.ns) / 1e6, "speed_up": speed_up,
            "efficiency": point.efficiency(),
            "read_faults": result.read_faults, "write_faults": result.write_faults,
            "messages": result.messages, "bytes": result.bytes,
        })
    };
    let curve = |Curve { app, points }: &Curve| {
        let points: Vec<Value> = points.iter().map(point).collect();
        json!({
            "app": app.small.name(),
            "element_ns": app.element_ns, "points": points,
        })
    };
    let row = |row: &Row| {
        let [ms, messages, bytes, faults] = row.errors();
        json!({
            "app": row.app, "nodes": row.nodes,
            "predicted_ms": row.predicted_ms(), "measured_ms": row.measured.ms,
            "errors": { "ms": ms, "messages": messages, "bytes": bytes, "faults": faults },
        })
    };
    let result = json!({
        "costs": {
            "latency_ns": costs.latency_ns, "byte_ps": costs.byte_ps, "send_ns": costs.send_ns,
            "service_ns": costs.service_ns, "fault_ns": costs.fault_ns, "wake_ns": costs.wake_ns,
        },
        "apps": report.curves.iter().map(curve).collect::<Vec<Value>>(),
        "validation": report.rows.iter().map(row).collect::<Vec<Value>>(),
    });
    Ok(serde_json::to_string_pretty(&result)?)
}

/// Speed-ups over nodes, both doubling.
pub(super) fn plot(report: &Report) -> String {
    let all = || report.curves.iter().flat_map(|curve| &curve.points);
    let most = f64::from(all().map(|point| point.nodes).max().unwrap_or(2).max(2));
    let speed_ups = || all().map(|point| point.speed_up);
    let least = speed_ups().fold(1.0, f64::min).log2().floor();
    let highest = speed_ups().fold(2.0, f64::max).log2().ceil();
    let powers = |first: f64, last: f64| {
        let next = move |power: &f64| (*power < last).then(|| power + 1.0);
        core::iter::successors(Some(first), next)
    };
    let tick = |power: f64| (power.exp2(), fraction(power));
    let chart = Chart {
        name: "Projected speed-up",
        title: "Projected speed-up over one node",
        x: Axis {
            label: "nodes",
            scale: Scale::Doubling(1.0, most),
            ticks: powers(0.0, most.log2().floor()).map(tick).collect(),
        },
        y: Axis {
            label: "speed-up",
            scale: Scale::Doubling(least.exp2(), highest.exp2()),
            ticks: powers(least, highest).map(tick).collect(),
        },
    };
    chart.draw(&report.curves.iter().map(line).collect::<Vec<Line>>())
}

fn line(curve: &Curve) -> Line {
    let alone = core::iter::once((1.0, 1.0));
    let others = curve.points.iter().map(|point| (f64::from(point.nodes), point.speed_up));
    Line { name: curve.app.small.name().to_owned(), points: alone.chain(others).collect() }
}

/// A power of two: 8, or 1/8.
fn fraction(power: f64) -> String {
    if power < 0.0 { format!("1/{}", (-power).exp2()) } else { power.exp2().to_string() }
}

/// The section of docs/PROOF.md.
pub(super) fn proof(report: &Report) -> String {
    let mut text = format!(
        "The applications' sharing patterns through the real engines; {}.\n\n| app | nodes | ms | \
         speed-up | messages |\n|---|--:|--:|--:|--:|\n",
        costs::text(&report.costs)
    );
    for curve in &report.curves {
        if let Some(Point { nodes, result, speed_up, .. }) = curve.points.last() {
            let (name, ms) = (curve.app.small.name(), float(result.ns) / 1e6);
            let (speed_up, messages) = (digits(*speed_up), result.messages);
            let _ = writeln!(text, "| {name} | {nodes} | {ms:.1} | {speed_up} | {messages} |");
        }
    }
    if report.rows.is_empty() {
        return text;
    }
    text.push_str(
        "\nAgainst real runs of small inputs:\n\n| app | nodes | ms predicted | ms measured | time | \
         messages | bytes |\n|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in &report.rows {
        let [time, messages, bytes, _] = row.errors().map(percent);
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {:.1} | {time} | {messages} | {bytes} |",
            row.app,
            row.nodes,
            row.predicted_ms(),
            row.measured.ms,
        );
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn float(count: u64) -> f64 {
    count as f64
}
