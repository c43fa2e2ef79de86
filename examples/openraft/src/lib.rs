//! The log store of a Raft node on the flash log of Tantalum: [`FlashLog`] for openraft 0.9.
//!
//! Copy `error.rs`, `index.rs`, `record.rs`, `store.rs` and `writer.rs`. `kv.rs` and `main.rs` are
//! an application: a small store of words, whose state machine is in memory.
//!
//! Raft wants a log with an index, whose tail can be cut off and whose beginning can be given up,
//! and a vote. The flash log has one operation that changes it: append a record. So each change is
//! a record, and what the store knows is what follows from the records, read in order:
//!
//! 1. **One stream.** Entries, cuts of the tail and votes go to one flash log, in the order of the
//!    calls. After a power loss a prefix of it is there, so a change is there only with everything
//!    before it. openraft calls for that order ("all write-IO must be serialized").
//! 2. **Four kinds of records**, each with a version (`record.rs`): an *entry*; a *cut*, after
//!    which entries from an index on do not count; a *state*: vote, committed id and purged id
//!    together; a *purge*: a state after which entries up to its purged id do not count. The newest
//!    state or purge counts alone. So keeping vote and ids alive takes one record.
//! 3. **Consecutive.** The index of an entry is one more than that of the last entry that counts.
//!    If none counts, it may be any: openraft knows where its log goes on. A call or a record that
//!    breaks this is an error.
//! 4. **The index in memory** (`index.rs`) has id and LSN of each entry that counts. Opening builds
//!    it from the records from the checkpoint on, by the same calls that change it later.
//! 5. **A purge moves the checkpoint.** First the record of the purge is durable; only then the
//!    checkpoint moves, to the first entry that counts, or to that record if none does. Entries
//!    that count lie in the order of their indexes, so nothing before that entry is needed but vote
//!    and ids, which have just been written behind it. A crash in between leaves the longer log,
//!    and the purge cuts off the same entries.
//! 6. **Acknowledged is durable.** openraft's callback for an append, and the return of
//!    `save_vote`, `truncate` and `purge`, come after the log has said that the record is durable.
//!    `save_committed` does not wait: an older committed id is true as well, and by 1. it is never
//!    newer than the entries.
//! 7. **The runtime never waits for I/O.** A thread of the store (`writer.rs`) appends and waits.
//!    It takes everything that is in its queue at once and waits once: that is the group commit.
//!    What it has not written is in memory, so an entry can be read when `append` has returned.
//! 8. **Bounded memory.** What is durable is dropped, the oldest first, beyond
//!    [`StoreOptions::memory`] bytes, and read from the flash log by LSN afterwards. Followers that
//!    keep up, and the state machine, read new entries; so they read memory. What is not durable
//!    yet is in memory beyond that bound; openraft 0.9 has one append under way. Each entry that is
//!    not purged takes some 80 bytes of the index.
//! 9. **A purge always finds room.** An entry is refused ("the log is full") while room is left for
//!    votes, and a vote while room is left for purges. Without that a full log could never be
//!    purged. To openraft each failed write is fatal; a node that was started again can purge.
//! 10. **After a failed write nothing is taken and nothing is read** until the store is opened
//!     again: memory may have more than the log.

mod error;
mod index;
pub mod kv;
mod record;
mod store;
mod writer;

pub use error::OpenError;
pub use store::{FlashLog, FlashReader, StoreOptions};
