//! A panel of the box: lines of text, some with a bar.

use super::history::History;
use super::text::{cut, wrapped};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Widget};
use tantalum_export::control::Panel;

/// Columns of a label, with the blank behind it.
const LABEL: u16 = 12;
/// A bar has at least so many columns.
const BAR: u16 = 4;

/// A panel whose texts have their numbers.
pub struct Told {
    title: String,
    lines: Vec<Entry>,
}

struct Entry {
    label: String,
    text: String,
    bar: Option<f64>,
    dim: bool,
}

impl Told {
    /// The panel as it is now.
    pub fn of(panel: &Panel, history: &History) -> Told {
        let entry = |line: &tantalum_export::control::Line| Entry {
            label: line.label.clone(),
            text: history.resolve(&line.text),
            bar: line.bar,
            dim: line.dim,
        };
        let lines = panel.lines.iter().map(entry).collect();
        Told { title: format!(" {} ", panel.title), lines }
    }

    /// Its lines in this width: text that is longer goes on in the next one, or is cut.
    pub fn lines(&self, width: u16, wraps: bool) -> Vec<Line<'static>> {
        // All bars have one length: what the longest text behind one leaves, a quarter at most.
        let texts = self.lines.iter().filter(|e| e.bar.is_some()).map(|e| e.text.chars().count());
        let longest = texts.max().map_or(0, |n| u16::try_from(n).unwrap_or(u16::MAX));
        let left = width.saturating_sub(LABEL + 1).saturating_sub(longest);
        let bar = left.min(width / 4).max(BAR);
        self.lines.iter().flat_map(|entry| entry.lines(width, bar, wraps)).collect()
    }

    /// Draws it.
    pub fn render(&self, borders: Borders, wraps: bool, area: Rect, buf: &mut Buffer) {
        let block = Block::new().borders(borders).title(self.title.as_str());
        let inner = block.inner(area);
        block.render(area, buf);
        Paragraph::new(self.lines(inner.width, wraps)).render(inner, buf);
    }
}

impl Entry {
    fn lines(&self, width: u16, bar: u16, wraps: bool) -> Vec<Line<'static>> {
        let label = match self.label.as_str() {
            "" => String::new(),
            label => format!("{label:<11} "),
        };
        if let Some(share) = self.bar {
            let text = cut(&self.text, width.saturating_sub(LABEL + bar + 1));
            let [full, empty] = columns(share, usize::from(bar));
            return vec![Line::from_iter([label.into(), full, empty, format!(" {text}").into()])];
        }
        let indent = label.chars().count();
        let room = width.saturating_sub(indent as u16);
        let texts = match wraps {
            // Words keep their distances where all of them fit.
            true if self.text.chars().count() > usize::from(room) => wrapped(&self.text, room),
            true => vec![self.text.clone()],
            false => vec![cut(&self.text, room)],
        };
        let line = |(i, text): (usize, String)| {
            let before = if i == 0 { label.clone() } else { " ".repeat(indent) };
            let line = Line::from(before + &text);
            if self.dim { line.dim() } else { line }
        };
        texts.into_iter().enumerate().map(line).collect()
    }
}

/// The full and the empty part of a bar.
fn columns(share: f64, width: usize) -> [ratatui::text::Span<'static>; 2] {
    let share = if share.is_finite() { share.max(0.0) } else { 1.0 };
    let full = ((share * width as f64).ceil() as usize).min(width);
    let color = match share {
        s if s > 1.0 => Color::Red,
        s if s > 0.8 => Color::Yellow,
        _ => Color::Green,
    };
    ["█".repeat(full).fg(color), "░".repeat(width - full).dim()]
}
