//! Lines with marks over two axes.

use crate::axis::Axis;
use crate::plot::{Sample, at, key, svg};
use crate::text::width;
use maud::{Markup, Render, html};
use tantalum_lab::report::units::MISSING;

/// Width of a plot of lines: three plots fit side by side.
const LINES: f64 = 340.0;

/// One line of a plot.
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// Its colour and the shape of its marks, 0 to 3.
    pub style: usize,
    /// Whether it is dashed.
    pub dashed: bool,
    /// Whether each point has a mark; otherwise only a few places have one.
    pub marked: bool,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// An axis of a plot.
pub struct Scale {
    /// Its name.
    pub name: String,
    /// Its values.
    pub range: Range,
    /// The text of a mark.
    pub mark: Box<dyn Fn(f64) -> String>,
}

impl Scale {
    /// An axis with this name, these values, and these texts of marks.
    pub fn new(name: &str, range: Range, mark: impl Fn(f64) -> String + 'static) -> Scale {
        Scale { name: name.to_string(), range, mark: Box::new(mark) }
    }

    /// Named places side by side; if there are many, not all get a mark. `None` if a name is too
    /// long for a mark.
    pub fn places(name: &str, places: Vec<String>) -> Option<Scale> {
        if places.iter().any(|p| p.chars().count() > LONGEST_PLACE) {
            return None;
        }
        let (count, each) = (places.len(), places.len().div_ceil(MOST_PLACES).max(1));
        let mark = move |v: f64| {
            let place = places.get(v as usize).filter(|_| (v as usize).is_multiple_of(each));
            place.cloned().unwrap_or_default()
        };
        Some(Scale::new(name, Range::Places(count), mark))
    }
}

/// The most places that get a mark.
const MOST_PLACES: usize = 9;
/// The most letters of such a mark.
const LONGEST_PLACE: usize = 8;

/// The values of an axis.
#[derive(Clone, Copy)]
pub enum Range {
    /// From 0 to about this.
    To(f64),
    /// From about the first to about the second.
    Between([f64; 2]),
    /// Decades around these.
    Decades([f64; 2]),
    /// This many places.
    Places(usize),
}

impl Range {
    fn axis(self, coordinates: [f64; 2]) -> Axis {
        match self {
            Range::To(most) => Axis::linear(most, coordinates),
            Range::Between(values) => Axis::between(values, coordinates),
            Range::Decades(values) => Axis::logarithmic(values, coordinates),
            Range::Places(count) => Axis::places(count, coordinates),
        }
    }
}

/// Lines over two axes.
pub struct Lines {
    /// Unique on the page.
    pub id: String,
    /// The title.
    pub title: String,
    /// The text for readers who cannot see the plot.
    pub description: String,
    /// The horizontal axis.
    pub x: Scale,
    /// The vertical axis.
    pub y: Scale,
    /// The lines.
    pub lines: Vec<Line>,
}

impl Lines {
    /// The drawing, and its size.
    pub fn drawing(&self) -> (Markup, [f64; 2]) {
        let (bottom, height) = (190.0, 226.0);
        let y = self.y.range.axis([bottom, 24.0]);
        let marks: Vec<_> = y.ticks().into_iter().map(|v| (v, (self.y.mark)(v))).collect();
        let left = marks.iter().map(|m| width(&m.1)).fold(0.0, f64::max) + 6.0;
        // (Half of the last mark is beyond the end of its axis.)
        let ends = |right: f64| self.x.range.axis([left, right]);
        let last =
            ends(LINES).ticks().into_iter().next_back().map_or(0.0, |v| width(&(self.x.mark)(v)));
        let right = LINES - (last / 2.0 + 1.0).max(8.0);
        let x = ends(right);
        let drawing = html! {
            @for (v, mark) in &marks {
                line.grid x1=(at(left)) x2=(at(right)) y1=(at(y.at(*v))) y2=(at(y.at(*v))) {}
                text x=(at(left - 5.0)) y=(at(y.at(*v) + 4.0)) text-anchor="end" { (mark) }
            }
            @for v in x.ticks() {
                line.grid x1=(at(x.at(v))) x2=(at(x.at(v))) y1="24" y2=(at(bottom)) {}
                text x=(at(x.at(v))) y=(at(bottom + 15.0)) text-anchor="middle" { ((self.x.mark)(v)) }
            }
            line.axis x1=(at(left)) x2=(at(left)) y1="24" y2=(at(bottom)) {}
            line.axis x1=(at(left)) x2=(at(right)) y1=(at(bottom)) y2=(at(bottom)) {}
            text.name x="0" y="12" { (self.y.name) }
            text.name x=(at(right)) y=(at(height - 4.0)) text-anchor="end" { (self.x.name) }
            @for (i, line) in self.lines.iter().enumerate() {
                (drawn(line, i, &x, &y))
            }
        };
        (drawing, [LINES, height])
    }

    /// The legend: the names of the lines. A line without a name is alone, and the caption names
    /// it.
    pub fn key(&self) -> Vec<Sample> {
        self.lines.iter().filter(|l| l.label != MISSING).map(sample).collect()
    }
}

impl Render for Lines {
    fn render(&self) -> Markup {
        html! {
            (svg(&self.id, &self.title, &self.description, self.drawing()))
            (key(&self.key()))
        }
    }
}

/// Marks on a line.
const MARKS: usize = 4;

fn drawn(line: &Line, place: usize, x: &Axis, y: &Axis) -> Markup {
    let finite = line.points.iter().filter(|(a, b)| a.is_finite() && b.is_finite());
    let points: Vec<_> = finite.map(|&(a, b)| (x.at(a), y.at(b))).collect();
    let path: Vec<_> = points.iter().map(|(a, b)| format!("{a:.1},{b:.1}")).collect();
    // Each line has its marks at other places, so that lines on top of each other both show.
    let few = (0..MARKS).map(|m| {
        let share = (m as f64 + 0.25 + 0.17 * (place % 4) as f64) / MARKS as f64;
        points.get((share * points.len() as f64) as usize)
    });
    let marks: Vec<_> = if line.marked { points.iter().collect() } else { few.flatten().collect() };
    html! {
        polyline class=(class(line)) points=(path.join(" ")) {}
        @for (a, b) in marks { (mark(line.style, *a, *b)) }
    }
}

fn class(line: &Line) -> String {
    let dashed = if line.dashed { " dashed" } else { "" };
    format!("line s{}{dashed}", line.style % 4)
}

/// A circle, a square, a triangle or a diamond: lines do not differ by colour alone.
fn mark(style: usize, x: f64, y: f64) -> Markup {
    let corners: &[(f64, f64)] = match style % 4 {
        0 => return html! { circle class="mark s0" cx=(at(x)) cy=(at(y)) r="3.5" {} },
        1 => &[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)],
        2 => &[(0.0, -4.5), (4.2, 3.2), (-4.2, 3.2)],
        _ => &[(0.0, -4.8), (4.8, 0.0), (0.0, 4.8), (-4.8, 0.0)],
    };
    let points: Vec<_> =
        corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
    html! { polygon class=(format!("mark s{}", style % 4)) points=(points.join(" ")) {} }
}

fn sample(line: &Line) -> Sample {
    let drawn = html! {
        polyline class=(class(line)) points="1,6 35,6" {}
        (mark(line.style, 18.0, 6.0))
    };
    Sample { drawn, width: 36.0, label: line.label.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_of_axes_are_within_the_plot() {
        for (most, mark) in [(1e8, "100 ms"), (1e8, "a mark of many letters"), (1e8, "")] {
            let lines = Lines {
                id: "l".into(),
                title: "t".into(),
                description: "d".into(),
                x: Scale::new("x", Range::Decades([1e5, most]), move |_| mark.to_string()),
                y: Scale::new("y", Range::To(1e5), |v| format!("{v:.0}")),
                lines: Vec::new(),
            };
            let (drawn, [wide, _]) = lines.drawing();
            let drawn = drawn.into_string();
            let mut seen = 0;
            for text in drawn.split("<text x=\"").skip(1) {
                let at: f64 = text.split_once('"').unwrap().0.parse().unwrap();
                let words = text.split_once('>').unwrap().1.split_once('<').unwrap().0;
                let reach = match text {
                    t if t.contains("\"end\"") => [at - width(words), at],
                    _ => [at - width(words) / 2.0, at + width(words) / 2.0],
                };
                // (The first mark may begin before its axis, below the marks of the other axis.)
                assert!(
                    reach[1] <= wide && (reach[0] >= 0.0 || words == mark),
                    "{words}: {reach:?}"
                );
                seen += 1;
            }
            assert!(seen > 6, "{drawn}");
        }
    }

    #[test]
    fn places_have_their_whole_names_or_none() {
        let names = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
        let scale = Scale::places("k", names(&["1", "256", "random"])).unwrap();
        assert_eq!((scale.mark)(2.0), "random");
        assert!(Scale::places("k", names(&["1", "page_bytes=4096"])).is_none());
    }
}
