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
