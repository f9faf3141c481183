//! ParADE's Figures 10 and 11 as SVG images, ours alone: the paper's have no numbers.

use super::fetches::Fetched;
use super::programs::{Done, NODES};
use crate::bench::chart::{Axis, Chart, Line, Scale};
use multigrain_memory::AccessPath;

/// Figure 10: the latency of a fetch by path, and its floor.
pub(super) fn figure_10(fetches: &[Fetched]) -> String {
    let line = |name: &str, value: &dyn Fn(&Fetched) -> Option<f64>| {
        let at =
            |fetched: &Fetched| AccessPath::ALL.iter().position(|&path| path == fetched.path());
        let points = fetches.iter().filter_map(|fetched| Some((at(fetched)?, value(fetched)?)));
        Line { name: name.to_owned(), points: points.map(|(at, us)| (place(at), us)).collect() }
    };
    let of = |guard: &'static str| move |fetched: &Fetched| fetched.us(guard);
    let lines = [
        line("mprotect", &of("mprotect")),
        line("userfaultfd", &of("uffd")),
        line("raw round trip", &|fetched| fetched.floor_us("mprotect")),
    ];
    let paths = AccessPath::ALL.map(|path| path.name().to_owned());
    bars("A read fetch of 4 KiB by access path", "us, median", paths.into(), &lines)
}

/// Figure 11: how many of the read faults came while another thread was served the page.
pub(super) fn figure_11(programs: &[Done]) -> String {
    let mut names: Vec<String> = programs.iter().map(|done| done.program.to_owned()).collect();
    names.dedup();
    let lines = NODES.map(|nodes| {
        let shares = programs.iter().filter(|done| done.nodes == nodes);
        let points = shares.filter_map(|done| {
            let at = names.iter().position(|name| name == done.program)?;
            Some((place(at), done.share() * 100.0))
        });
        Line { name: format!("{nodes} nodes"), points: points.collect() }
    });
    bars("Read faults in a race for the page", "% of the read faults", names, &lines)
}

#[expect(clippy::cast_precision_loss, reason = "a handful of bars")]
fn place(at: usize) -> f64 {
    at as f64
}

fn bars(title: &'static str, label: &'static str, names: Vec<String>, lines: &[Line]) -> String {
    let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(1.0, f64::max);
    let step = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0].into_iter().find(|step| most / step <= 8.0);
    let step = step.unwrap_or(100.0);
    let top = (most / step).ceil() * step;
    let ticks = core::iter::successors(Some(0.0), |tick| Some(tick + step));
    let chart = Chart {
        name: title,
        title,
        x: Axis {
            label: "",
            scale: Scale::Linear(-0.5, place(names.len()) - 0.5),
            ticks: names.into_iter().enumerate().map(|(at, name)| (place(at), name)).collect(),
        },
        y: Axis {
            label,
            scale: Scale::Linear(0.0, top),
            ticks: ticks
                .take_while(|&tick| tick <= top)
                .map(|tick| (tick, tick.to_string()))
                .collect(),
        },
    };
    chart.bars(lines)
}
