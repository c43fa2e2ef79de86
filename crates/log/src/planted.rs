//! Defects planted on purpose, to show that they are found: only with the feature `planted`,
//! and then only what a test has asked for on its own thread.
//!
//! 1. Without the feature nothing of this is compiled: `planted!` is `false`.
//! 2. Each defect is one that a log could really have, in one place of it.

tantalum_device::defects! {
    /// A request is acknowledged though an earlier one is still in flight.
    AckedBeforeEarlier,
    /// Of two blocks of one LSN the shorter wins.
    ShorterBlockWins,
    /// What an earlier epoch had in flight counts beyond the end of that epoch.
    StaleEpochCounts,
    /// A new epoch is recorded on one device only.
    EpochOnOneDevice,
    /// Recovery reads no second streams.
    SecondStreamSkipped,
    /// What was written to the archive counts before it was flushed.
    ArchiveBeforeFlush,
    /// A section is written again though the checkpoint has not passed it.
    SectionReusedEarly,
    /// The watermark says what was sent, not what was acknowledged.
    WatermarkAhead,
    /// Two copies on one device count as two.
    OneDeviceTwice,
    /// A volume gives up records though the backing was not flushed.
    DestagedWithoutFlush,
}
