//! Defects planted on purpose, to show that they are found: only with the feature `planted`,
//! and then only what a test has asked for on its own thread.
//!
//! 1. Without the feature nothing of this is compiled: `planted!` is `false`.
//! 2. Each defect is one that a drive could really have, in one place of the firmware.

tantalum_device::defects! {
    /// One changed entry of each commit is not written to the journal.
    JournalSkipsEntry,
    /// A commit counts as durable before its programs have ended.
    DurableEarly,
    /// The map names a page before its program has ended.
    MapEarly,
    /// The emergency dump leaves out pages that wait for an older copy.
    DumpSkipsHeld,
    /// The emergency dump leaves out where entries of the journal were spilled.
    DumpSkipsSpilled,
    /// That a unit was erased, which spilled entries name, is not entered.
    ForgottenNotEntered,
    /// The emergency dump leaves out one changed map entry.
    DumpSkipsEntry,
    /// Recovery erases the dump that it replays before the next one is possible.
    DumpErasedEarly,
    /// Recovery forgets the last page of the dump.
    ReplaySkipsPage,
    /// A write is acknowledged while its data are still on their way to the buffer.
    AckEarly,
    /// The collector maps what it moved though the map has changed meanwhile.
    MoveResurrects,
    /// A unit is erased though what superseded its sectors is not durable yet.
    EraseEarly,
    /// What a sector held when a command on a part of it arrived counts though it has changed.
    RestUnchecked,
    /// A discard of a part of a sector discards all of it.
    DiscardTakesSector,
    /// A discard is not journalled.
    DiscardForgotten,
    /// A write with forced unit access does not store its mapping.
    FuaWithoutMap,
    /// A write with forced unit access does not wait for its pages that are being programmed.
    FuaSkipsFlying,
    /// A write with forced unit access does not wait for pages that an older copy holds back.
    FuaSkipsHeld,
    /// A flush does not wait for pages that are being programmed.
    FlushSkipsFlying,
    /// Recovery takes the older of two images of a map page.
    OlderImage,
    /// An atomic unit is admitted in two steps.
    SplitAdmission,
    /// A program that failed counts as done.
    FailureIgnored,
    /// The oldest unit of the map log is erased though it has records that count.
    LogErasedEarly,
    /// What changes while its map page is being stored is not dirty afterwards.
    DirtyForgotten,
    /// A newer copy does not wait for the older one that is being programmed.
    CopyOvertakes,
    /// A page that is discarded while it is being programmed is mapped all the same.
    DiscardOvertaken,
    /// Recovery takes units whose erase was torn for erased.
    TornErase,
    /// Entries that a dump brought back count as stored, though the next dump clears it.
    ReplayedIsStored,
    /// A unit that is going to be written is not entered in the journal of units.
    UnitNotEntered,
    /// What was out of date when it landed is not entered there.
    StaleNotEntered,
    /// A page of an atomic group is mapped before all of the group is on flash.
    GroupMappedEarly,
    /// The record of a group is written in two parts.
    GroupRecordedInParts,
    /// A group completes before its record is on flash.
    GroupAckedEarly,
    /// A group is admitted extent by extent.
    GroupAdmittedInParts,
    /// What collection moves of a group before it is whole is looked for where it was.
    GroupMoveForgotten,
    /// A write of a page of a group does not wait for the group.
    GroupOvertaken,
    /// The last page of a group is not the one whose flag says so.
    FlagOnWrongPage,
    /// A restart takes what is left of a group for the beginning of the next.
    FlagGroupsMixed,
    /// A restart takes numbers of pages again that what is left of a group has.
    FlagNumberReused,
    /// A summary has what is beside the first page of its unit in place of the last one's.
    SummaryStale,
    /// A summary is written though the drive has not seen all pages of the unit written.
    SummaryOfPart,
    /// What a summary tells counts for rows that failed, too.
    SummaryCountsFailed,
    /// A restart gives units free that the journal of units names: to erase one takes an entry.
    VoidUnitsFreed,
    /// A unit that failed is not marked as bad in the map.
    BadForgotten,
}
