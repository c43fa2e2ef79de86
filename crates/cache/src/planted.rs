//! Defects planted on purpose, to show that they are found: only with the feature `planted`,
//! and then only what a test has asked for on its own thread.
//!
//! 1. Without the feature nothing of this is compiled: `planted!` is `false`.
//! 2. Each defect is one that a cache could really have, in one place of it.

tantalum_device::defects! {
    /// A restart does not compare frames with their checksums.
    ChecksumNotCompared,
    /// A restart looks only at the batches of the segment that was being filled.
    OneSegmentRescanned,
    /// A changed page is dropped because flash has a copy.
    FdirtyForgotten,
    /// A second chance is given though a newer version came while the batch was read.
    SecondChanceOvertakes,
    /// A batch is written over one that is not released.
    NoSpareBatch,
    /// A superseded version goes though the newer one is not durable.
    SupersededDroppedEarly,
    /// A batch is released before the slow store was flushed.
    FrontBeforeSlowFlush,
    /// Forgetting a page leaves no tombstone.
    TombstoneForgotten,
    /// A dirty page goes past the cache without a tombstone.
    PastWithoutTombstone,
    /// The clean mark stays while pages are written.
    CleanMarkLeft,
    /// What a restart rebuilds counts as clean.
    RebuiltTakenForClean,
    /// With write-through a flush leaves out versions that were superseded while it went on.
    SupersededNotCleaned,
    /// Pages that leave the memory of a volume's host enter whatever is done to them meanwhile.
    ExitsUnclaimed,
    /// A descriptor vouches for batches that are in flight.
    VouchesInFlight,
}
