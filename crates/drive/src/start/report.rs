//! What a start found, and why it may fail.

use crate::firmware::Firmware;
use crate::format::entries::{entry_name, unit_entry};
use crate::format::words::{Lpn, Ppa};
use tantalum_nand::{OpError, Unit};
use tantalum_rt::Nanos;

/// What a restart took and found.
///
/// ```
/// use tantalum_device::{Block, BlockDevice, Data, Durability, IoError, Payload, PowerCycle};
/// use tantalum_drive::{Design, Drive};
/// use tantalum_rt::{Nanos, Runtime};
///
/// let small = "geometry.blocks = 64\ngeometry.pages = 64".parse()?;
/// let design = Design::preset("durassd")?.with_overrides(&small)?;
/// let mut runtime = Runtime::virtual_time(1);
/// let drive = Drive::new(&runtime.handle(), &design, Payload::Stamps)?;
/// let plug = drive.clone();
/// runtime.block_on(async move {
///     plug.power_on().await?;
///     assert!(plug.last_recovery().unwrap().blank);
///     plug.device().write(Block(0), Data::Stamps(&[1; 8]), Durability::Normal).await?;
///     plug.cut();
///     plug.off().await;
///     plug.power_on().await?;
///     plug.settled().await;
///     Ok::<_, IoError>(())
/// })??;
/// let report = drive.last_recovery().unwrap();
/// assert!(!report.blank && !report.salvaged);
/// assert_eq!(report.dump_pages, 8); // what was acknowledged, and in the buffer
/// assert!(report.total > Nanos::ZERO);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// From power to the first command.
    pub total: Nanos,
    /// From power until all is known and the drive programs again. Zero until then.
    pub whole: Nanos,
    /// Nothing had ever been written: it is the first start.
    pub blank: bool,
    /// Whether commands are taken before all is known: `scan`, `map_load` and `space` are not
    /// part of `total` then.
    pub early: bool,
    /// Looking for the emergency dump.
    pub find: Nanos,
    /// Reading the first page of every other erase unit.
    pub scan: Nanos,
    /// Reading the map log.
    pub map_load: Nanos,
    /// Reading the emergency dump, and what its journal names.
    pub dump_replay: Nanos,
    /// Erasing the next dump area, if it is not.
    pub areas: Nanos,
    /// Finding where open units end.
    pub space: Nanos,
    /// Marking on flash that the next dump is due.
    pub mark: Nanos,
    /// Map pages read.
    pub map_pages: u64,
    /// Deltas of the map log replayed.
    pub deltas: u64,
    /// Changed map entries found in the dump.
    pub dump_entries: u64,
    /// Buffered pages found in the dump.
    pub dump_pages: u64,
    /// Of `dump_replay`: reading what is beside the pages that the journal of units names.
    pub scanned: Nanos,
    /// Those pages.
    pub scanned_pages: u64,
    /// Entries of the journal of units.
    pub journal_entries: u64,
    /// There was no complete dump: the writes acknowledged last may be lost.
    pub salvaged: bool,
    /// Map entries that a salvage found on flash.
    pub salvaged_entries: u64,
}

/// Why a drive does not start. [`Drive::last_failure`](crate::Drive::last_failure) has it.
///
/// ```
/// use tantalum_drive::RecoveryError;
///
/// /// Whether what is on flash is whole, so that a start without the dump loses only what that had.
/// fn can_be_salvaged(error: &RecoveryError) -> bool {
///     matches!(error, RecoveryError::DumpLost { .. })
/// }
/// assert!(can_be_salvaged(&RecoveryError::DumpLost { number: 3 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The flash array refused an operation.
    #[error(transparent)]
    Medium(#[from] OpError),
    /// The dump that was due is not complete. [`crate::Drive::salvage`] starts without it.
    #[error(
        "the emergency dump {number} is not complete, so the map on flash is out of date, and what \
         was only in the drive's memory is lost"
    )]
    DumpLost {
        /// Its number; 0 if there is none at all.
        number: u64,
    },
    /// What is on flash contradicts itself.
    #[error("the flash array's content is damaged: {0}")]
    Damaged(String),
}

/// What to do without the dump that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutDump {
    /// The drive does not start.
    Refuse,
    /// The drive is salvaged.
    Salvage,
}

/// Whether an entry of the map can be one of this drive.
pub(crate) fn check_entry(fw: &Firmware, lpn: Lpn, to: Option<Ppa>) -> Result<(), RecoveryError> {
    let g = &fw.design.geometry;
    let (logical, unit) = (fw.layout.logical, |n| unit_entry(fw.layout.logical, Unit(n)).0);
    let is_mark = (unit(0)..=unit(g.units())).contains(&lpn.0);
    if (lpn.0 < logical || is_mark) && to.is_none_or(|p| u64::from(p.0) < g.sectors()) {
        return Ok(());
    }
    let entry = entry_name(fw.layout.logical, g.units(), lpn);
    let place = to.map_or("nowhere".into(), |p| format!("at sector {} of {}", p.0, g.sectors()));
    Err(RecoveryError::Damaged(format!("the map says of {entry} that it is {place}")))
}
