//! Every byte on flash: addresses, the words beside a page, and what lies in pages of metadata.

pub(crate) mod dump_end;
pub(crate) mod entries;
pub(crate) mod summary;
pub(crate) mod unit_journal;
pub(crate) mod words;
