//! Figure 5 as an SVG image, written by hand: views to the right (doubling), slowdown upwards.

use super::Series;
use crate::bench::row::size_name;
use core::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
/// Of the drawing area.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 400.0;
/// The largest number of views is a little below this power of two.
const DOUBLINGS: f64 = 11.0;

/// Readable on white, also to the colour-blind (Okabe and Ito), by size.
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000", "#8c6d31"];

/// The whole image.
pub(super) fn draw(all: &[Series]) -> String {
    let slowdowns = all.iter().flat_map(|series| &series.points).map(|point| point.slowdown);
    let top = slowdowns.fold(2.0, f64::max).ceil();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>Overheads of MultiView</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n"
    );
    label(&mut svg, (LEFT + RIGHT) / 2.0, 26.0, "middle", "Reading an array through n views");
    axes(&mut svg, top);
    for (number, series) in all.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        line(&mut svg, series, colour, top);
        legend(&mut svg, series, colour, number);
    }
    svg.push_str("</svg>\n");
    svg
}

fn x(views: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand views at most")]
    let doublings = (views as f64).log2();
    LEFT + (RIGHT - LEFT) * doublings / DOUBLINGS
}

fn y(slowdown: f64, top: f64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * (slowdown / top)
}

fn axes(svg: &mut String, top: f64) {
    for power in 0..=11 {
        let (views, at) = (1_usize << power, x(1 << power));
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{BOTTOM}\" stroke=\"#e4e4e4\"/>"
        );
        label(svg, at, BOTTOM + 18.0, "middle", &views.to_string());
    }
    let step = if top > 12.0 { (top / 8.0).ceil() } else { 1.0 };
    let mut slowdown = 0.0;
    while slowdown <= top {
        let at = y(slowdown, top);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>"
        );
        label(svg, LEFT - 8.0, at + 4.0, "end", &format!("{slowdown:.0}"));
        slowdown += step;
    }
    let _ = writeln!(
        svg,
        "<path d=\"M{LEFT} {TOP} V{BOTTOM} H{RIGHT}\" fill=\"none\" stroke=\"#000000\"/>"
    );
    label(svg, (LEFT + RIGHT) / 2.0, BOTTOM + 42.0, "middle", "views (n), one minipage a view");
    let middle = (TOP + BOTTOM) / 2.0;
    let _ = writeln!(
        svg,
        "<text x=\"20\" y=\"{middle}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 20 {middle})\">slowdown against one view</text>"
    );
}

fn line(svg: &mut String, series: &Series, colour: &str, top: f64) {
    let mut points = String::new();
    for point in &series.points {
        let _ = write!(points, "{:.1},{:.1} ", x(point.views), y(point.slowdown, top));
    }
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
        points.trim_end()
    );
    for point in &series.points {
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
            x(point.views),
            y(point.slowdown, top)
        );
    }
}

fn legend(svg: &mut String, series: &Series, colour: &str, number: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a handful of lines")]
    let at = TOP + 10.0 + 22.0 * number as f64;
    let (from, to) = (RIGHT + 16.0, RIGHT + 40.0);
    let _ = writeln!(
        svg,
        "<line x1=\"{from}\" y1=\"{at}\" x2=\"{to}\" y2=\"{at}\" stroke=\"{colour}\" \
         stroke-width=\"3\"/>"
    );
    label(svg, to + 8.0, at + 4.0, "start", &size_name(series.bytes));
}

fn label(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
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

    #[test]
    fn doublings_are_equally_far_apart_and_the_highest_point_is_inside() {
        assert!((x(4) - x(2) - (x(1024) - x(512))).abs() < 1e-9);
        assert!(x(1664) < RIGHT && (y(0.0, 10.0) - BOTTOM).abs() < 1e-9);
        assert!(y(9.5, 10.0) > TOP);
    }
}
