//! Plots as SVG that takes its colours from the page's style, so that they follow
//! light and dark. A unit is about a pixel: readable at the width of a phone.

use super::axis::Axis;
use super::format::MISSING;
use maud::{Markup, Render, html};

/// Width of bars, with their texts.
const BARS: f64 = 400.0;
/// Width of a plot of lines: three of them go side by side.
const LINES: f64 = 340.0;
/// Width of a letter, about.
const LETTER: f64 = 7.2;
/// Letters beside a bar, at most.
const LONGEST: usize = 24;
/// From one bar to the next.
const BAR: f64 = 20.0;

/// One bar.
pub struct Bar {
    /// A heading over this bar and those after it with the same one.
    pub group: String,
    /// Before it.
    pub label: String,
    /// How long it is; no bar if there is no number.
    pub value: Option<f64>,
    /// A further value, as a stroke.
    pub stroke: Option<f64>,
    /// After it.
    pub text: String,
    /// Only its outline.
    pub hollow: bool,
}

/// Bars under each other, from 0.
pub struct Bars {
    /// Unique on the page.
    pub id: String,
    /// What is shown.
    pub title: String,
    /// For those who can not see it.
    pub description: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

impl Bars {
    fn widest(&self, text: impl Fn(&Bar) -> &str) -> f64 {
        let letters = self.bars.iter().map(|b| text(b).chars().count()).max().unwrap_or(0);
        letters.min(LONGEST) as f64 * LETTER
    }
}

impl Render for Bars {
    fn render(&self) -> Markup {
        let label = self.widest(|b| &b.label) + 6.0;
        let text = self.widest(|b| &b.text) + 8.0;
        let values = self.bars.iter().flat_map(|b| [b.value, b.stroke]).flatten();
        let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
        let right = (BARS - text).max(label + 40.0);
        // Not rounded up: the numbers stand beside the bars.
        let share = |v: f64| if most > 0.0 && v.is_finite() { v.max(0.0) / most } else { 0.0 };
        let x = |v: f64| label + share(v) * (right - label);
        let mut y = 0.0;
        let mut group = "";
        let mut drawn = Vec::new();
        for bar in &self.bars {
            if bar.group != group {
                group = &bar.group;
                y += if y > 0.0 { 8.0 } else { 0.0 };
                drawn.push(html! { text.group x="0" y=(at(y + 14.0)) { (cut(group, 48)) } });
                y += BAR;
            }
            drawn.push(html! {
                text x=(at(label - 6.0)) y=(at(y + 14.0)) text-anchor="end" { (cut(&bar.label, LONGEST)) }
                @if let Some(v) = bar.value.filter(|v| v.is_finite() && *v > 0.0) {
                    rect.bar.hollow[bar.hollow] x=(at(label)) y=(at(y + 3.0))
                        width=(at((x(v) - label).max(1.0))) height="14" {}
                }
                @if let Some(v) = bar.stroke.filter(|v| v.is_finite()) {
                    line.whisker x1=(at(x(bar.value.unwrap_or(0.0)))) x2=(at(x(v))) y1=(at(y + 10.0)) y2=(at(y + 10.0)) {}
                    line.stroke x1=(at(x(v))) x2=(at(x(v))) y1=(at(y + 3.0)) y2=(at(y + 17.0)) {}
                }
                line.axis x1=(at(label)) x2=(at(label)) y1=(at(y)) y2=(at(y + BAR)) {}
                text.value x=(at(x(bar.value.into_iter().chain(bar.stroke).fold(0.0, f64::max)) + 5.0))
                    y=(at(y + 14.0)) { (cut(&bar.text, LONGEST)) }
            });
            y += BAR;
        }
        svg(
            &self.id,
            &self.title,
            &self.description,
            [BARS, y + 6.0],
            html! {
                    @for d in &drawn { (d) }
            },
        )
    }
}

/// One line of a plot.
pub struct Line {
    /// Its name in the key.
    pub label: String,
    /// Its colour and the shape of its marks, 0 to 3.
    pub style: usize,
    /// Whether it is dashed.
    pub dashed: bool,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines over two axes.
pub struct Lines {
    /// Unique on the page.
    pub id: String,
    /// What is shown.
    pub title: String,
    /// For those who can not see it.
    pub description: String,
    /// What goes to the right, the values of the axis, and how its marks read.
    pub x: (&'static str, Range, fn(f64) -> String),
    /// What goes up.
    pub y: (&'static str, Range, fn(f64) -> String),
    /// The lines.
    pub lines: Vec<Line>,
}

/// The values of an axis.
#[derive(Clone, Copy)]
pub enum Range {
    /// From 0 to about this.
    To(f64),
    /// Decades around these.
    Decades([f64; 2]),
}

impl Range {
    fn axis(self, coordinates: [f64; 2]) -> Axis {
        match self {
            Range::To(most) => Axis::linear(most, coordinates),
            Range::Decades(values) => Axis::logarithmic(values, coordinates),
        }
    }
}

impl Render for Lines {
    fn render(&self) -> Markup {
        let (bottom, height) = (190.0, 226.0);
        let y = self.y.1.axis([bottom, 24.0]);
        let marks: Vec<_> = y.ticks().into_iter().map(|v| (v, (self.y.2)(v))).collect();
        let letters = marks.iter().map(|m| m.1.chars().count()).max().unwrap_or(0);
        let left = letters as f64 * LETTER + 8.0;
        let x = self.x.1.axis([left, LINES - 18.0]);
        let [_, right] = x.coordinates();
        let drawing = html! {
            @for (v, mark) in &marks {
                line.grid x1=(at(left)) x2=(at(right)) y1=(at(y.at(*v))) y2=(at(y.at(*v))) {}
                text x=(at(left - 5.0)) y=(at(y.at(*v) + 4.0)) text-anchor="end" { (mark) }
            }
            @for v in x.ticks() {
                line.grid x1=(at(x.at(v))) x2=(at(x.at(v))) y1="24" y2=(at(bottom)) {}
                text x=(at(x.at(v))) y=(at(bottom + 15.0)) text-anchor="middle" { ((self.x.2)(v)) }
            }
            line.axis x1=(at(left)) x2=(at(left)) y1="24" y2=(at(bottom)) {}
            line.axis x1=(at(left)) x2=(at(right)) y1=(at(bottom)) y2=(at(bottom)) {}
            text.name x="0" y="12" { (self.y.0) }
            text.name x=(at(right)) y=(at(height - 4.0)) text-anchor="end" { (self.x.0) }
            @for (i, line) in self.lines.iter().enumerate() {
                (drawn(line, i, &x, &y))
            }
        };
        html! {
            (svg(&self.id, &self.title, &self.description, [LINES, height], drawing))
            ul.key {
                @for line in &self.lines { li { (sample(line)) (line.label) } }
            }
        }
    }
}

/// Marks on a line.
const MARKS: usize = 4;

fn drawn(line: &Line, place: usize, x: &Axis, y: &Axis) -> Markup {
    let finite = line.points.iter().filter(|(a, b)| a.is_finite() && b.is_finite());
    let points: Vec<_> = finite.map(|&(a, b)| (x.at(a), y.at(b))).collect();
    let path: Vec<_> = points.iter().map(|(a, b)| format!("{a:.1},{b:.1}")).collect();
    // Each line has its marks elsewhere, so that lines on each other both show.
    let marks = (0..MARKS).map(|m| {
        let share = (m as f64 + 0.25 + 0.17 * (place % 4) as f64) / MARKS as f64;
        points.get((share * points.len() as f64) as usize)
    });
    html! {
        polyline class=(class(line)) points=(path.join(" ")) {}
        @for (a, b) in marks.flatten() { (mark(line.style, *a, *b)) }
    }
}

fn class(line: &Line) -> String {
    let dashed = if line.dashed { " dashed" } else { "" };
    format!("line s{}{dashed}", line.style % 4)
}

/// A circle, a square, a triangle or a diamond: lines differ not by colour alone.
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

fn sample(line: &Line) -> Markup {
    html! {
        svg viewBox="0 0 36 12" width="36" height="12" aria-hidden="true" {
            polyline class=(class(line)) points="1,6 35,6" {}
            (mark(line.style, 18.0, 6.0))
        }
    }
}

fn svg(id: &str, title: &str, description: &str, size: [f64; 2], drawing: Markup) -> Markup {
    let [width, height] = size;
    html! {
        svg.plot viewBox=(format!("0 0 {width} {}", at(height))) role="img"
            aria-labelledby=(format!("{id}-title {id}-desc")) {
            title id=(format!("{id}-title")) { (title) }
            desc id=(format!("{id}-desc")) { (description) }
            (drawing)
        }
    }
}

/// A coordinate: a tenth of a unit is less than a pixel.
fn at(v: f64) -> String {
    if v.is_finite() { format!("{v:.1}") } else { "0".to_string() }
}

/// A text of so many letters at most.
fn cut(text: &str, most: usize) -> String {
    match text.chars().count() {
        0 => MISSING.to_string(),
        n if n <= most => text.to_string(),
        _ => text.chars().take(most - 1).chain(['…']).collect(),
    }
}
