//! Line charts as SVG images, written by hand.

use core::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
/// Of the drawing area.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 640.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 400.0;

/// Readable on white, also to the colour-blind (Okabe and Ito).
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000", "#8c6d31"];

/// A chart without its lines.
#[derive(Debug)]
pub(crate) struct Chart {
    /// Of the document, for readers that do not draw.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// To the right.
    pub(crate) x: Axis,
    /// Upwards.
    pub(crate) y: Axis,
}

/// One of its axes.
#[derive(Debug)]
pub(crate) struct Axis {
    pub(crate) label: &'static str,
    pub(crate) scale: Scale,
    /// Where lines are drawn, and what stands at them.
    pub(crate) ticks: Vec<(f64, String)>,
}

/// Where a value lies, from the first number to the last.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scale {
    Linear(f64, f64),
    /// Doublings are equally far apart.
    Doubling(f64, f64),
}

/// Points joined in order.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Scale {
    /// From 0, at the first number, to 1 at the last.
    fn share(self, value: f64) -> f64 {
        match self {
            Self::Linear(first, last) => (value - first) / (last - first),
            Self::Doubling(first, last) => (value / first).log2() / (last / first).log2(),
        }
    }
}

impl Chart {
    /// The whole image, with lines.
    pub(crate) fn draw(&self, lines: &[Line]) -> String {
        self.image(lines, |svg, line, number| self.line(svg, line, colour(number)))
    }

    /// The whole image, with bars beside each other for the points of the same place; places are 1 apart.
    pub(crate) fn bars(&self, lines: &[Line]) -> String {
        #[expect(clippy::cast_precision_loss, reason = "a handful of bars")]
        let share = |number: usize| 0.8 * number as f64 / lines.len() as f64 - 0.4;
        self.image(lines, |svg, line, number| {
            for &(x, y) in &line.points {
                let (left, top) = (self.x(x + share(number)), self.y(y));
                let (width, height) = (self.x(x + share(number + 1)) - left - 2.0, BOTTOM - top);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>",
                    colour(number)
                );
            }
        })
    }

    fn image(&self, lines: &[Line], mut drawn: impl FnMut(&mut String, &Line, usize)) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n\
             <title>{}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n",
            self.name
        );
        label(&mut svg, (LEFT + RIGHT) / 2.0, 26.0, "middle", self.title);
        self.axes(&mut svg);
        for (number, line) in lines.iter().enumerate() {
            drawn(&mut svg, line, number);
            legend(&mut svg, &line.name, colour(number), number);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * self.x.scale.share(value)
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * self.y.scale.share(value)
    }

    fn axes(&self, svg: &mut String) {
        for (value, text) in &self.x.ticks {
            let at = self.x(*value);
            let _ = writeln!(
                svg,
                "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{BOTTOM}\" \
                 stroke=\"#e4e4e4\"/>"
            );
            label(svg, at, BOTTOM + 18.0, "middle", text);
        }
        for (value, text) in &self.y.ticks {
            let at = self.y(*value);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" \
                 stroke=\"#e4e4e4\"/>"
            );
            label(svg, LEFT - 8.0, at + 4.0, "end", text);
        }
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {TOP} V{BOTTOM} H{RIGHT}\" fill=\"none\" stroke=\"#000000\"/>"
        );
        label(svg, (LEFT + RIGHT) / 2.0, BOTTOM + 42.0, "middle", self.x.label);
        let middle = (TOP + BOTTOM) / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"20\" y=\"{middle}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 20 {middle})\">{}</text>",
            self.y.label
        );
    }

    fn line(&self, svg: &mut String, line: &Line, colour: &str) {
        let mut points = String::new();
        for &(x, y) in &line.points {
            let _ = write!(points, "{:.1},{:.1} ", self.x(x), self.y(y));
        }
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.trim_end()
        );
        for &(x, y) in &line.points {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                self.x(x),
                self.y(y)
            );
        }
    }
}

fn colour(number: usize) -> &'static str {
    COLOURS[number % COLOURS.len()]
}

fn legend(svg: &mut String, name: &str, colour: &str, number: usize) {
    #[expect(clippy::cast_precision_loss, reason = "a handful of lines")]
    let at = TOP + 10.0 + 22.0 * number as f64;
    let (from, to) = (RIGHT + 16.0, RIGHT + 40.0);
    let _ = writeln!(
        svg,
        "<line x1=\"{from}\" y1=\"{at}\" x2=\"{to}\" y2=\"{at}\" stroke=\"{colour}\" \
         stroke-width=\"3\"/>"
    );
    label(svg, to + 8.0, at + 4.0, "start", name);
}

fn label(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_the_ends_of_their_axis() {
        let (linear, doubling) = (Scale::Linear(0.0, 10.0), Scale::Doubling(0.25, 16.0));
        assert!((linear.share(2.5) - 0.25).abs() < 1e-9);
        assert!((doubling.share(2.0) - 0.5).abs() < 1e-9);
        let axis = |scale| Axis { label: "", scale, ticks: Vec::new() };
        let chart = Chart { name: "", title: "", x: axis(linear), y: axis(doubling) };
        assert!((chart.x(0.0) - LEFT).abs() < 1e-9 && (chart.x(10.0) - RIGHT).abs() < 1e-9);
        assert!((chart.y(0.25) - BOTTOM).abs() < 1e-9 && (chart.y(16.0) - TOP).abs() < 1e-9);
    }

    #[test]
    fn bars_stand_side_by_side_on_the_axis() {
        let axis =
            |first, last| Axis { label: "", scale: Scale::Linear(first, last), ticks: Vec::new() };
        let chart = Chart { name: "", title: "", x: axis(-0.5, 1.5), y: axis(0.0, 10.0) };
        let line =
            |name: &str| Line { name: name.to_owned(), points: vec![(0.0, 5.0), (1.0, 10.0)] };
        let svg = chart.bars(&[line("a"), line("b")]);
        // Of the 576 to the right and the 356 upwards.
        assert!(
            svg.contains("<rect x=\"92.8\" y=\"222.0\" width=\"113.2\" height=\"178.0\""),
            "{svg}"
        );
        assert!(svg.contains("<rect x=\"208.0\" y=\"222.0\""), "{svg}");
        assert_eq!(svg.matches("<rect").count(), 5);
    }
}
