//! `multigrain bench views`: the experiment of Millipage 4.1 and Figure 5, on this machine.
//!
//! An array of N bytes lies in minipages of equal size, n in each page, and each of the n in a view
//! of its own. The array is read from first byte to last, over and over. More views mean more page
//! table entries for the same bytes, and the loop turns over smaller pieces. The second table has
//! the loop alone: the same pieces, all in one view.

mod chart;
mod traverse;

use super::options::parse_size;
use super::row::size_name;
use super::table::Table;
use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use traverse::Array;

/// The numbers of views tried; 1664 is the paper's largest.
const VIEWS: [usize; 11] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1664];
/// The smallest and the largest array.
const SMALLEST: usize = 512 << 10;
const LARGEST: usize = 64 << 20;

/// What many views cost: reading an array through 1 to 1664 of them (Figure 5).
#[derive(Debug, Args)]
pub(super) struct ViewsArgs {
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
    /// Draws the slowdowns as an SVG image into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Largest array: bytes, or with a suffix K, M or G.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    max: usize,
}

/// All points of one array size.
#[derive(Debug, Serialize)]
pub(super) struct Series {
    /// Bytes of the array.
    bytes: usize,
    points: Vec<Point>,
}

/// One number of views.
#[derive(Debug, Serialize)]
pub(super) struct Point {
    views: usize,
    /// The best of some traversals, milliseconds.
    millis: f64,
    /// Against one view, one run of bytes.
    slowdown: f64,
    /// The loop's part: the same pieces, all in one view.
    loop_slowdown: f64,
}

/// Measures and prints.
pub(super) fn run(args: &ViewsArgs) -> Result<()> {
    let mut all = Vec::new();
    let mut bytes = SMALLEST;
    while bytes <= args.max.clamp(SMALLEST, LARGEST) {
        if !args.json {
            eprintln!("{}", size_name(bytes));
        }
        all.push(measure(bytes)?);
        bytes *= 2;
    }
    if let Some(file) = &args.svg {
        fs::write(file, chart::draw(&all))
            .with_context(|| format!("writing {}", file.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&serde_json::json!({ "series": all }))?);
    } else {
        print!("{}", text(&all));
    }
    Ok(())
}

fn measure(bytes: usize) -> Result<Series> {
    let mut points = vec![Point { views: 1, millis: 0.0, slowdown: 1.0, loop_slowdown: 1.0 }];
    for views in VIEWS {
        let array = Array::new(bytes, views)?;
        let times = array.times();
        points[0].millis = times.plain;
        points.push(Point {
            views,
            millis: times.views,
            slowdown: times.views / times.plain,
            loop_slowdown: times.pieces / times.plain,
        });
    }
    Ok(Series { bytes, points })
}

fn text(all: &[Series]) -> String {
    let slowdowns = table(all, |point| point.slowdown);
    let loops = table(all, |point| point.loop_slowdown);
    format!(
        "Slowdown against one view, by number of views (n) and size of the array (Figure 5)\n\
         {slowdowns}\n\
         Of it, the loop alone: the same pieces in one view\n{loops}\n\
         The paper: below 1.04 up to n = 32 and 16 MiB; then linear in n from n * N = 512 MiB on.\n"
    )
}

fn table(all: &[Series], value: impl Fn(&Point) -> f64) -> String {
    let heads = VIEWS.iter().map(|views| format!("n={views}"));
    let mut table = Table::new(core::iter::once("N".to_owned()).chain(heads));
    for series in all {
        let cells = series.points.iter().skip(1).map(|point| format!("{:.2}", value(point)));
        table.row(core::iter::once(size_name(series.bytes)).chain(cells));
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_size_and_a_column_for_each_number_of_views() {
        let point = |views: usize| Point { views, millis: 1.0, slowdown: 1.5, loop_slowdown: 1.25 };
        let points = core::iter::once(1).chain(VIEWS).map(point).collect();
        let all = [Series { bytes: SMALLEST, points }];
        let table = table(&all, |point| point.slowdown);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].ends_with("n=1664") && lines[1].starts_with("512 KiB"));
        assert_eq!(lines[1].matches("1.50").count(), VIEWS.len());
    }
}
