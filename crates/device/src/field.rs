//! Values that a box shows of itself, each with its name, unit and meaning: for reports, metrics
//! and screens that know nothing of the box.
//!
//! 1. A [`Field`] is complete: whoever shows it needs no table of names.
//! 2. What is not known at the moment is shown as such ([`Value::Unknown`]), never as 0.

use crate::Caps;
use std::borrow::Cow;
use std::fmt;

/// A value with its description.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its place in a report: names with dots in between, as in `wear.max`.
    pub name: &'static str,
    /// What it is, in a line.
    pub help: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The value.
    pub value: Value,
    /// As what it is shown among metrics; `None`: it is not.
    pub metric: Option<Metric>,
}

/// What a value counts or measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things; the description says which.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanos,
    /// Joules.
    Joules,
    /// A quotient.
    Ratio,
    /// Whether something is so.
    Flag,
    /// Words.
    Text,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// There is none at the moment.
    Unknown,
    /// Whether something is so.
    Flag(bool),
    /// A whole number.
    Count(u64),
    /// Any number.
    Number(f64),
    /// Words.
    Text(String),
}

/// The name of a metric, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name of the family; a family may have several fields, told apart by their labels.
    pub family: &'static str,
    /// What the family is; that of its first field counts.
    pub help: &'static str,
    /// Which of the family this one is: name and value of a label.
    pub label: Option<(&'static str, &'static str)>,
    /// Whether it only grows while the process lasts.
    pub counter: bool,
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Flag(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Count(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Count(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Number(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Unknown, Into::into)
    }
}

impl Field {
    /// A field that is no metric.
    pub fn new(
        name: &'static str,
        unit: Unit,
        value: impl Into<Value>,
        help: &'static str,
    ) -> Field {
        Field { name, help, unit, value: value.into(), metric: None }
    }

    /// The same as a metric that may fall.
    pub fn gauge(self, family: &'static str) -> Field {
        self.metric(family, false)
    }

    /// The same as a metric that only grows.
    pub fn counter(self, family: &'static str) -> Field {
        self.metric(family, true)
    }

    /// The same with a label in its metric; `help` is that of the family.
    pub fn labelled(
        mut self,
        label: &'static str,
        value: &'static str,
        help: &'static str,
    ) -> Field {
        if let Some(metric) = &mut self.metric {
            (metric.label, metric.help) = (Some((label, value)), help);
        }
        self
    }

    fn metric(mut self, family: &'static str, counter: bool) -> Field {
        self.metric = Some(Metric { family, help: self.help, label: None, counter });
        self
    }
}

impl Unit {
    /// Its name, as it travels.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Nanos => "ns",
            Unit::Joules => "J",
            Unit::Ratio => "ratio",
            Unit::Flag => "flag",
            Unit::Text => "text",
        }
    }

    /// A value in words.
    pub fn words(self, value: &Value) -> String {
        match (self, value) {
            (_, Value::Unknown) => "unknown".to_string(),
            (_, Value::Flag(is)) => if *is { "yes" } else { "no" }.to_string(),
            (_, Value::Text(text)) => text.clone(),
            (Unit::Bytes, Value::Count(n)) => bytes_in_words(*n),
            (Unit::Nanos, Value::Count(n)) => time_in_words(*n),
            (_, Value::Count(n)) => n.to_string(),
            (Unit::Joules, Value::Number(n)) => joules_in_words(*n),
            (_, Value::Number(n)) => format!("{n:.3}"),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.unit.words(&self.value))
    }
}

/// So many things, by their name for one and for several.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

/// Bytes in words.
pub fn bytes_in_words(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|u| bytes >= u.0) {
        Some((unit, name)) => format!("{:.2} {name}", bytes as f64 / *unit as f64),
        None => counted(bytes, "byte", "bytes"),
    }
}

/// Nanoseconds in words.
pub fn time_in_words(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// Joules in words.
pub fn joules_in_words(joules: f64) -> String {
    match joules {
        j if j >= 1.0 => format!("{j:.2} J"),
        j if j >= 1e-3 => format!("{:.2} mJ", j * 1e3),
        j => format!("{:.1} µJ", j * 1e6),
    }
}

/// A line for people: a name, and what there is to say.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The name, of at most 11 characters.
    pub label: Cow<'static, str>,
    /// The text. On a screen `{NAME/s}` in it stands for how much the field of that name grows in a
    /// second of real time, in words of its unit, and `{A/B}` for the growth of field `A` by that
    /// of field `B`.
    pub text: String,
    /// A bar before the text: the share of it that is full. More than 1 is too much.
    pub bar: Option<f64>,
    /// Nothing to look at.
    pub dim: bool,
}

impl Line {
    /// A line of text.
    pub fn new(label: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Line {
        Line { label: label.into(), text: text.into(), bar: None, dim: false }
    }

    /// What a box promises of acknowledged writes.
    pub fn promises(caps: &Caps) -> Line {
        let words = match caps.ack.survives() {
            true => "what it acknowledges survives a power loss",
            false => "what it acknowledges may be lost with the power until it is flushed",
        };
        Line::new("promises", words)
    }

    /// The same, of what is not there.
    pub fn dim(mut self) -> Line {
        self.dim = true;
        self
    }

    /// A bar, and text.
    pub fn bar(label: &'static str, share: f64, text: impl Into<String>) -> Line {
        Line { bar: Some(share), ..Line::new(label, text) }
    }

    /// A bar of so much of so much; the text begins with the former.
    pub fn level(label: &'static str, value: u64, of: u64, text: impl fmt::Display) -> Line {
        Line::bar(label, value as f64 / of.max(1) as f64, format!("{value} {text}"))
    }
}

/// A part of a screen.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Its title.
    pub title: Cow<'static, str>,
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Panel {
    /// A part with these lines.
    pub fn new(title: impl Into<Cow<'static, str>>, lines: Vec<Line>) -> Panel {
        Panel { title: title.into(), lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_in_words_of_their_unit() {
        let of = |unit, value| Field::new("x", unit, value, "").to_string();
        assert_eq!(of(Unit::Bytes, Value::Count(3 << 19)), "1.50 MiB");
        assert_eq!(of(Unit::Bytes, Value::Count(1)), "1 byte");
        assert_eq!(of(Unit::Bytes, Value::Count(2)), "2 bytes");
        assert_eq!(of(Unit::Nanos, Value::Count(2_500_000)), "2.50 ms");
        assert_eq!(of(Unit::Joules, Value::Number(0.02)), "20.00 mJ");
        assert_eq!(of(Unit::Ratio, Value::Number(1.25)), "1.250");
        assert_eq!(of(Unit::Count, Value::Count(7)), "7");
        assert_eq!(of(Unit::Flag, true.into()), "yes");
        assert_eq!(of(Unit::Count, None::<u64>.into()), "unknown");
    }
}
