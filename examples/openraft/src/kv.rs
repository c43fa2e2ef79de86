//! An application: words by name. Its state machine and snapshots are in memory, so it starts from
//! the log each time.

use openraft::storage::{RaftStateMachine, Snapshot};
use openraft::{
    BasicNode, Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, SnapshotMeta,
    StorageError, StorageIOError, StoredMembership,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex, MutexGuard};

/// Gives a name a word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// The name.
    pub name: String,
    /// The word.
    pub word: String,
}

/// The word that the name had before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before(pub Option<String>);

openraft::declare_raft_types!(
    /// The types of the application.
    pub Words: D = Set, R = Before, NodeId = u64, Node = BasicNode, Entry = Entry<Words>,
        SnapshotData = Cursor<Vec<u8>>
);

/// What was applied, and what it led to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Applied {
    last: Option<LogId<u64>>,
    membership: StoredMembership<u64, BasicNode>,
    words: BTreeMap<String, String>,
}

#[derive(Default)]
struct Memory {
    applied: Applied,
    snapshot: Option<(SnapshotMeta<u64, BasicNode>, Vec<u8>)>,
}

/// The state machine. A clone is the same one.
#[derive(Clone, Default)]
pub struct StateMachine {
    memory: Arc<Mutex<Memory>>,
}

impl StateMachine {
    /// The word of a name.
    pub fn get(&self, name: &str) -> Option<String> {
        self.memory().applied.words.get(name).cloned()
    }

    /// All words by name.
    pub fn words(&self) -> BTreeMap<String, String> {
        self.memory().applied.words.clone()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl RaftSnapshotBuilder<Words> for StateMachine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Words>, StorageError<u64>> {
        let mut memory = self.memory();
        let applied = &memory.applied;
        let bytes =
            postcard::to_stdvec(applied).map_err(|e| StorageIOError::read_state_machine(&e))?;
        let snapshot_id = applied.last.map_or("empty".to_string(), |id| id.to_string());
        let (last_log_id, last_membership) = (applied.last, applied.membership.clone());
        let meta = SnapshotMeta { last_log_id, last_membership, snapshot_id };
        memory.snapshot = Some((meta.clone(), bytes.clone()));
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}

impl RaftStateMachine<Words> for StateMachine {
    type SnapshotBuilder = StateMachine;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, BasicNode>), StorageError<u64>> {
        let memory = self.memory();
        Ok((memory.applied.last, memory.applied.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Before>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Words>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut memory = self.memory();
        let applied = &mut memory.applied;
        let mut apply = |entry: Entry<Words>| {
            applied.last = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => Before(None),
                EntryPayload::Normal(set) => Before(applied.words.insert(set.name, set.word)),
                EntryPayload::Membership(membership) => {
                    applied.membership = StoredMembership::new(Some(entry.log_id), membership);
                    Before(None)
                }
            }
        };
        Ok(entries.into_iter().map(&mut apply).collect())
    }

    async fn get_snapshot_builder(&mut self) -> StateMachine {
        self.clone()
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<Cursor<Vec<u8>>>, StorageError<u64>> {
        Ok(Box::new(Cursor::new(Vec::new())))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, BasicNode>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError<u64>> {
        let bytes = snapshot.into_inner();
        let applied: Applied = postcard::from_bytes(&bytes)
            .map_err(|e| StorageIOError::read_snapshot(Some(meta.signature()), &e))?;
        let (last, membership) = (meta.last_log_id, meta.last_membership.clone());
        let mut memory = self.memory();
        memory.applied = Applied { last, membership, words: applied.words };
        memory.snapshot = Some((meta.clone(), bytes));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Words>>, StorageError<u64>> {
        let snapshot = self.memory().snapshot.clone();
        let of = |(meta, bytes)| Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) };
        Ok(snapshot.map(of))
    }
}
