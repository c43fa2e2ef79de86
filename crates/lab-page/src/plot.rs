//! Plots as SVG with colours from the page's style, so that they follow light and dark mode. A unit
//! is about a pixel: readable at the width of a phone. No text is truncated: a label that leaves no
//! room for its bar stands above it, and a text longer than a line is wrapped.

use crate::text::{BOLD, width, wrap};
use maud::{Markup, Render, html};
use tantalum_lab::report::units::MISSING;

/// Width of a plot of bars, with texts.
const BARS: f64 = 400.0;
/// The longest bar has at least this length.
const SHORTEST: f64 = 60.0;
/// Distance from one bar to the next.
const BAR: f64 = 20.0;
/// Distance from one line of text to the next.
pub(crate) const LINE: f64 = 16.0;

/// How a bar is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// Filled.
    #[default]
    Filled,
    /// Only its outline: the row lost data.
    Lossy,
    /// Only its outline: a published number.
    Published,
}

/// One bar.
pub struct Bar {
    /// A heading over this bar and those after it with the same one.
    pub group: String,
    /// The text before the bar.
    pub label: String,
    /// Its length; no bar if there is no number.
    pub value: Option<f64>,
    /// A further value, as a stroke.
    pub stroke: Option<f64>,
    /// The text after the bar.
    pub text: String,
    /// How it is drawn.
    pub look: Look,
    /// The parts of the value, in the order of [`Bars::parts`]; empty if it has none.
    pub parts: Vec<f64>,
}

/// Bars under each other, from 0.
pub struct Bars {
    /// Unique on the page.
    pub id: String,
    /// What is shown.
    pub title: String,
    /// The text for readers who cannot see it.
    pub description: String,
    /// The names of the parts of bars, four at most; empty if they have none.
    pub parts: &'static [&'static str],
    /// The value of the whole width, if it is more than the longest bar: so that plots can be
    /// compared with each other.
    pub most: f64,
    /// The bars.
    pub bars: Vec<Bar>,
}

impl Bars {
    fn widest(&self, text: impl Fn(&Bar) -> &str) -> f64 {
        self.bars.iter().map(|b| width(text(b))).fold(0.0, f64::max)
    }

    /// The drawing, and its size.
    pub fn drawing(&self) -> (Markup, [f64; 2]) {
        let text = self.widest(|b| &b.text) + 8.0;
        let label = self.widest(|b| &b.label) + 6.0;
        let above = label + SHORTEST + text > BARS;
        let left = if above { 1.0 } else { label };
        let right = (BARS - text).max(left + SHORTEST);
        let values = self.bars.iter().flat_map(|b| [b.value, b.stroke]).flatten();
        let most = values.filter(|v| v.is_finite()).fold(0.0, f64::max).max(self.most);
        // The width is not rounded up to a round number, because numbers stand beside the bars.
        let share = |v: f64| if most > 0.0 && v.is_finite() { v.max(0.0) / most } else { 0.0 };
        let x = |v: f64| left + share(v) * (right - left);
        let mut y = 0.0;
        let mut group = "";
        let mut drawn = Vec::new();
        for bar in &self.bars {
            if bar.group != group {
                group = &bar.group;
                y += if y > 0.0 { 8.0 } else { 0.0 };
                for words in wrap(group, BARS / BOLD) {
                    drawn.push(html! { text.group x="0" y=(at(y + 14.0)) { (words) } });
                    y += LINE;
                }
                y += BAR - LINE;
            }
            let label = if bar.label.is_empty() { MISSING } else { &bar.label };
            if above {
                for words in wrap(label, BARS) {
                    drawn.push(html! { text x="0" y=(at(y + 14.0)) { (words) } });
                    y += LINE;
                }
                y += 2.0;
            } else {
                drawn.push(html! {
                    text x=(at(left - 6.0)) y=(at(y + 14.0)) text-anchor="end" { (label) }
                });
            }
            drawn.push(html! {
                @if bar.parts.is_empty() {
                    @if let Some(v) = bar.value.filter(|v| v.is_finite() && *v > 0.0) {
                        rect.bar.hollow[bar.look == Look::Lossy].others[bar.look == Look::Published] x=(at(left)) y=(at(y + 3.0))
                            width=(at((x(v) - left).max(1.0))) height="14" {}
                    }
                } @else { (self.stacked(bar, y, &x)) }
                @if let Some(v) = bar.stroke.filter(|v| v.is_finite()) {
                    line.whisker x1=(at(x(bar.value.unwrap_or(0.0)))) x2=(at(x(v))) y1=(at(y + 10.0)) y2=(at(y + 10.0)) {}
                    line.stroke x1=(at(x(v))) x2=(at(x(v))) y1=(at(y + 3.0)) y2=(at(y + 17.0)) {}
                }
                line.axis x1=(at(left)) x2=(at(left)) y1=(at(y)) y2=(at(y + BAR)) {}
                text.value x=(at(x(bar.value.into_iter().chain(bar.stroke).fold(0.0, f64::max)) + 5.0))
                    y=(at(y + 14.0)) { @if bar.text.is_empty() { (MISSING) } @else { (bar.text) } }
            });
            y += if above { BAR + 4.0 } else { BAR };
        }
        (html! { @for d in &drawn { (d) } }, [BARS.max(right + text), y + 6.0])
    }

    /// The parts of a bar side by side, with their names where there is room.
    fn stacked(&self, bar: &Bar, y: f64, x: &impl Fn(f64) -> f64) -> Markup {
        let mut from = 0.0;
        let mut drawn = Vec::new();
        for (i, part) in bar.parts.iter().filter(|p| p.is_finite()).enumerate() {
            let [start, end] = [x(from), x(from + part.max(0.0))];
            from += part.max(0.0);
            let name = self.parts.get(i).copied().unwrap_or_default();
            drawn.push(html! {
                @if end - start >= 0.5 {
                    rect class=(format!("part s{}", i % 4)) x=(at(start)) y=(at(y + 3.0))
                        width=(at(end - start)) height="14" {}
                    @if end - start > width(name) {
                        text.inside x=(at((start + end) / 2.0)) y=(at(y + 13.5)) text-anchor="middle" { (name) }
                    }
                }
            });
        }
        html! { @for d in &drawn { (d) } }
    }

    /// The legend: the names of the parts.
    pub fn key(&self) -> Vec<Sample> {
        let part = |(i, name): (usize, &&'static str)| Sample {
            drawn: html! { rect class=(format!("part s{}", i % 4)) x="0" y="0" width="12" height="12" {} },
            width: 12.0,
            label: name.to_string(),
        };
        self.parts.iter().enumerate().map(part).collect()
    }
}

impl Render for Bars {
    fn render(&self) -> Markup {
        html! {
            (svg(&self.id, &self.title, &self.description, self.drawing()))
            (key(&self.key()))
        }
    }
}

/// An entry of a legend: a sample of a drawing, 12 high, and its name.
pub struct Sample {
    /// The drawing.
    pub drawn: Markup,
    /// Its width.
    pub width: f64,
    /// Its name.
    pub label: String,
}

/// The legend under a plot.
pub(crate) fn key(samples: &[Sample]) -> Markup {
    html! {
        @if !samples.is_empty() {
            ul.key { @for s in samples { li {
                svg viewBox=(format!("0 0 {} 12", s.width)) width=(s.width) height="12" aria-hidden="true" {
                    (s.drawn)
                }
                (s.label)
            } } }
        }
    }
}

pub(crate) fn svg(
    id: &str,
    title: &str,
    description: &str,
    (drawing, [width, height]): (Markup, [f64; 2]),
) -> Markup {
    html! {
        svg.plot viewBox=(format!("0 0 {width} {}", at(height))) role="img"
            aria-labelledby=(format!("{id}-title {id}-desc")) {
            title id=(format!("{id}-title")) { (title) }
            desc id=(format!("{id}-desc")) { (description) }
            (drawing)
        }
    }
}

/// A coordinate, rounded to a tenth of a unit, which is less than a pixel.
pub(crate) fn at(v: f64) -> String {
    if v.is_finite() { format!("{v:.1}") } else { "0".to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(texts: &[(&str, &str, &str)]) -> Bars {
        let bar = |&(group, label, text): &(&str, &str, &str)| Bar {
            group: group.into(),
            label: label.into(),
            value: Some(1.0),
            stroke: None,
            text: text.into(),
            look: Look::Filled,
            parts: Vec::new(),
        };
        Bars {
            id: "b".into(),
            title: "t".into(),
            description: "d".into(),
            parts: &[],
            most: 0.0,
            bars: texts.iter().map(bar).collect(),
        }
    }

    /// The texts of a drawing, in order.
    fn texts(bars: &Bars) -> Vec<String> {
        let drawn = bars.drawing().0.into_string();
        let text = |t: &str| t.split_once('>').unwrap().1.split_once("</text>").unwrap().0.into();
        drawn.split("<text").skip(1).map(text).collect()
    }

    #[test]
    fn long_labels_stand_above_their_bars_in_whole() {
        let [a, b] =
            ["4096", "16384"].map(|n| format!("barriers=true double_write=true page_bytes={n}"));
        let long = bars(&[("g", &a, "1 (1–2)"), ("g", &b, "2 (2–3)")]);
        assert_eq!(texts(&long), ["g", &a, "1 (1–2)", &b, "2 (2–3)"]);
        let short = bars(&[("g", "wal full", "12, loses 3"), ("g", "", "")]);
        assert_eq!(texts(&short), ["g", "wal full", "12, loses 3", MISSING, MISSING]);
        let (_, [width, height]) = short.drawing();
        assert_eq!((width, height), (BARS, 3.0 * BAR + 6.0));
        assert!(long.drawing().1[1] > height);
    }

    #[test]
    fn long_headings_go_on_in_the_next_line_and_long_values_widen_the_plot() {
        let heading = "p99: worst / best (published as about two orders of magnitude)";
        let shown = texts(&bars(&[(heading, "a", "1")]));
        assert_eq!(shown.len(), 4);
        assert_eq!(shown[..2].join(" "), heading);
        let value = "9".repeat(70);
        let wide = bars(&[("g", "a", &value)]);
        assert!(texts(&wide).contains(&value));
        assert!(wide.drawing().1[0] >= width(&value) + SHORTEST);
    }
}
