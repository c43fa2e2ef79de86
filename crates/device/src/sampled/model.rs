//! The parameters of a sampled device, and its tables.

use crate::{Ack, Caps, CommandKind, Payload, RamOptions};
use serde::{Deserialize, Serialize};
use std::fmt;
use tantalum_rt::{Nanos, Stream};

/// Steps of a probability.
const STEPS: u64 = 1 << 20;

/// The parameters of a sampled device. All of them are keys of a TOML file; those with a default
/// may be left out. Percentages are of what the tables say.
///
/// ```
/// use tantalum_device::{
///     Block, BlockDevice, Data, DataMut, Durability, IoError, LatencyRow, Payload, SampledModel,
/// };
/// use tantalum_rt::{Nanos, Runtime};
///
/// let row = |command: &str, us: [u64; 3]| LatencyRow {
///     command: command.into(),
///     stream: None,
///     bytes: 4096,
///     us: us.into(), // the least, the median, the most
/// };
/// let rows = vec![row("read", [90, 100, 200]), row("write", [200, 250, 1000])];
/// let model = SampledModel::plain(4096, 1000, rows);
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let device = model.build(&rt, "usb", Payload::Stamps, None).unwrap();
/// let times = runtime.block_on(async move {
///     device.write(Block(0), Data::Stamps(&[1]), Durability::Normal).await?;
///     let write = rt.now();
///     device.read(Block(0), DataMut::Stamps(&mut [0])).await?;
///     Ok::<_, IoError>((write, rt.now() - write))
/// });
/// let (write, read) = times.unwrap().unwrap();
/// assert!((Nanos::from_micros(200)..=Nanos::from_millis(1)).contains(&write), "{write}");
/// assert!((Nanos::from_micros(90)..=Nanos::from_micros(200)).contains(&read), "{read}");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledModel {
    /// Bytes in a block: a power of two, 512 or more.
    ///
    /// *Source*: own choice.
    pub block_bytes: u32,
    /// How many blocks there are.
    ///
    /// *Source*: own choice.
    pub blocks: u64,
    /// What a completed write means.
    ///
    /// *Source*: own choice.
    pub ack: Ack,
    /// Whether what survives a cut is a prefix of what arrived.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub ordered: bool,
    /// One write of up to so many bytes is all or nothing.
    ///
    /// *Source*: own choice.
    pub atomic_bytes: u32,
    /// Commands that it carries out at the same time.
    ///
    /// *Source*: own choice.
    #[serde(default = "one")]
    pub queue_depth: u32,
    /// Commands that a volatile cache holds, at most.
    ///
    /// *Source*: own choice.
    #[serde(default = "cache")]
    pub cache_commands: usize,
    /// From power to the first command, ms.
    ///
    /// *Source*: own choice.
    #[serde(default)]
    pub start_ms: u64,
    /// How many sequential streams it tells apart, of reads and of writes each.
    ///
    /// *Source*: FlashLogging: two sequential streams are cheap.
    #[serde(default = "streams")]
    pub streams: usize,
    /// Bandwidth of a bus of its own, MB (1,000,000 bytes) each second.
    ///
    /// *Source*: FlashLogging: a bus of 60 MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_mb_s: Option<u64>,
    /// How much longer writes take that overlap recent ones.
    ///
    /// *Source*: FlashLogging: overlapping rewrites are up to 60 times slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// How long commands take.
    ///
    /// *Source*: FlashLogging: latencies by request size.
    pub latency: Vec<LatencyRow>,
    /// Single commands that take longer.
    ///
    /// *Source*: FlashLogging: outliers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlier: Vec<Outlier>,
    /// Times at which nothing ends.
    ///
    /// *Source*: own choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stall: Vec<Stall>,
    /// Seconds in which everything is faster or slower, one after the other.
    ///
    /// *Source*: own choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mode: Vec<Mode>,
}

fn one() -> u32 {
    1
}

fn cache() -> usize {
    4096
}

fn streams() -> usize {
    2
}

fn hundred() -> u64 {
    100
}

/// Whether a command begins where another one of its kind has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKind {
    /// Anywhere else.
    Random,
    /// At the end of one of the last few streams.
    Sequential,
}

/// A row of the latency tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyRow {
    /// The command: `read`, `write`, `fua`, `group`, `flush` or `discard`. Without rows of their
    /// own, forced writes use those of writes, and groups those of forced writes; flushes and
    /// discards take no time.
    ///
    /// *Source*: own choice.
    pub command: String,
    /// Of which streams; left out: of all that have no rows of their own.
    ///
    /// *Source*: FlashLogging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamKind>,
    /// For commands of so many bytes; of flushes: after so many bytes were written since the last
    /// one. Between two rows the latency is interpolated, above the last it grows with the size,
    /// below the first it is that of the first.
    ///
    /// *Source*: FlashLogging: a table by request size, interpolated.
    pub bytes: u64,
    /// The least latency, the most, and the quantiles at even steps in between, µs.
    ///
    /// *Source*: own choice.
    pub us: Vec<u64>,
}

/// Writes that share a block with one of the last few.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlap {
    /// How many writes count as the last.
    ///
    /// *Source*: own choice.
    pub recent: usize,
    /// How much longer they take: 6000 for 60 times.
    ///
    /// *Source*: FlashLogging: up to 60 times.
    pub percent: u64,
}

/// Single commands that take longer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outlier {
    /// Of which commands; left out: of all. Forced writes have those of writes, and groups those of
    /// forced writes, unless some are of them alone.
    ///
    /// *Source*: own choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// One of so many, by the dice.
    ///
    /// *Source*: FlashLogging: outliers.
    pub one_in: u64,
    /// How much longer, least and most, µs.
    ///
    /// *Source*: FlashLogging: outliers.
    pub us: [u64; 2],
}

/// Times at which nothing ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// From the end of one to the next, least and most, ms.
    ///
    /// *Source*: own choice.
    pub every_ms: [u64; 2],
    /// How long one lasts, least and most, ms.
    ///
    /// *Source*: own choice.
    pub lasts_ms: [u64; 2],
}

/// A state of the whole device that lasts for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mode {
    /// How often it is the next one, relative to the others.
    ///
    /// *Source*: own choice.
    pub weight: u64,
    /// How long it lasts, least and most, ms.
    ///
    /// *Source*: own choice.
    pub lasts_ms: [u64; 2],
    /// How long reads take in it.
    ///
    /// *Source*: own choice.
    #[serde(default = "hundred")]
    pub read_percent: u64,
    /// How long all other commands take in it.
    ///
    /// *Source*: own choice.
    #[serde(default = "hundred")]
    pub write_percent: u64,
}

/// The names of commands, for errors.
fn commands() -> String {
    format!("known are: {}", CommandKind::ALL.map(CommandKind::name).join(", "))
}

fn kind_of(name: &str) -> Option<CommandKind> {
    CommandKind::ALL.into_iter().find(|kind| kind.name() == name)
}

/// Kinds whose rows count for commands of this one: the first that has any.
fn stand_ins(kind: CommandKind) -> &'static [CommandKind] {
    use CommandKind::{Discard, Flush, Fua, Group, Read, Write};
    match kind {
        Read => &[Read],
        Write => &[Write],
        Fua => &[Fua, Write],
        Group => &[Group, Fua, Write],
        Flush => &[Flush],
        Discard => &[Discard],
    }
}

impl SampledModel {
    /// The outliers of this kind of command.
    pub(super) fn outliers(&self, kind: CommandKind) -> impl Iterator<Item = &Outlier> {
        let has_some = |kind: &&CommandKind| {
            self.outlier.iter().any(|o| o.command.as_deref() == Some(kind.name()))
        };
        let named = stand_ins(kind).iter().find(has_some).map(|kind| kind.name());
        self.outlier.iter().filter(move |o| match o.command.as_deref() {
            None => true,
            command => command == named,
        })
    }
}

/// What is wrong with a model: which key, and in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledFault {
    /// The key's parts, from the model's root; the place in a list is a number.
    pub key: Vec<String>,
    /// In one line.
    pub what: String,
}

impl SampledFault {
    fn at<K: ToString>(key: &[K], what: impl Into<String>) -> SampledFault {
        SampledFault { key: key.iter().map(ToString::to_string).collect(), what: what.into() }
    }

    /// Of a key in the member of a list.
    fn of(list: &str, place: usize, key: &str, what: impl Into<String>) -> SampledFault {
        SampledFault::at(&[list, &place.to_string(), key], what)
    }
}

impl fmt::Display for SampledFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sampled: {}", self.what)
    }
}

impl From<SampledFault> for String {
    fn from(fault: SampledFault) -> String {
        fault.to_string()
    }
}

/// Whether a range in the member of a list can be.
fn from_to(
    (list, place, key): (&str, usize, &str),
    range: [u64; 2],
    least: u64,
) -> Result<(), SampledFault> {
    match range[0] >= least && range[0] <= range[1] && range[1] <= 1_000_000_000_000 {
        true => Ok(()),
        false => Err(SampledFault::of(
            list,
            place,
            key,
            format!(
                "a {list}'s {key} = {range:?}: the first at least {least}, the second no less, at \
                 most 10^12"
            ),
        )),
    }
}

impl SampledModel {
    /// A device with these tables that does one command after the other, in blocks and atomic units
    /// of `block_bytes`; nothing out of the ordinary happens to it. What is acknowledged is on the
    /// medium.
    pub fn plain(block_bytes: u32, blocks: u64, latency: Vec<LatencyRow>) -> SampledModel {
        SampledModel {
            block_bytes,
            blocks,
            ack: Ack::OnMedia,
            ordered: false,
            atomic_bytes: block_bytes,
            queue_depth: one(),
            cache_commands: cache(),
            start_ms: 0,
            streams: streams(),
            bus_mb_s: None,
            overlap: None,
            latency,
            outlier: Vec::new(),
            stall: Vec::new(),
            mode: Vec::new(),
        }
    }

    /// Checks that a device can have these parameters.
    ///
    /// # Errors
    /// What is wrong, and with which key.
    pub fn check(&self) -> Result<(), SampledFault> {
        let wrong = |key: &str, what: String| Err(SampledFault::at(&[key], what));
        if !self.block_bytes.is_power_of_two() || !(512..=1 << 20).contains(&self.block_bytes) {
            let is = self.block_bytes;
            return wrong(
                "block_bytes",
                format!("block_bytes is {is}: a power of two, 512 to 1048576"),
            );
        }
        let at_least_one = [
            ("blocks", self.blocks),
            ("atomic_bytes", self.atomic_bytes.into()),
            ("queue_depth", self.queue_depth.into()),
            ("bus_mb_s", self.bus_mb_s.unwrap_or(1)),
        ];
        if let Some((name, _)) = at_least_one.iter().find(|p| p.1 == 0) {
            return wrong(name, format!("{name} must be at least 1"));
        }
        if self.blocks.checked_mul(self.block_bytes.into()).is_none() {
            let what = format!("blocks is {}: more than can be addressed", self.blocks);
            return wrong("blocks", what);
        }
        let at_most =
            [("queue_depth", self.queue_depth as usize, 65_536), ("streams", self.streams, 1024)];
        if let Some((name, is, most)) = at_most.into_iter().find(|(_, is, most)| is > most) {
            return wrong(name, format!("{name} is {is}, at most {most}"));
        }
        self.check_latencies()?;
        self.check_lists()?;
        match &self.overlap {
            Some(o) if o.percent < 100 || o.recent == 0 || o.recent > 4096 => {
                wrong("overlap", "overlap: percent is at least 100, recent 1 to 4096".into())
            }
            _ => Ok(()),
        }
    }

    fn check_lists(&self) -> Result<(), SampledFault> {
        for (i, outlier) in self.outlier.iter().enumerate() {
            if let Some(name) = outlier.command.as_deref().filter(|n| kind_of(n).is_none()) {
                let what = format!("an outlier's command is \"{name}\": {}", commands());
                return Err(SampledFault::of("outlier", i, "command", what));
            }
            if outlier.one_in == 0 {
                let what = "an outlier's one_in must be at least 1";
                return Err(SampledFault::of("outlier", i, "one_in", what));
            }
            from_to(("outlier", i, "us"), outlier.us, 0)?;
        }
        for (i, stall) in self.stall.iter().enumerate() {
            from_to(("stall", i, "every_ms"), stall.every_ms, 1)?;
            from_to(("stall", i, "lasts_ms"), stall.lasts_ms, 0)?;
        }
        for (i, mode) in self.mode.iter().enumerate() {
            from_to(("mode", i, "lasts_ms"), mode.lasts_ms, 1)?;
            if mode.weight == 0 || mode.weight > 1 << 32 {
                let what = "a mode's weight is 1 to 4294967296";
                return Err(SampledFault::of("mode", i, "weight", what));
            }
        }
        Ok(())
    }

    fn check_latencies(&self) -> Result<(), SampledFault> {
        for (i, row) in self.latency.iter().enumerate() {
            let LatencyRow { command, bytes, us, .. } = row;
            if kind_of(command).is_none() {
                let what = format!("a latency's command is \"{command}\": {}", commands());
                return Err(SampledFault::of("latency", i, "command", what));
            }
            let ascends = us.windows(2).all(|w| w[0] <= w[1]);
            if us.is_empty() || !ascends || us.iter().any(|us| *us > 1_000_000_000) {
                let what = format!(
                    "latency of {command}, {bytes} bytes: us must ascend, with at least one number \
                     and none above 10^9"
                );
                return Err(SampledFault::of("latency", i, "us", what));
            }
            if *bytes == 0 {
                let what = format!("latency of {command}: bytes must be at least 1");
                return Err(SampledFault::of("latency", i, "bytes", what));
            }
            let same = |other: &&LatencyRow| {
                (&other.command, other.stream, other.bytes) == (command, row.stream, *bytes)
            };
            if self.latency.iter().filter(same).count() > 1 {
                let what = format!("two latencies of {command}, {bytes} bytes");
                return Err(SampledFault::of("latency", i, "bytes", what));
            }
        }
        for kind in [CommandKind::Read, CommandKind::Write] {
            if !self.latency.iter().any(|row| row.command == kind.name()) {
                let what = format!("there is no latency of a {kind}");
                return Err(SampledFault::at(&["latency"], what));
            }
        }
        Ok(())
    }

    /// How long commands of so many bytes take by the tables: the least, the most, and the quantiles
    /// at `steps` even steps in between. Outliers, stalls, modes and the bus are not in it.
    ///
    /// ```
    /// # use tantalum_device::*;
    /// # use tantalum_rt::Nanos;
    /// let row = |bytes, us: [u64; 2]| {
    ///     LatencyRow { command: "write".into(), stream: None, bytes, us: us.into() }
    /// };
    /// let model = SampledModel::plain(512, 1000, vec![row(512, [100, 200]), row(1536, [200, 400])]);
    /// let times = model.quantiles(CommandKind::Write, StreamKind::Sequential, 1024, 2);
    /// assert_eq!(times, [150, 225, 300].map(Nanos::from_micros));
    /// ```
    pub fn quantiles(
        &self,
        kind: CommandKind,
        stream: StreamKind,
        bytes: u64,
        steps: u32,
    ) -> Vec<Nanos> {
        let (tables, steps) = (Tables::of(self), u64::from(steps.max(1)));
        let luck = |i: u64| i * STEPS / steps;
        (0..=steps).map(|i| Nanos(tables.look_up(kind, stream, bytes, luck(i)))).collect()
    }

    /// The options of the RAM device that it is, except for its times.
    pub(super) fn ram_options(&self, name: &str, payload: Payload) -> RamOptions {
        let caps = Caps {
            block_size: self.block_bytes,
            blocks: self.blocks,
            thin: false,
            ack: self.ack,
            flush: true,
            ordered: self.ordered,
            atomic_unit: self.atomic_bytes,
            atomic_group: None,
            payload,
        };
        RamOptions {
            start: Nanos::from_millis(self.start_ms),
            cache_commands: self.cache_commands,
            stream: name.to_string(),
            ..RamOptions::new(caps)
        }
    }
}

/// A row as it is looked up: a size, and quantiles in ns.
type Row = (u64, Vec<u64>);

/// Of each kind and stream the rows by size.
pub(super) struct Tables([[Vec<Row>; 2]; 6]);

impl Tables {
    pub fn of(model: &SampledModel) -> Tables {
        let rows = |kind: CommandKind, stream: Option<StreamKind>| -> Vec<Row> {
            let of = |row: &&LatencyRow| row.command == kind.name() && row.stream == stream;
            let ns = |us: &[u64]| us.iter().map(|us| us * 1000).collect();
            let all = model.latency.iter().filter(of);
            let mut rows: Vec<Row> = all.map(|row| (row.bytes, ns(&row.us))).collect();
            rows.sort_by_key(|row| row.0);
            rows
        };
        // What has no rows of its own has those of another stream, or of another kind.
        let find = |kind: CommandKind, stream: StreamKind| {
            let other = match stream {
                StreamKind::Random => StreamKind::Sequential,
                StreamKind::Sequential => StreamKind::Random,
            };
            let streams = [Some(stream), None, Some(other)];
            let mut all = stand_ins(kind)
                .iter()
                .flat_map(|kind| streams.iter().map(|stream| rows(*kind, *stream)));
            all.find(|rows| !rows.is_empty()).unwrap_or_default()
        };
        Tables(CommandKind::ALL.map(|kind| {
            [StreamKind::Random, StreamKind::Sequential].map(|stream| find(kind, stream))
        }))
    }

    /// A latency, ns.
    pub fn draw(
        &self,
        kind: CommandKind,
        stream: StreamKind,
        bytes: u64,
        dice: &mut Stream,
    ) -> u64 {
        self.look_up(kind, stream, bytes, dice.below(STEPS + 1))
    }

    /// The latency, ns, that `luck` of [`STEPS`] do not exceed.
    fn look_up(&self, kind: CommandKind, stream: StreamKind, bytes: u64, luck: u64) -> u64 {
        let rows = &self.0[kind.index()][stream as usize];
        let above = rows.partition_point(|row| row.0 < bytes);
        match (above.checked_sub(1).map(|i| &rows[i]), rows.get(above)) {
            (None, None) => 0,
            (None, Some(first)) => quantile(&first.1, luck),
            (Some(last), None) => {
                let grown = u128::from(quantile(&last.1, luck)) * u128::from(bytes);
                (grown / u128::from(last.0)).min(u128::from(u64::MAX)) as u64
            }
            (Some(below), Some(above)) => {
                let (a, b) = (quantile(&below.1, luck), quantile(&above.1, luck));
                between(a, b, bytes - below.0, above.0 - below.0)
            }
        }
    }
}

/// From `a` to `b`, `part` of `whole` of the way.
fn between(a: u64, b: u64, part: u64, whole: u64) -> u64 {
    let (part, whole) = (i128::from(part), i128::from(whole));
    (i128::from(a) + (i128::from(b) - i128::from(a)) * part / whole) as u64
}

/// The quantile of ascending numbers at even steps of probability.
fn quantile(ns: &[u64], luck: u64) -> u64 {
    let steps = ns.len() as u64 - 1;
    let at = luck * steps;
    let i = (at / STEPS) as usize;
    match ns.get(i + 1) {
        Some(next) => between(ns[i], *next, at % STEPS, STEPS),
        None => ns[i],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_met_and_interpolated() {
        let ns = [100, 200, 1000];
        assert_eq!(quantile(&ns, 0), 100);
        assert_eq!(quantile(&ns, STEPS / 4), 150);
        assert_eq!(quantile(&ns, STEPS / 2), 200);
        assert_eq!(quantile(&ns, STEPS * 3 / 4), 600);
        assert_eq!(quantile(&ns, STEPS), 1000);
        assert_eq!(quantile(&[7], STEPS / 3), 7);
    }
}
