//! Every byte on flash: addresses, the words beside a page, and what lies in pages of metadata.

pub(crate) mod summary;
pub(crate) mod words;
