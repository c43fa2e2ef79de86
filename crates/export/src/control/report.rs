//! The answers, as they are sent. Times are in nanoseconds: real time where the name contains
//! `real`, and otherwise time of the box's clock.
//!
//! 1. Fields that all boxes have are typed here. Fields of a particular box are at the places that
//!    their names say ([`Values`]), and the answer itself describes them ([`Described`]).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tantalum_device::{Field, Value as field};

pub use tantalum_device::PowerState as Power;

/// The fields of a particular box. Their names are their places: `a.b` is `b` in the object `a`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Values(Map<String, Value>);

impl Values {
    /// The values of these fields.
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
                // One name is the beginning of another: the first value stays.
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

    /// The value of this name.
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

    /// The flag of this name, if it is one.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.get(name)?.as_bool()
    }

    /// The text of this name, if it is one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }
}

/// The description of a box's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its name, which is its place in the answer.
    pub name: String,
    /// Its unit: `count`, `bytes`, `ns`, `J`, `ratio`, `flag` or `text`.
    pub unit: String,
    /// What it means.
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
    /// The text. In a line of [`Panel`], `{NAME/s}` stands for the growth of field `NAME` in a
    /// second, and `{A/B}` for the growth of `A` divided by the growth of `B`.
    pub text: String,
    /// The filled share of a bar in front of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bar: Option<f64>,
    /// The line is of minor interest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dim: bool,
}

impl From<tantalum_device::Line> for Line {
    fn from(line: tantalum_device::Line) -> Line {
        // JSON has no infinity and no NaN: such a bar is full.
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
    /// The power before the cut. Only a box that was [`Power::On`] had anything to lose.
    pub was: Power,
    /// Whether acknowledged writes survive without a flush.
    pub acknowledged_is_safe: bool,
    /// The most acknowledged blocks of 4 KiB that may be lost: what was not flushed of a volatile
    /// cache, or what is missing in an incomplete dump. 0 means that no written block is lost; a
    /// dump that is not complete (`complete`) may undo discards all the same.
    pub lost_blocks_at_most: u64,
    /// Real time from the cut until the box was off.
    pub real_ns: u64,
    /// Whether the box finished the work that it had to do without the host's power.
    pub complete: bool,
    /// The outcome in one line.
    pub words: String,
    /// More lines.
    pub lines: Vec<Line>,
    /// The fields of this box.
    #[serde(flatten)]
    pub values: Values,
}

/// What a restart took and found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// The power before. A box that was [`Power::On`] was left alone.
    pub was: Power,
    /// The drive started although its dump was not complete: the last acknowledged writes may be
    /// lost.
    pub salvaged: bool,
    /// The phases of the recovery, in order.
    pub phases: Vec<Phase>,
    /// From power to the first command.
    pub ready_ns: u64,
    /// The same in real time.
    pub real_ready_ns: u64,
    /// From power until the last phase of the start was finished.
    pub whole_ns: u64,
    /// Real time from the request to the answer, including the work of the layers in front of the
    /// box.
    pub real_ns: u64,
    /// What the layers in front of the box did, in lines.
    pub notes: Vec<String>,
    /// What the box found, in a line.
    pub found: Option<String>,
    /// The fields of this box.
    #[serde(flatten)]
    pub values: Values,
}

/// What became of the cache of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeReport {
    /// Bytes of the flash device that it has now.
    pub flash_bytes: u64,
    /// How it is now, in a line.
    pub words: String,
}

/// What a look at every page of the cache of a volume found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// Pages that were compared with their checksums.
    pub pages: u64,
    /// Damaged pages that were given up, since the slow device has them.
    pub repaired: u64,
    /// How many pages have lost their newest version.
    pub lost_pages: u64,
    /// The first [`ScrubReport::MOST`] of them, ascending.
    pub lost: Vec<u64>,
}

impl ScrubReport {
    /// So many lost pages are named, at most: an answer is one line of bounded length.
    pub const MOST: usize = 10_000;
}

impl From<tantalum_device::ScrubOutcome> for ScrubReport {
    fn from(found: tantalum_device::ScrubOutcome) -> ScrubReport {
        let tantalum_device::ScrubOutcome { pages, repaired, mut lost } = found;
        let lost_pages = lost.len() as u64;
        lost.truncate(ScrubReport::MOST);
        ScrubReport { pages, repaired, lost_pages, lost }
    }
}

/// What became of the cache of a volume that is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetachReport {
    /// The slow device has everything, from this byte on.
    pub first_byte: u64,
}

/// What became of a device of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaceReport {
    /// The new device has everything from here ...
    pub first: u64,
    /// ... to here.
    pub end: u64,
    /// It was copied now; else the new device had that place already.
    pub copied: bool,
}

/// A phase of a recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Its duration.
    pub ns: u64,
}

/// The state of a box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Version of the program that runs the box.
    pub program: String,
    /// The number of the process.
    pub pid: u32,
    /// The image file; `None` for a box in memory.
    pub image: Option<String>,
    /// The name of its design; for a box without a design, the kind of box.
    pub design: String,
    /// Its capacity in bytes.
    pub capacity_bytes: u64,
    /// Whether acknowledged writes survive a power loss without a flush.
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
    /// Power cuts since the process has the box.
    pub cuts: u64,
    /// The outcome of the last cut.
    pub last_cut: Option<CutReport>,
    /// The outcome of the last restart.
    pub last_restore: Option<RestoreReport>,
    /// Why it does not start, or did not finish its start.
    pub failure: Option<String>,
    /// Why it refuses writes although it has power; a restart helps.
    #[serde(default)]
    pub defect: Option<String>,
    /// The fields of this box.
    #[serde(flatten)]
    pub values: Values,
    /// Descriptions of these fields.
    #[serde(default)]
    pub fields: Vec<Described>,
    /// The same as lines for people.
    #[serde(default)]
    pub lines: Vec<Line>,
}

/// The counters of a box.
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
    /// The clients of the server; `None` if the box is not served as a network block device.
    #[serde(default)]
    pub clients: Option<Clients>,
    /// The fields of this box.
    #[serde(flatten)]
    pub values: Values,
    /// Descriptions of these fields.
    #[serde(default)]
    pub fields: Vec<Described>,
    /// The same as lines for people.
    #[serde(default)]
    pub lines: Vec<Line>,
    /// The same as panels of a screen.
    #[serde(default)]
    pub panels: Vec<Panel>,
}

/// The clients of a server, and the memory that it holds for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clients {
    /// Those that are connected.
    pub connected: u64,
    /// The most memory that the server may hold for all of them.
    pub memory_limit_bytes: u64,
    /// What the server holds now.
    pub memory_bytes: u64,
    /// The most that the server has held.
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

/// Counters of one kind of command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandCounts {
    /// Commands that succeeded.
    pub done: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Bytes that the successful ones moved or discarded.
    pub bytes: u64,
    /// Latencies of the successful ones.
    pub latency: LatencyCounts,
}

/// Latencies, by the drive's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCounts {
    /// The sum of all latencies.
    pub sum_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many were within each bound of [`StatsReport::latency_bounds_ns`].
    pub within: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Reply;
    use crate::control::client::LONGEST;
    use tantalum_device::ScrubOutcome;

    #[test]
    fn an_answer_about_many_lost_pages_is_not_too_long() {
        let lost = (0..20_000).map(|n| u64::MAX - n).collect();
        let report = ScrubReport::from(ScrubOutcome { pages: u64::MAX, repaired: 1, lost });
        assert_eq!((report.lost_pages, report.lost.len()), (20_000, ScrubReport::MOST));
        let line = Reply::of(Ok(serde_json::to_value(report).expect("JSON"))).line();
        assert!((line.len() as u64) < LONGEST, "{} bytes", line.len());
    }

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
