//! Figure 5 as an SVG image: views to the right (doubling), slowdown upwards.

use super::Series;
use crate::bench::chart::{Axis, Chart, Line, Scale};
use crate::bench::row::size_name;

/// The largest number of views is a little below this power of two.
const DOUBLINGS: u32 = 11;

/// The whole image.
pub(super) fn draw(all: &[Series]) -> String {
    let slowdowns = all.iter().flat_map(|series| &series.points).map(|point| point.slowdown);
    chart(slowdowns.fold(2.0, f64::max).ceil()).draw(&all.iter().map(line).collect::<Vec<Line>>())
}

fn chart(top: f64) -> Chart {
    let views = (0..=DOUBLINGS).map(|power| f64::from(1 << power));
    let step = if top > 12.0 { (top / 8.0).ceil() } else { 1.0 };
    let slowdowns = core::iter::successors(Some(0.0), |slowdown| Some(slowdown + step));
    Chart {
        name: "Overheads of MultiView",
        title: "Reading an array through n views",
        x: Axis {
            label: "views (n), one minipage a view",
            scale: Scale::Doubling(1.0, f64::from(1 << DOUBLINGS)),
            ticks: views.map(|views| (views, views.to_string())).collect(),
        },
        y: Axis {
            label: "slowdown against one view",
            scale: Scale::Linear(0.0, top),
            ticks: slowdowns
                .take_while(|&slowdown| slowdown <= top)
                .map(|slowdown| (slowdown, slowdown.to_string()))
                .collect(),
        },
    }
}

fn line(series: &Series) -> Line {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand views at most")]
    let points = series.points.iter().map(|point| (point.views as f64, point.slowdown)).collect();
    Line { name: size_name(series.bytes), points }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::views::Point;

    fn series(bytes: usize) -> Series {
        let point = |views, slowdown| Point { views, millis: 1.0, slowdown, loop_slowdown: 1.0 };
        Series { bytes, points: vec![point(1, 1.0), point(32, 1.3), point(1664, 9.5)] }
    }

    #[test]
    fn each_size_has_a_line_a_colour_and_a_legend() {
        let svg = draw(&[series(512 << 10), series(64 << 20)]);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains(">512 KiB</text>") && svg.contains(">64 MiB</text>"));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        let opened = svg.matches("<text").count();
        assert_eq!(opened, svg.matches("</text>").count());
    }
}
