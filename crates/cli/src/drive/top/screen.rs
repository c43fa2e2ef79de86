//! The screen of `drive top`.

use super::history::History;
use super::layout::Wanted;
use super::panel::Told;
use super::text::{cut, more, wrapped};
use crate::counted::counted;
use crate::drive::{remote, size, words};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget};
use std::path::Path;
use tantalum_export::control::{Power, StatusReport};

/// The contents of the screen.
pub struct Screen<'a> {
    pub history: &'a History,
    pub message: &'a str,
    /// The process that runs the drive does not answer: the history is old.
    pub gone: bool,
}

/// The keys, in words.
const KEYS: &str = " c cut  r restore  q quit ";

impl Widget for &Screen<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let fits = KEYS.len() + 2 + self.message.chars().count() <= usize::from(area.width);
        let above = if fits { Vec::new() } else { wrapped(self.message, area.width) };
        let second = self.history.last().map(|last| self.second(&last.status));
        let (text, style) = second.unwrap_or_default();
        let mut second = wrapped(&text, area.width);
        let panels = self.history.last().map_or(&[][..], |last| &last.stats.panels);
        let panels: Vec<Told> = panels.iter().map(|panel| Told::of(panel, self.history)).collect();
        // The sides of a box take two columns.
        let inside = area.width.saturating_sub(2);
        let count = |wraps| -> Vec<u16> {
            panels.iter().map(|panel| panel.lines(inside, wraps).len() as u16).collect()
        };
        let shares = Wanted {
            height: area.height,
            head: 1 + second.len() as u16,
            foot: 1 + above.len() as u16,
            wrapped: &count(true),
            single: &count(false),
        };
        let shares = shares.shares();
        let heights = [shares.head, shares.commands].into_iter().chain(shares.panels);
        let rows = Layout::vertical(heights.chain([shares.foot]).map(Constraint::Length));
        let rows = rows.split(area);
        if let Some(last) = self.history.last() {
            let room = usize::from(shares.head.saturating_sub(1));
            if second.len() > room {
                second.truncate(room);
                second.last_mut().into_iter().for_each(|line| *line = more(line, area.width));
            }
            let second = second.into_iter().map(|line| Line::styled(line, style));
            self.head(&last.status, second, rows[0], buf);
            self.commands(&last.stats, shares.borders, rows[1], buf);
            for (panel, area) in panels.iter().zip(&rows[2..]) {
                panel.render(shares.borders, shares.wraps, *area, buf);
            }
        }
        let beside = if fits { self.message } else { "" };
        let last = Line::from_iter([KEYS.reversed(), "  ".into(), beside.into()]);
        let lines: Vec<_> = above.into_iter().map(Line::from).chain([last]).collect();
        Paragraph::new(lines).render(rows[rows.len() - 1], buf);
    }
}

impl Screen<'_> {
    fn head(
        &self,
        s: &StatusReport,
        second: impl Iterator<Item = Line<'static>>,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let power = match s.power {
            _ if self.gone => " GONE ".white().on_red(),
            Power::On => " ON ".black().on_green(),
            Power::Off => " OFF ".white().on_red(),
            other => remote::power(other).black().on_yellow(),
        };
        let room = area.width.saturating_sub(power.width() as u16);
        let (title, more) = title(s, room);
        let first = Line::from_iter([power, title.bold(), more.into()]);
        Paragraph::new(Vec::from_iter([first].into_iter().chain(second))).render(area, buf);
    }

    /// What is below the title, and how it looks.
    fn second(&self, s: &StatusReport) -> (String, Style) {
        let red = Style::new().red();
        match (&s.failure, &s.defect, &s.last_cut) {
            _ if self.gone => ("the drive does not answer; this is what it said last".into(), red),
            (Some(failure), ..) => (format!("does not start: {failure}"), red),
            (None, Some(why), _) => (format!("takes no writes until it is restored: {why}"), red),
            (None, None, Some(cut)) => {
                (format!("last cut: {}", words::cut_in_a_line(cut)), Style::new().dim())
            }
            (None, None, None) => ("never cut".into(), Style::new().dim()),
        }
    }
}

/// What the box is and what else fits beside that: a path becomes the name of its file first, and then
/// whole fields are left out.
fn title(s: &StatusReport, room: u16) -> (String, String) {
    let whole = s.image.as_deref().unwrap_or("in memory");
    let name = Path::new(whole).file_name().map_or(whole.into(), |name| name.to_string_lossy());
    let scale = format!("  time scale {}", s.time_scale);
    let all = format!("{scale}, {}", counted(s.cuts, "cut", "cuts"));
    let title = |place: &str| format!(" {} {}  {place}", s.design, size(s.capacity_bytes));
    let (title_whole, title_name) = (title(whole), title(&name));
    let ways = [(&title_whole, &*all), (&title_name, &*all), (&title_name, &*scale)];
    let width = |text: &str| text.chars().count();
    let fits = |(title, more): &(&String, &str)| width(title) + width(more) <= usize::from(room);
    match ways.into_iter().find(fits) {
        Some((title, more)) => (title.clone(), more.to_string()),
        None => (cut(&title_name, room), String::new()),
    }
}

/// The screen as text, without blanks at line ends.
pub fn text(buf: &Buffer) -> String {
    let width = usize::from(buf.area.width).max(1);
    let mut text = String::new();
    for row in buf.content().chunks(width) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
