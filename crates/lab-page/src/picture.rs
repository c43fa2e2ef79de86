//! One kind of plot of a report as a file: an SVG with its own colours, fonts and texts. It follows
//! light and dark mode and has a background of its own, so that it fits on any page.

use crate::colours::picture_style;
use crate::drives::AMPLIFICATION;
use crate::experiment::groups;
use crate::plot::{LINE, Sample, at};
use crate::published;
use crate::sections::{FLASH, LOSSES, RECOVERY, Shown, THROUGHPUT, capital};
use crate::text::{BOLD, TITLE, width as text_width, wrap};
use maud::{Markup, PreEscaped, html};
use std::str::FromStr;
use tantalum_lab::report::Report;
use tantalum_lab::report::measures::Named;
use tantalum_lab::report::panels::{Panel, Panels};
use tantalum_lab::report::terms::Terms;

/// The kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// Transactions (of block jobs, requests) per second, and which rows lose some.
    Throughput,
    /// Commits (of block jobs, blocks) lost.
    Losses,
    /// Flash bytes for each user byte.
    Flash,
    /// Write amplification in its parts.
    Amplification,
    /// Recovery times.
    Recovery,
    /// Published numbers and ours.
    Published,
}

/// No picture has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no picture \"{name}\"; there are: {}", Picture::names().join(", "))]
pub struct UnknownPicture {
    /// The requested name.
    pub name: String,
}

const PICTURES: [(&str, Picture); 6] = [
    ("throughput", Picture::Throughput),
    ("losses", Picture::Losses),
    ("flash", Picture::Flash),
    ("amplification", Picture::Amplification),
    ("recovery", Picture::Recovery),
    ("published", Picture::Published),
];

impl FromStr for Picture {
    type Err = UnknownPicture;

    fn from_str(name: &str) -> Result<Picture, UnknownPicture> {
        let found = PICTURES.iter().find(|p| p.0 == name).map(|p| p.1);
        found.ok_or_else(|| UnknownPicture { name: name.to_string() })
    }
}

/// Space around the picture, and between panels.
const MARGIN: f64 = 20.0;
const GAP: f64 = 32.0;
/// Height of a panel's caption of one line.
const CAPTION: f64 = 24.0;

/// A plot with its caption.
pub(crate) struct Drawn {
    pub caption: String,
    pub drawing: Markup,
    pub size: [f64; 2],
}

impl Picture {
    /// The names of all pictures.
    pub fn names() -> Vec<&'static str> {
        PICTURES.iter().map(|p| p.0).collect()
    }

    fn shown(self) -> Option<&'static Shown> {
        match self {
            Picture::Throughput => Some(&THROUGHPUT),
            Picture::Losses => Some(&LOSSES),
            Picture::Flash => Some(&FLASH),
            Picture::Amplification => Some(&AMPLIFICATION),
            Picture::Recovery => Some(&RECOVERY),
            Picture::Published => None,
        }
    }

    fn note(self, terms: &Terms) -> String {
        match self {
            Picture::Throughput => {
                return format!("outlined: acknowledged {} were lost", terms.writes);
            }
            Picture::Losses => "of all that were acknowledged",
            Picture::Flash => "programmed into flash for each byte of row contents",
            Picture::Amplification => "programmed into flash for each byte that the host wrote",
            Picture::Recovery => "median, and the stroke: the longest",
            Picture::Published => "published numbers and ours",
        }
        .to_string()
    }

    /// The picture of a report: a self-contained SVG. The same report gives the same bytes.
    pub fn draw(self, report: &Report) -> String {
        let mut panels = Vec::new();
        let mut samples: Vec<Sample> = Vec::new();
        let all = Terms::of(&report.rows);
        let what = match self.shown() {
            Some(shown) => {
                for (g, group) in groups(&report.folded()).iter().enumerate() {
                    let what = (shown.what)(group.terms());
                    for (mut caption, bars) in shown.of(g, group) {
                        // (Where workloads count different things, each panel names its own.)
                        if what != (shown.what)(all) {
                            caption = format!("{caption}: {}", what.to_lowercase());
                        }
                        let (drawing, size) = bars.drawing();
                        samples = bars.key();
                        panels.push(Drawn { caption, drawing, size });
                    }
                }
                (shown.what)(all)
            }
            None => {
                let Panels { key, panels: all } = Panels::of(report);
                let mut measures: Vec<Named> = all.iter().map(|p| p.measure).collect();
                measures.sort_unstable_by_key(|m| all.iter().position(|p| p.measure == *m));
                measures.dedup();
                for (i, measure) in measures.iter().enumerate() {
                    let axis = published::axis(report, *measure);
                    let these: Vec<&Panel> = all.iter().filter(|p| p.measure == *measure).collect();
                    for (caption, plot) in published::plots(i, [&key, &axis], &these) {
                        let (drawing, size, key) = plot.drawing();
                        if !key.is_empty() {
                            samples = key;
                        }
                        panels.push(Drawn { caption, drawing, size });
                    }
                }
                let axes = measures.iter().map(|m| published::axis(report, *m));
                match measures.is_empty() {
                    // (Only ratios of rows may have been published: tables and pages have them.)
                    true => "No row has a number",
                    false => &capital(&axes.collect::<Vec<_>>().join("; ")),
                }
            }
        };
        let plain = report.cuts == 1;
        let cuts = if plain { "One power cut" } else { &format!("{} power cuts", report.cuts) };
        let under = format!("{what}; {}. {cuts} for each row, virtual time.", self.note(all));
        picture(&report.title, &under, &panels, &samples)
    }
}

/// Panels in rows of two (of three, if they are narrow), under a title.
pub(crate) fn picture(title: &str, under: &str, panels: &[Drawn], samples: &[Sample]) -> String {
    let widest = panels.iter().map(|p| p.size[0]).fold(340.0, f64::max);
    let columns = panels.len().clamp(1, if widest > 340.0 { 2 } else { 3 });
    let width = 2.0 * MARGIN + columns as f64 * (widest + GAP) - GAP;
    let mut drawn = Vec::new();
    let mut y = MARGIN + 14.0;
    for words in wrap(title, (width - 2.0 * MARGIN) / TITLE) {
        drawn.push(html! { text.title x=(at(MARGIN)) y=(at(y)) { (words) } });
        y += 20.0;
    }
    for words in wrap(under, width - 2.0 * MARGIN) {
        drawn.push(html! { text.name x=(at(MARGIN)) y=(at(y)) { (words) } });
        y += LINE;
    }
    y += 2.0;
    for row in panels.chunks(columns) {
        let captions: Vec<_> = row.iter().map(|p| wrap(&p.caption, widest / BOLD)).collect();
        let most = captions.iter().map(Vec::len).max().unwrap_or(1);
        let caption = CAPTION + (most.max(1) - 1) as f64 * LINE;
        for (i, (panel, words)) in row.iter().zip(captions).enumerate() {
            let x = MARGIN + i as f64 * (widest + GAP);
            let [w, h] = panel.size;
            drawn.push(html! {
                @for (n, words) in words.iter().enumerate() {
                    text.group x=(at(x)) y=(at(y + 14.0 + n as f64 * LINE)) { (words) }
                }
                svg x=(at(x)) y=(at(y + caption)) width=(at(w)) height=(at(h))
                    viewBox=(format!("0 0 {} {}", at(w), at(h))) { (panel.drawing) }
            });
        }
        y += caption + row.iter().map(|p| p.size[1]).fold(0.0, f64::max) + 12.0;
    }
    let mut x = MARGIN;
    for sample in samples {
        let needed = sample.width + 6.0 + text_width(&sample.label);
        if x > MARGIN && x + needed > width - MARGIN {
            (x, y) = (MARGIN, y + LINE);
        }
        let after = x + sample.width + 6.0;
        drawn.push(html! {
            svg x=(at(x)) y=(at(y)) width=(at(sample.width)) height="12" { (sample.drawn) }
            text x=(at(after)) y=(at(y + 10.0)) { (sample.label) }
        });
        x += needed + 20.0;
    }
    let height = y + if samples.is_empty() { 4.0 } else { 16.0 + MARGIN };
    let whole = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {} {}", at(width), at(height)))
            width=(at(width)) height=(at(height)) role="img" aria-labelledby="title"
            font-family="system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" {
            title id="title" { (title) ": " (under) }
            style { (PreEscaped(picture_style())) }
            rect.ground x="0.5" y="0.5" width=(at(width - 1.0)) height=(at(height - 1.0)) rx="8" {}
            @for d in &drawn { (d) }
        }
    };
    let mut text = whole.into_string();
    text.push('\n');
    text
}
