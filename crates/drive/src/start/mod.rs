//! An ordinary start on what is on flash; recovery is nothing else.

pub(crate) mod dump_making;
pub(crate) mod dump_zone;
pub(crate) mod flagged_groups;
pub(crate) mod journal_replay;
pub(crate) mod map_load;
pub(crate) mod phases;
pub(crate) mod recover;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod rest;
pub(crate) mod salvage;
pub(crate) mod scan;
pub(crate) mod settle;
