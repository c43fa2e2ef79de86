//! The screen of `drive top`.

use super::history::{History, Latency, Sample, WRITES, short};
use crate::drive::{remote, size, words};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Sparkline, Widget};
use tantalum_export::control::{self as told, Panel, Power, StatsReport, StatusReport};

/// Heights of columns in text.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The contents of the screen.
pub struct Screen<'a> {
    pub history: &'a History,
    pub message: &'a str,
    /// The process that runs the drive does not answer: the history is old.
    pub gone: bool,
}

/// A text is wrapped over at most so many lines.
const LINES_MOST: usize = 4;

impl Widget for &Screen<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let keys = " c cut  r restore  q quit ";
        let fits = keys.len() + 2 + self.message.chars().count() <= usize::from(area.width);
        let above = if fits { Vec::new() } else { wrapped(self.message, area.width) };
        let second = self.history.last().map(|last| self.second(&last.status));
        let (text, style) = second.unwrap_or_default();
        let second = wrapped(&text, area.width);
        let (head, foot) = (1 + second.len() as u16, 1 + above.len() as u16);
        let lines =
            |last: &Sample| last.stats.panels.iter().map(|p| p.lines.len() + 2).sum::<usize>();
        let panels = self.history.last().map_or(0, lines);
        let lacks = usize::from(head + foot) + 8 + panels > usize::from(area.height);
        let rows = Layout::vertical([
            Constraint::Length(head),
            // On a low screen the panels need the line more.
            Constraint::Length(if lacks { 7 } else { 8 }),
            Constraint::Min(0),
            Constraint::Length(foot),
        ]);
        let [head, commands, inside, foot] = rows.areas(area);
        if let Some(last) = self.history.last() {
            let second = second.into_iter().map(|line| Line::styled(line, style));
            self.head(&last.status, second, head, buf);
            let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Length(45)]);
            let [throughput, latency] = halves.areas(commands);
            self.throughput(&last.stats, throughput, buf);
            self.latencies(&last.stats, latency, buf);
            self.panels(&last.stats.panels, inside, buf);
        }
        let beside = if fits { self.message } else { "" };
        let last = Line::from_iter([keys.reversed(), "  ".into(), beside.into()]);
        let lines: Vec<_> = above.into_iter().map(Line::from).chain([last]).collect();
        Paragraph::new(lines).render(foot, buf);
    }
}

/// The text in lines of this width, broken between words; a longer word is broken.
fn wrapped(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width).max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let used = line.chars().count();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
        } else if used > 0 {
            line.push(' ');
        }
        while word.len() > width {
            lines.push(word.drain(..width).collect());
        }
        line.extend(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    if lines.len() > LINES_MOST {
        lines.truncate(LINES_MOST);
        if let Some(last) = lines.last_mut() {
            *last = last.chars().take(width - 1).chain(['…']).collect();
        }
    }
    lines
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
        let place = s.image.as_deref().unwrap_or("in memory");
        let title = format!(" {} {}  {place}", s.design, size(s.capacity_bytes));
        let cuts = if s.cuts == 1 { "cut" } else { "cuts" };
        let more = format!("  time scale {}, {} {cuts}", s.time_scale, s.cuts);
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

    fn throughput(&self, s: &StatsReport, area: Rect, buf: &mut Buffer) {
        let block = Block::bordered().title(format!(" throughput, {} under way ", s.under_way));
        let inner = block.inner(area);
        block.render(area, buf);
        let rows = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
            Constraint::Fill(1),
        ]);
        let [read, reads, write, writes] = rows.areas(inner);
        for (name, kinds, line, spark, color) in [
            ("read", &["read"][..], read, reads, Color::Cyan),
            ("write", &WRITES[..], write, writes, Color::Yellow),
        ] {
            let rate = self.history.rate(kinds);
            let text =
                format!("{name:<6}{:>8}/s  {}/s", short(rate.commands), size(rate.bytes as u64));
            Line::from(text).render(line, buf);
            let data = self.history.rates(kinds, spark.width.into());
            // The newest sample is at the right.
            let width = spark.width.min(data.len() as u16);
            let spark = Rect { x: spark.right() - width, width, ..spark };
            Sparkline::default().data(data).style(Style::new().fg(color)).render(spark, buf);
        }
    }

    fn latencies(&self, s: &StatsReport, area: Rect, buf: &mut Buffer) {
        let block = Block::bordered().title(" latency, by the drive's clock ");
        let inner = block.inner(area);
        block.render(area, buf);
        let mut lines = Vec::new();
        for (name, kinds, color) in [
            ("read", &["read"][..], Color::Cyan),
            ("write", &WRITES[..], Color::Yellow),
            ("flush", &["flush"][..], Color::Magenta),
        ] {
            let latency = self.history.latency(kinds);
            let bounds = &s.latency_bounds_ns;
            let within = |q| match latency.quantile(bounds, q) {
                None => "-".to_string(),
                Some(u64::MAX) => "more".to_string(),
                Some(ns) => round(ns),
            };
            let text = format!("{name:<6}{:>6} {:>6} ", within(0.5), within(0.99));
            lines.push(Line::from_iter([text.into(), columns(&latency).fg(color)]));
        }
        lines.insert(0, Line::from("      50% ≤  99% ≤").dim());
        lines.push(Line::from("                    1µs   100µs 10ms  1s").dim());
        Paragraph::new(lines).render(inner, buf);
    }

    /// The panels of the box. The first one gets the remaining room.
    fn panels(&self, panels: &[Panel], area: Rect, buf: &mut Buffer) {
        let height = |panel: &Panel| u16::try_from(panel.lines.len() + 2).unwrap_or(u16::MAX);
        let constraint = |(i, panel): (usize, &Panel)| match i {
            0 => Constraint::Fill(1),
            _ => Constraint::Length(height(panel)),
        };
        let rows = Layout::vertical(panels.iter().enumerate().map(constraint)).split(area);
        for (panel, area) in panels.iter().zip(rows.iter()) {
            let block = Block::bordered().title(format!(" {} ", panel.title));
            let inner = block.inner(*area);
            block.render(*area, buf);
            let lines: Vec<_> = panel.lines.iter().map(|line| self.line(line, inner)).collect();
            Paragraph::new(lines).render(inner, buf);
        }
    }

    fn line(&self, line: &told::Line, area: Rect) -> Line<'static> {
        let text = self.history.resolve(&line.text);
        match (line.bar, line.label.as_str()) {
            (Some(share), label) => bar(label, share, &text, area),
            (None, "") => Line::from(text),
            (None, label) if line.dim => Line::from(format!("{label:<11} {text}")).dim(),
            (None, label) => Line::from(format!("{label:<11} {text}")),
        }
    }
}

fn bar(name: &str, share: f64, text: &str, area: Rect) -> Line<'static> {
    let width = usize::from(area.width / 4);
    let share = if share.is_finite() { share.max(0.0) } else { 1.0 };
    let full = ((share * width as f64).ceil() as usize).min(width);
    let color = match share {
        s if s > 1.0 => Color::Red,
        s if s > 0.8 => Color::Yellow,
        _ => Color::Green,
    };
    Line::from_iter([
        format!("{name:<11} ").into(),
        "█".repeat(full).fg(color),
        "░".repeat(width - full).dim(),
        format!(" {text}").into(),
    ])
}

/// A histogram as text.
fn columns(latency: &Latency) -> String {
    let most = latency.counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let step = |count: &u64| match count {
        0 => ' ',
        n => STEPS[((*n as f64 / most * 7.0).round() as usize).min(7)],
    };
    latency.counts.iter().map(step).collect()
}

/// A bound, in few characters.
fn round(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{}µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{}s", ns / 1_000_000_000),
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
