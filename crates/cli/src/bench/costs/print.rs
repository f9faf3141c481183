//! The results as text and as JSON.

use super::breakdown::Breakdown;
use super::criteria::Criterion;
use super::jobs::Done;
use super::paper;
use super::probe::cpus;
use super::probe::place;
use crate::bench::row::Row;
use crate::bench::table::{Table, micros};
use anyhow::Result;
use serde_json::{Value, json};

/// One object: the machine, the jobs with their rows, the criteria.
pub(super) fn json(jobs: &[Done], criteria: &[Criterion]) -> Result<String> {
    let mut all = Vec::new();
    for job in jobs {
        let mut value = serde_json::to_value(job)?;
        let rows = job.rows.iter().map(row_json).collect::<Result<Vec<_>>>()?;
        value["rows"] = Value::Array(rows);
        value["fetch_parts"] = json!(Breakdown::of(job, jobs));
        all.push(value);
    }
    let machine = json!({ "cpus": cpus(), "kernel": kernel() });
    let result = json!({ "machine": machine, "jobs": all, "bars": criteria });
    Ok(serde_json::to_string_pretty(&result)?)
}

fn row_json(row: &Row) -> Result<Value> {
    let mut value = serde_json::to_value(row)?;
    value["ratio"] = json!(row.ratio());
    value["paper_us"] = json!(paper::figure(&row.key));
    Ok(value)
}

/// Tables, one a job, and the criteria.
pub(super) fn text(jobs: &[Done], criteria: &[Criterion]) -> String {
    let mut text = format!(
        "{} CPUs, Linux {}. Times in microseconds. paper: Millipage 4.2, 300 MHz Pentium II;\n\
         under release consistency MGS Table 1, cycles of 20 MHz, pages of 1 KB, 50 us added to a \
         message.\n\
         floor: the same bytes over a plain socket of the same kind, waiting in the same way, in \
         turn with ours.\n",
        cpus(),
        kernel()
    );
    for job in jobs.iter().filter(|job| job.size.is_none()) {
        text.push_str(&format!("\n{}\n", heading(job)));
        text.push_str(&rows_table(&job.rows).render());
        text.extend(Breakdown::of(job, jobs).map(|parts| parts.line()));
    }
    let sizes: Vec<&Done> = jobs.iter().filter(|job| job.size.is_some()).collect();
    if !sizes.is_empty() {
        text.push_str("\nThe same in jobs of different size, by turns: medians\n");
        text.push_str(&sizes_table(&sizes).render());
    }
    text.push_str("\nHeld against what they should be\n");
    let mut table = Table::new(["promise", "value", "limit", ""]);
    for criterion in criteria {
        let verdict = if criterion.pass { "pass" } else { "FAIL" };
        table.row([
            &criterion.promise,
            &format!("{:.2}", criterion.value),
            &format!("{:.2}", criterion.limit),
            verdict,
        ]);
    }
    text.push_str(&table.render());
    text
}

fn heading(job: &Done) -> String {
    let hops = match job.cache_line_us {
        [Some(before), Some(after)] => {
            let (first, last) = (place(before), place(after));
            format!("cache line {before:.2} us ({first}) before, {after:.2} us ({last}) after")
        }
        _ => "one CPU".to_owned(),
    };
    let nodes = match (job.transport, job.wait) {
        (Some(transport), Some(wait)) => format!("{} nodes, {transport}, {wait}", job.nodes),
        _ => format!("one process ({})", job.program),
    };
    let note = match (job.pinned, job.nodes) {
        (true, _) => "; each node on a CPU of its own",
        (false, 2..) => "; more nodes than CPUs, so nobody spins",
        (false, _) => "",
    };
    let nodes = if job.program == "release" { nodes + ", release consistency" } else { nodes };
    format!("{nodes}; {}; {hops}{note}", job.guard)
}

fn rows_table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "operation",
        "median",
        "p99",
        "floor",
        "ratio",
        "floor is",
        "memcpy",
        "messages",
        "page bytes",
        "notices",
        "paper",
    ]);
    let dash = || "-".to_owned();
    for row in rows {
        let floor = row.floor.as_ref();
        table.row([
            row.operation.clone(),
            micros(row.ours.median_us),
            micros(row.ours.p99_us),
            floor.map_or_else(dash, |floor| micros(floor.time.median_us)),
            row.ratio().map_or_else(dash, |ratio| format!("{ratio:.2}")),
            floor.map_or_else(dash, |floor| floor.what.clone()),
            row.memcpy_us.map_or_else(dash, micros),
            row.counts.map_or_else(dash, |counts| format!("{:.2}", counts.messages)),
            row.counts.map_or_else(dash, |counts| format!("{:.0}", counts.page_bytes)),
            row.counts
                .filter(|counts| counts.notices > 0.0)
                .map_or_else(dash, |counts| format!("{:.1}", counts.notices)),
            paper::figure(&row.key).unwrap_or_else(dash),
        ]);
    }
    table
}

fn sizes_table(jobs: &[&Done]) -> Table {
    let mut table =
        Table::new(["shared", "read fetch", "raw", "barrier", "lock remote", "lock cached"]);
    for job in jobs {
        let of = |key: &str| job.rows.iter().find(|row| row.key == key);
        let median = |key: &str| of(key).map_or_else(String::new, |row| micros(row.ours.median_us));
        let raw = of("scale-fetch").and_then(|row| row.floor.as_ref());
        table.row([
            job.size.unwrap_or_default().to_owned(),
            median("scale-fetch"),
            raw.map_or_else(String::new, |floor| micros(floor.time.median_us)),
            median("barrier-2"),
            median("lock-remote"),
            median("lock-cached"),
        ]);
    }
    table
}

fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}
