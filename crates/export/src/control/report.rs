//! What is answered, as it travels. Times are nanoseconds: of the box's clock where the name says
//! nothing else, and of real time where it says `real`.
//!
//! 1. What all boxes have is typed here. What a box shows beside that is at the places that its
//!    fields name ([`Values`]), and described in the answer itself ([`Described`]).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tantalum_device::{Field, Value as field};

pub use tantalum_device::PowerState as Power;

/// What a box shows of itself beside what all boxes have: values at the places that their names
/// say, `a.b` being `b` in the object `a`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Values(Map<String, Value>);

impl Values {
    /// Those of a box.
    pub fn of(fields: &[Field]) -> Values {
        let mut values = Values::default();
        fields.iter().for_each(|field| values.put(field));
        values
    }

    fn put(&mut self, field: &Field) {
        let (tables, last) = field.name.rsplit_once('.').unwrap_or(("", field.name));
        let mut at = &mut self.0;
        for table in tables.split('.').filter(|table| !table.is_empty()) {
            let inner = at.entry(table).or_insert_with(|| Map::new().into());
            match inner {
                Value::Object(inner) => at = inner,
                // One name is the beginning of another: the first one stays.
                _ => return,
            }
        }
        at.entry(last).or_insert_with(|| match &field.value {
            field::Unknown => Value::Null,
            field::Flag(is) => (*is).into(),
            field::Count(n) => (*n).into(),
            field::Number(n) => (*n).into(),
            field::Text(text) => text.clone().into(),
        });
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let (first, rest) = name.split_once('.').map_or((name, None), |(a, b)| (a, Some(b)));
        let mut value = self.0.get(first)?;
        for part in rest.into_iter().flat_map(|rest| rest.split('.')) {
            value = value.get(part)?;
        }
        Some(value)
    }

    /// The number of this name, if it is one.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    /// The whole number of this name, if it is one.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    /// Whether something is so, if the box says that.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    /// The text of this name, if it is one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }
}

/// What a value of a box is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its name: its place in the answer.
    pub name: String,
    /// Its unit: `count`, `bytes`, `ns`, `J`, `ratio`, `flag` or `text`.
    pub unit: String,
    /// What it is.
    pub help: String,
}

impl Described {
    /// Descriptions of fields.
    pub fn all(fields: &[Field]) -> Vec<Described> {
        let one = |field: &Field| Described {
            name: field.name.to_string(),
            unit: field.unit.name().to_string(),
            help: field.help.to_string(),
        };
        fields.iter().map(one).collect()
    }
}

/// A line for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// What it is about.
    pub label: String,
    /// What there is to say. In a line of [`Panel`], `{NAME/s}` stands for what the field of that
    /// name grows in a second, and `{A/B}` for the growth of `A` by that of `B`.
    pub text: String,
    /// The share of a bar before it that is full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bar: Option<f64>,
    /// Nothing to look at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dim: bool,
}

impl From<tantalum_device::Line> for Line {
    fn from(line: tantalum_device::Line) -> Line {
        // What is no number cannot travel: such a bar is full.
        let bar = line.bar.map(|share| if share.is_finite() { share } else { 1.0 });
        Line { label: line.label.into_owned(), text: line.text, bar, dim: line.dim }
    }
}

/// A part of a screen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

impl From<tantalum_device::Panel> for Panel {
    fn from(panel: tantalum_device::Panel) -> Panel {
        let lines = panel.lines.into_iter().map(Line::from).collect();
        Panel { title: panel.title.into_owned(), lines }
    }
}

/// The outcome of a cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutReport {
    /// What the power was before. Only a box that was [`Power::On`] had anything to lose.
    pub was: Power,
    /// Whether what the box has acknowledged is to survive without a flush.
    pub acknowledged_is_safe: bool,
    /// Acknowledged blocks of 4 KiB that are lost, at most: what was not flushed of a volatile
    /// cache, or what an incomplete dump should have had. 0: none is.
    pub lost_blocks_at_most: u64,
    /// Real time from the cut until the box was off.
    pub real_ns: u64,
    /// Whether the box could do what it was to do without the host's power.
    pub complete: bool,
    /// The outcome in one line.
    pub words: String,
    /// More lines.
    pub lines: Vec<Line>,
    /// What the box has to say beside that.
    #[serde(flatten)]
    pub values: Values,
}

/// What a restart took and found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// What the power was before; a box that was [`Power::On`] was left alone.
    pub was: Power,
    /// It started without what should have been there: what was acknowledged last may be lost.
    pub salvaged: bool,
    /// Phases of the recovery, in their order.
    pub phases: Vec<Phase>,
    /// From power to the first command.
    pub ready_ns: u64,
    /// The same in real time.
    pub real_ready_ns: u64,
    /// From power until the start was finished to the end.
    pub whole_ns: u64,
    /// Real time from the request to the answer, with what is in front of the box.
    pub real_ns: u64,
    /// What those in front of the box did, in lines.
    pub notes: Vec<String>,
    /// What the box found, in a line.
    pub found: Option<String>,
    /// What the box has to say beside that.
    #[serde(flatten)]
    pub values: Values,
}

/// A phase of a recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// What it took.
    pub ns: u64,
}

/// How a box is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Version of the program that lets it run.
    pub program: String,
    /// The process.
    pub pid: u32,
    /// The file that it is in; `None` for one in memory.
    pub image: Option<String>,
    /// The name of its design; of a box without one, what kind of box it is.
    pub design: String,
    /// Bytes that it promises.
    pub capacity_bytes: u64,
    /// Whether what it acknowledges survives a power loss without a flush.
    pub acknowledged_is_safe: bool,
    /// The seed of its runtime.
    pub seed: u64,
    /// Real seconds for each second of its clock.
    pub time_scale: f64,
    /// Its power.
    pub power: Power,
    /// Its clock.
    pub now_ns: u64,
    /// Real time since the process has it.
    pub real_now_ns: u64,
    /// How often its power was cut since then, by this process.
    pub cuts: u64,
    /// The outcome of the last cut.
    pub last_cut: Option<CutReport>,
    /// What the last restart took.
    pub last_restore: Option<RestoreReport>,
    /// Why it does not start, or not to the end.
    pub failure: Option<String>,
    /// Why it refuses writes although it has power; a restart helps.
    #[serde(default)]
    pub defect: Option<String>,
    /// What the box shows beside that.
    #[serde(flatten)]
    pub values: Values,
    /// What these values are.
    #[serde(default)]
    pub fields: Vec<Described>,
    /// The same in lines.
    #[serde(default)]
    pub lines: Vec<Line>,
}

/// What a box has done, and what is in it now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatsReport {
    /// Its power.
    pub power: Power,
    /// Its clock.
    pub now_ns: u64,
    /// Real time since the process has it.
    pub real_now_ns: u64,
    /// Commands that were begun and have not ended.
    pub under_way: u64,
    /// Commands by kind: read, write, fua (a write with forced unit access), group (an atomic
    /// one), flush, discard.
    pub commands: std::collections::BTreeMap<String, CommandCounts>,
    /// The bounds of [`LatencyCounts::within`].
    pub latency_bounds_ns: Vec<u64>,
    /// The clients of a server; `None` if the box is not served as a network block device.
    #[serde(default)]
    pub clients: Option<Clients>,
    /// What the box shows beside that.
    #[serde(flatten)]
    pub values: Values,
    /// What these values are.
    #[serde(default)]
    pub fields: Vec<Described>,
    /// The same in lines.
    #[serde(default)]
    pub lines: Vec<Line>,
    /// The same on a screen.
    #[serde(default)]
    pub panels: Vec<Panel>,
}

/// The clients of a server, and the memory that it holds for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// Those that are connected.
    pub connected: u64,
    /// Memory that the server may hold for all of them.
    pub memory_limit_bytes: u64,
    /// What it holds.
    pub memory_bytes: u64,
    /// The most that it held.
    pub memory_most_bytes: u64,
    /// Requests that wait for memory.
    pub waiting: u64,
}

/// Bounds of latencies, from 1 µs to 10 s in steps of 1, 2 and 5, as nanoseconds of the drive's
/// clock.
pub const LATENCY_BOUNDS: [u64; 22] = {
    let mut bounds = [0; 22];
    let (mut i, mut decade) = (0, 1000);
    while i < 22 {
        bounds[i] = decade * [1, 2, 5][i % 3];
        if i % 3 == 2 {
            decade *= 10;
        }
        i += 1;
    }
    bounds
};

/// What was counted of one kind of command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandCounts {
    /// Those that succeeded.
    pub done: u64,
    /// Those that failed.
    pub failed: u64,
    /// Bytes that the former moved, or discarded.
    pub bytes: u64,
    /// Latencies of the former.
    pub latency: LatencyCounts,
}

/// Latencies, by the drive's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCounts {
    /// All together.
    pub sum_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many stayed within each of [`StatsReport::latency_bounds_ns`].
    pub within: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::Unit;

    #[test]
    fn values_are_where_their_names_say() {
        let unknown = None::<u64>;
        let fields = [
            Field::new("wear.max", Unit::Count, 3u64, "the most"),
            Field::new("wear.mean", Unit::Ratio, 1.5, "the mean"),
            Field::new("units", Unit::Text, unknown, "units"),
            Field::new("units.free", Unit::Count, 1u64, "never: units is there"),
            Field::new("protected", Unit::Flag, true, "whether"),
        ];
        let values = Values::of(&fields);
        assert_eq!(values.count("wear.max"), Some(3));
        assert_eq!(values.number("wear.mean"), Some(1.5));
        assert_eq!(values.get("units"), Some(&Value::Null));
        assert_eq!(values.get("units.free"), None);
        assert_eq!(values.flag("protected"), Some(true));
        assert_eq!(values.text("protected"), None);
        let json = serde_json::to_string(&values).expect("JSON");
        assert_eq!(serde_json::from_str::<Values>(&json).expect("values"), values);
    }
}
