//! What is answered, as it travels. Times are nanoseconds: of the drive's clock where the name says
//! nothing else, and of real time where it says `real`.

use serde::{Deserialize, Serialize};

/// How far a drive has power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// None at all.
    Off,
    /// It starts, and takes no commands yet.
    Starting,
    /// It takes commands.
    On,
    /// The host's is gone; what the capacitors allow is done.
    Dying,
}

/// What became of a cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutReport {
    /// What the drive's power was before. Only one that was [`Power::On`] had anything to lose.
    pub was: Power,
    /// Whether what the drive has acknowledged is to survive without a flush.
    pub acknowledged_is_safe: bool,
    /// Whether capacitors protect its memory.
    pub protected: bool,
    /// Pages of 4 KiB that lay in the write buffer.
    pub buffered_pages: u64,
    /// Entries of the map (or of the journal of units) that were in memory alone.
    pub unstored_entries: u64,
    /// Of a protected drive that took commands: what its capacitors did.
    pub discharge: Option<Discharge>,
    /// Acknowledged blocks of 4 KiB that are lost, at most: what was not flushed of a drive whose
    /// cache is volatile, or what an incomplete dump should have had. 0: none is.
    pub lost_blocks_at_most: u64,
    /// Real time from the cut until the drive was off.
    pub real_ns: u64,
}

/// What capacitors did after a cut.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Discharge {
    /// Whether the emergency dump is complete, or none was needed.
    pub complete: bool,
    /// Joules that there were.
    pub joules_there: f64,
    /// Joules that were to be drawn for what was protected at that moment, as the energy model
    /// counts it.
    pub joules_needed: f64,
    /// Joules that were drawn.
    pub joules_drawn: f64,
    /// Joules that were missing to finish what was under way, if the charge was gone before.
    pub joules_missing: f64,
    /// From the cut until the drive was off.
    pub took_ns: u64,
}

/// What a restart took and found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestoreReport {
    /// What the drive's power was before; one that was [`Power::On`] was left alone.
    pub was: Power,
    /// It started without the dump that was due: what was acknowledged last may be lost.
    pub salvaged: bool,
    /// Entries of the map that were found out again by that.
    pub salvaged_entries: u64,
    /// Buffered pages that were found in the dump.
    pub dump_pages: u64,
    /// Map entries, or entries of the journal of units, that were found in it.
    #[serde(default)]
    pub dump_entries: u64,
    /// Phases of the recovery, in their order.
    pub phases: Vec<Phase>,
    /// From power to the first command.
    pub ready_ns: u64,
    /// The same in real time.
    pub real_ready_ns: u64,
    /// From power until all is known and the drive programs again.
    pub whole_ns: u64,
    /// Real time from the request to the answer, with what is in front of the drive.
    pub real_ns: u64,
    /// What those in front of the drive did, in lines.
    pub notes: Vec<String>,
}

/// A phase of a recovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// What it took.
    pub ns: u64,
}

/// How a drive is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Version of the program that lets it run.
    pub program: String,
    /// The process.
    pub pid: u32,
    /// The image; `None` for a drive in memory.
    pub image: Option<String>,
    /// The name of its design.
    pub design: String,
    /// Bytes that it promises.
    pub capacity_bytes: u64,
    /// Whether capacitors protect its memory.
    pub protected: bool,
    /// Whether what it acknowledges survives a power loss without a flush.
    pub acknowledged_is_safe: bool,
    /// The seed of its runtime.
    pub seed: u64,
    /// Real seconds for each second of its clock.
    pub time_scale: f64,
    /// Its power.
    pub power: Power,
    /// Its life is over: it can only be read.
    pub worn_out: bool,
    /// Its clock.
    pub now_ns: u64,
    /// Real time since the process has it.
    pub real_now_ns: u64,
    /// How often its power was cut since then, by this process.
    pub cuts: u64,
    /// What came of the last cut.
    pub last_cut: Option<CutReport>,
    /// What the last restart took.
    pub last_restore: Option<RestoreReport>,
    /// Why it does not start, or not to the end.
    pub failure: Option<String>,
}

/// What a drive has done, and what is in it now.
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
    /// What the drive counts itself.
    pub drive: DriveCounts,
    /// The write buffer.
    pub buffer: Buffer,
    /// Of the map, what is in memory alone.
    pub map: MapMemory,
    /// Erase units by what they are there for; `None` without power.
    pub units: Option<Units>,
    /// How worn they are; `None` without power.
    pub wear: Option<Wear>,
    /// Of a protected drive: what a cut would take now; `None` without power.
    pub energy: Option<Energy>,
    /// What cuts and dumps came to.
    pub outages: Outages,
    /// The clients of a server; `None` if the drive is not served as a network block device.
    #[serde(default)]
    pub clients: Option<Clients>,
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

/// Bounds of latencies, from 1 µs to 10 s in steps of 1, 2 and 5, as nanoseconds of the drive's clock.
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

/// What the drive counts itself, since the process has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveCounts {
    /// Bytes written by the host.
    pub host_write_bytes: u64,
    /// Bytes read by the host.
    pub host_read_bytes: u64,
    /// Bytes of pages programmed, for whatever reason.
    pub flash_program_bytes: u64,
    /// Bytes of sectors moved by collection.
    pub moved_bytes: u64,
    /// Of these, moved in idle times.
    pub moved_idle_bytes: u64,
    /// Of these, moved to level wear.
    pub levelled_bytes: u64,
    /// Bytes of pages programmed with the map.
    pub map_bytes: u64,
    /// Bytes of pages programmed in emergency dumps.
    pub dump_bytes: u64,
    /// Read operations of the flash array.
    pub flash_reads: u64,
    /// Erase operations.
    pub erases: u64,
    /// Writes refused for want of space.
    pub refused_writes: u64,
    /// Time that commands waited for room in the buffer, summed over commands.
    pub buffer_wait_ns: u64,
    /// Time that flushers waited for a free erase unit, summed over dies.
    pub space_wait_ns: u64,
    /// Bytes programmed for each byte written by the host; 0 before the first.
    pub write_amplification: f64,
}

/// A write buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Pages of 4 KiB that it can hold.
    pub pages: u64,
    /// Those that it holds.
    pub used: u64,
}

/// What of the map is in memory alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapMemory {
    /// Entries that may be, of the map or of the journal of units.
    pub entries: u64,
    /// Those that are.
    pub unstored: u64,
    /// Pages of 4 KiB that are mapped; 0 without power.
    pub mapped_pages: u64,
}

/// Erase units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Units {
    /// Free.
    pub free: u64,
    /// The fewest that were since the last start.
    pub free_min: u64,
    /// Written to.
    pub open: u64,
    /// Full of data, some of it perhaps superseded, or on the way there or from there.
    pub full: u64,
    /// Of the map log.
    pub map: u64,
    /// Kept for emergency dumps.
    pub dump: u64,
    /// Bad.
    pub bad: u64,
}

/// Erase counts of units that are not bad nor kept for dumps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// The lowest.
    pub min: u64,
    /// The highest.
    pub max: u64,
    /// The mean.
    pub mean: f64,
    /// Erases that a unit can take; 0: any number.
    pub endurance: u64,
}

/// Energy, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// What is there.
    pub there_j: f64,
    /// What a cut would take now, with operations in flight at their worst.
    pub needed_j: f64,
    /// What a cut can take at worst.
    pub worst_j: f64,
}

/// What all cuts came to, and all dumps of a protected drive: also that which its start made of what a
/// killed process had left, and which is no cut of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outages {
    /// As in [`StatusReport::cuts`].
    pub cuts: u64,
    /// Dumps that were not complete.
    pub incomplete: u64,
    /// The most joules that a dump drew.
    pub most_drawn_j: f64,
    /// The longest that one took until the drive was off.
    pub longest_ns: u64,
}
