//! The boxes of the commands: throughput, and latencies beside it.

use super::history::{Latency, WRITES, short};
use super::screen::Screen;
use crate::drive::size;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline, Widget};
use tantalum_export::control::StatsReport;

/// Heights of columns in text.
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Columns of the rates in words.
const RATES: u16 = 31;
/// Columns of the latencies: numbers, and the histogram beside them.
const NUMBERS: u16 = 19;
const HISTOGRAM: u16 = 24;

/// Lines inside of a box: a heading, three kinds, and the axis.
pub const LINES: u16 = 5;

impl Screen<'_> {
    /// Rates come first, then numbers of latencies, then histograms.
    pub fn commands(&self, s: &StatsReport, borders: Borders, area: Rect, buf: &mut Buffer) {
        let sides = if borders == Borders::ALL { 2 } else { 1 };
        let left = area.width.saturating_sub(RATES + sides);
        let latency = match left {
            n if n >= NUMBERS + HISTOGRAM + sides => NUMBERS + HISTOGRAM + sides,
            n if n >= NUMBERS + sides => NUMBERS + sides,
            _ => 0,
        };
        let halves = Layout::horizontal([Constraint::Fill(1), Constraint::Length(latency)]);
        let [rates, latency] = halves.areas(area);
        self.throughput(s, borders, rates, buf);
        if latency.width > 0 {
            self.latencies(s, borders, latency, buf);
        }
    }

    fn throughput(&self, s: &StatsReport, borders: Borders, area: Rect, buf: &mut Buffer) {
        let title = format!(" throughput, {} under way ", s.under_way);
        let block = Block::new().borders(borders).title(title);
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

    fn latencies(&self, s: &StatsReport, borders: Borders, area: Rect, buf: &mut Buffer) {
        let has_histograms = area.width >= NUMBERS + HISTOGRAM;
        let title = if has_histograms { " latency, by the drive's clock " } else { " latency " };
        let block = Block::new().borders(borders).title(title);
        let inner = block.inner(area);
        block.render(area, buf);
        let mut lines = vec![Line::from("      50% ≤  99% ≤").dim()];
        let has_axis = has_histograms && inner.height >= LINES;
        let height = match has_histograms {
            true => usize::from(inner.height.saturating_sub(1 + u16::from(has_axis)) / 3).max(1),
            false => 1,
        };
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
            let blank = " ".repeat(text.chars().count());
            for (i, columns) in histogram(&latency, height).into_iter().enumerate() {
                let before = if i + 1 == height { &text } else { &blank };
                let columns = if has_histograms { columns } else { String::new() };
                lines.push(Line::from_iter([before.clone().into(), columns.fg(color)]));
            }
        }
        if has_axis {
            lines.push(Line::from("                    1µs   100µs 10ms  1s").dim());
        }
        Paragraph::new(lines).render(inner, buf);
    }
}

/// A histogram as lines of text, the highest first. What there is at all is seen.
fn histogram(latency: &Latency, height: usize) -> Vec<String> {
    let most = latency.counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let steps = STEPS.len() * height;
    let level = |count: u64| match count {
        0 => 0,
        n => 1 + (n as f64 / most * (steps - 1) as f64).round() as usize,
    };
    let line = |below: usize| {
        let step = |count: &u64| match level(*count).saturating_sub(below) {
            0 => ' ',
            n => STEPS[n.min(STEPS.len()) - 1],
        };
        latency.counts.iter().map(step).collect()
    };
    (0..height).rev().map(|row| line(row * STEPS.len())).collect()
}

/// A bound, in few characters.
fn round(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{}µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{}s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_as_high_as_its_lines() {
        let latency = Latency { counts: vec![0, 1, 500, 1000] };
        assert_eq!(histogram(&latency, 1), [" ▁▅█"]);
        assert_eq!(histogram(&latency, 2), ["  ▁█", " ▁██"]);
        assert_eq!(histogram(&Latency::default(), 2), ["", ""]);
    }
}
