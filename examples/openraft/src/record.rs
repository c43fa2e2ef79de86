//! What the records of the store look like.
//!
//! ```text
//! 0  4  "RAFT"
//! 4  1  version: 1
//! 5  1  1: entry; 2: cut; 3: state; 4: purge
//! 6  .  its content in postcard's format
//! ```

use crate::OpenError;
use openraft::{LogId, NodeId, RaftTypeConfig, Vote};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tantalum_log::Lsn;

/// The version of the records that are written.
pub(crate) const VERSION: u8 = 1;
const MAGIC: &[u8; 4] = b"RAFT";
const HEAD: usize = 6;

const ENTRY: u8 = 1;
const CUT: u8 = 2;
const STATE: u8 = 3;
const PURGE: u8 = 4;

/// What Raft keeps beside its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(bound = "")]
pub(crate) struct State<N: NodeId> {
    pub vote: Option<Vote<N>>,
    pub committed: Option<LogId<N>>,
    pub purged: Option<LogId<N>>,
}

impl<N: NodeId> Default for State<N> {
    fn default() -> State<N> {
        State { vote: None, committed: None, purged: None }
    }
}

/// A record.
pub(crate) enum Record<C: RaftTypeConfig> {
    Entry(C::Entry),
    /// Entries from this index on do not count any more.
    Cut(u64),
    State(State<C::NodeId>),
    /// A state; entries up to its purged id do not count any more.
    Purge(State<C::NodeId>),
}

/// # Errors
/// What the entry's type says.
pub(crate) fn entry<E: Serialize>(entry: &E) -> Result<Vec<u8>, postcard::Error> {
    encode(ENTRY, entry)
}

/// # Errors
/// What postcard says.
pub(crate) fn cut(since: u64) -> Result<Vec<u8>, postcard::Error> {
    encode(CUT, &since)
}

/// # Errors
/// What the type of ids says.
pub(crate) fn state<N: NodeId>(state: &State<N>) -> Result<Vec<u8>, postcard::Error> {
    encode(STATE, state)
}

/// # Errors
/// What the type of ids says.
pub(crate) fn purge<N: NodeId>(state: &State<N>) -> Result<Vec<u8>, postcard::Error> {
    encode(PURGE, state)
}

fn encode<T: Serialize>(kind: u8, value: &T) -> Result<Vec<u8>, postcard::Error> {
    let head = [MAGIC.as_slice(), &[VERSION, kind]].concat();
    postcard::to_extend(value, head)
}

/// The record in `bytes`, which lie at `lsn`.
///
/// # Errors
/// [`OpenError::Foreign`], [`OpenError::Newer`], [`OpenError::Undecodable`].
pub(crate) fn decode<C>(lsn: Lsn, bytes: &[u8]) -> Result<Record<C>, OpenError>
where
    C: RaftTypeConfig,
    C::Entry: DeserializeOwned,
{
    let (head, content) = bytes.split_at_checked(HEAD).ok_or(OpenError::Foreign(lsn))?;
    if !head.starts_with(MAGIC) || head[4] == 0 {
        return Err(OpenError::Foreign(lsn));
    }
    match (head[4], head[5]) {
        (VERSION, ENTRY) => Ok(Record::Entry(content_of(lsn, content)?)),
        (VERSION, CUT) => Ok(Record::Cut(content_of(lsn, content)?)),
        (VERSION, STATE) => Ok(Record::State(content_of(lsn, content)?)),
        (VERSION, PURGE) => Ok(Record::Purge(content_of(lsn, content)?)),
        (VERSION, kind) => Err(OpenError::Undecodable { lsn, what: format!("its kind is {kind}") }),
        (version, _) => Err(OpenError::Newer { lsn, version }),
    }
}

fn content_of<T: DeserializeOwned>(lsn: Lsn, bytes: &[u8]) -> Result<T, OpenError> {
    let undecodable = |what: String| OpenError::Undecodable { lsn, what };
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(undecodable(format!("{} bytes too many", rest.len()))),
        Err(e) => Err(undecodable(e.to_string())),
    }
}
