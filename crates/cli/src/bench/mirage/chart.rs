//! Figures 4 and 7 as SVG images.

use super::compression::{CODECS, Compression};
use super::matmul::{Matmul, SITES, paper_speed_ups};
use crate::bench::chart::{Axis, Chart, Line, Scale};

/// Figure 4 (b): UptoN, whose bytes are to the right, on the paper's network.
pub(super) fn figure_4(compression: &Compression) -> String {
    let lines = CODECS
        .map(|codec| Line { name: codec.to_owned(), points: compression.points("upto", codec) });
    let tick = |value: u32, step: u32| (f64::from(value * step), (value * step).to_string());
    let chart = Chart {
        name: "Compression and a remote page fault",
        title: "UptoN on a network of 2.7 ms and 10 Mbit/s",
        x: Axis {
            label: "bytes written, of a page of 4,096",
            scale: Scale::Linear(0.0, 4096.0),
            ticks: (0..=4).map(|value| tick(value, 1024)).collect(),
        },
        y: Axis {
            label: "ms of a fault",
            scale: Scale::Linear(0.0, 12.0),
            ticks: (0..=6).map(|value| tick(value, 2)).collect(),
        },
    };
    chart.draw(&lines)
}

/// Figure 7: the smallest and the largest matrix.
pub(super) fn figure_7(matmul: &Matmul) -> String {
    let mut lines = Vec::new();
    for size in [60, 480] {
        let plain = matmul.speed_ups(size, false);
        lines.push(Line { name: size.to_string(), points: plain });
        lines.push(Line { name: format!("{size}, zstd"), points: matmul.speed_ups(size, true) });
        lines.push(Line { name: format!("{size}, paper"), points: paper_speed_ups(size) });
    }
    let chart = Chart {
        name: "Speed-up of matrix multiplication",
        title: "Ours over one process (2 processors), the paper's over its first worker",
        x: Axis {
            label: "sites, of which one hands out",
            scale: Scale::Linear(2.0, 7.0),
            ticks: SITES.iter().map(|&sites| (f64::from(sites), sites.to_string())).collect(),
        },
        y: Axis {
            label: "speed-up",
            scale: Scale::Linear(0.0, 6.0),
            ticks: (0..=6).map(|value| (f64::from(value), value.to_string())).collect(),
        },
    };
    chart.draw(&lines)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_papers_speed_up_is_over_its_first_worker() {
        let points = super::paper_speed_ups(480);
        assert_eq!((points[0], points.len()), ((2.0, 1.0), 6));
        assert!((points[5].1 - 5.6).abs() < 0.05, "{points:?}");
    }
}
