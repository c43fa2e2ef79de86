//! The store as openraft sees it: it changes the index, and hands the record to the thread.

use crate::error::{OpenError, Refused};
use crate::index::{Found, Index};
use crate::record::{self, Record, State};
use crate::writer::{self, Command, Done, Reserve, Shared};
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    ErrorSubject, ErrorVerb, LogId, NodeId, OptionalSend, RaftLogId, RaftLogReader, RaftTypeConfig,
    StorageError, StorageIOError, Vote,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use tantalum_log::{BlockingLog, BlockingOptions, LogError, Lsn, WhenFull};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Bytes of entries that one call of `limited_get_log_entries` returns, at most; or one entry.
const PIECE: usize = 1 << 20;

/// How a store is used.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes of durable entries that stay in memory.
    pub memory: usize,
    /// How the flash log is used. The store replaces `when_full`: a log that is full is an error.
    pub log: BlockingOptions,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions { memory: 64 << 20, log: BlockingOptions::default() }
    }
}

/// The log store of a Raft node. See [the crate](crate).
///
/// When it is dropped, its thread carries out what it was given and ends; the devices are free once
/// its readers are dropped, too.
pub struct FlashLog<C: RaftTypeConfig> {
    reader: FlashReader<C>,
    /// `None` only while it is dropped.
    commands: Option<UnboundedSender<Command<C>>>,
    thread: Option<JoinHandle<()>>,
}

/// Reads the entries of a store.
pub struct FlashReader<C: RaftTypeConfig> {
    shared: Arc<Shared<C::NodeId>>,
}

impl<C: RaftTypeConfig> Clone for FlashReader<C> {
    fn clone(&self) -> FlashReader<C> {
        FlashReader { shared: self.shared.clone() }
    }
}

impl<C: RaftTypeConfig> Drop for FlashLog<C> {
    fn drop(&mut self) {
        self.commands = None;
        // If it panicked, whoever waited for it has been told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<C> FlashLog<C>
where
    C: RaftTypeConfig,
    C::Entry: Serialize + DeserializeOwned,
{
    /// Opens the store on all devices of a flash log, in any order. It blocks: it reads the log.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open<P: AsRef<Path>>(
        devices: &[P],
        mut options: StoreOptions,
    ) -> Result<FlashLog<C>, OpenError> {
        options.log.open.when_full = WhenFull::Fail;
        let reserve = Reserve(2 * options.log.open.group_bytes);
        let log = BlockingLog::open(devices, options.log)?;
        let index = read_all::<C>(&log, options.memory)?;
        let shared = Arc::new(Shared::new(log, index));
        let (commands, queue) = unbounded_channel();
        let works = shared.clone();
        #[allow(clippy::disallowed_methods, reason = "the edge: the thread waits for devices")]
        let thread = std::thread::Builder::new()
            .name("raft-log".into())
            .spawn(move || writer::run(&works, reserve, queue))
            .map_err(OpenError::Thread)?;
        let reader = FlashReader { shared };
        Ok(FlashLog { reader, commands: Some(commands), thread: Some(thread) })
    }

    /// Makes everything durable and ends the log; also readers fail from then on, unless they read
    /// memory.
    ///
    /// # Errors
    /// Why the store had failed before, or fails now.
    pub async fn close(self) -> Result<(), LogError> {
        let (done, closed) = oneshot::channel();
        self.send(Command::Close(done))?;
        closed.await.unwrap_or_else(|_| Err(gone()))
    }

    fn send(&self, command: Command<C>) -> Result<(), LogError> {
        let sent = self.commands.as_ref().map(|c| c.send(command));
        sent.is_some_and(|sent| sent.is_ok()).then_some(()).ok_or_else(gone)
    }

    /// Changes the index, and sends what makes that durable: both or nothing, and in one order for
    /// all callers.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Index<C::NodeId>) -> Result<(Command<C>, T), Refused>,
    ) -> Result<T, Refused> {
        let mut index = self.reader.shared.index();
        check(&index)?;
        let (command, answer) = change(&mut index)?;
        self.send(command)?;
        Ok(answer)
    }

    /// Changes the state, and saves it.
    fn change_state(
        &self,
        change: impl FnOnce(&mut State<C::NodeId>),
        done: Option<Done>,
    ) -> Result<(), Refused> {
        self.change(|index| {
            let mut state = index.state.clone();
            change(&mut state);
            let record = record::state(&state)?;
            index.state = state;
            Ok((Command::Save { record, done }, ()))
        })
    }
}

/// Builds the index from the records of a log.
fn read_all<C>(log: &BlockingLog, memory: usize) -> Result<Index<C::NodeId>, OpenError>
where
    C: RaftTypeConfig,
    C::Entry: DeserializeOwned,
{
    let mut index = Index::new(memory);
    index.end = log.durable();
    for found in log.read(log.first()?)? {
        let found = found?;
        let lsn = found.lsn;
        let followed = match record::decode::<C>(lsn, &found.bytes)? {
            Record::Entry(entry) => {
                index.push(entry.get_log_id().clone(), found.bytes.into(), Some(lsn))
            }
            Record::Cut(since) => index.cut(since),
            Record::State(state) => {
                index.state = state;
                Ok(())
            }
            Record::Purge(state) => {
                index.purge(state);
                Ok(())
            }
        };
        followed.map_err(|what| OpenError::Contradiction { lsn, what })?;
    }
    Ok(index)
}

fn gone() -> LogError {
    LogError::Failed("its thread has ended".to_string())
}

/// An error in openraft's words.
fn storage_error<C: RaftTypeConfig>(
    subject: ErrorSubject<C::NodeId>,
    verb: ErrorVerb,
) -> impl FnOnce(Refused) -> StorageError<C::NodeId> {
    move |e| StorageIOError::new(subject, verb, openraft::AnyError::new(&e)).into()
}

/// Waits for the thread.
async fn told(done: oneshot::Receiver<Result<(), LogError>>) -> Result<(), Refused> {
    Ok(done.await.unwrap_or_else(|_| Err(gone()))?)
}

impl<C> RaftLogStorage<C> for FlashLog<C>
where
    C: RaftTypeConfig,
    C::Entry: Serialize + DeserializeOwned,
{
    type LogReader = FlashReader<C>;

    async fn get_log_state(&mut self) -> Result<LogState<C>, StorageError<C::NodeId>> {
        let index = self.reader.shared.index();
        check(&index).map_err(storage_error::<C>(ErrorSubject::Logs, ErrorVerb::Read))?;
        let last_purged_log_id = index.state.purged.clone();
        Ok(LogState { last_purged_log_id, last_log_id: index.last().cloned() })
    }

    async fn get_log_reader(&mut self) -> FlashReader<C> {
        self.reader.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let (done, saved) = oneshot::channel();
        let sent = self.change_state(|state| state.vote = Some(vote.clone()), Some(done));
        let saved = match sent {
            Ok(()) => told(saved).await,
            failed => failed,
        };
        saved.map_err(storage_error::<C>(ErrorSubject::Vote, ErrorVerb::Write))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<C::NodeId>>, StorageError<C::NodeId>> {
        let index = self.reader.shared.index();
        check(&index).map_err(storage_error::<C>(ErrorSubject::Vote, ErrorVerb::Read))?;
        Ok(index.state.vote.clone())
    }

    async fn save_committed(
        &mut self,
        committed: Option<LogId<C::NodeId>>,
    ) -> Result<(), StorageError<C::NodeId>> {
        self.change_state(|state| state.committed = committed, None)
            .map_err(storage_error::<C>(ErrorSubject::Store, ErrorVerb::Write))
    }

    async fn read_committed(
        &mut self,
    ) -> Result<Option<LogId<C::NodeId>>, StorageError<C::NodeId>> {
        let index = self.reader.shared.index();
        check(&index).map_err(storage_error::<C>(ErrorSubject::Store, ErrorVerb::Read))?;
        Ok(index.state.committed.clone())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        flushed: LogFlushed<C>,
    ) -> Result<(), StorageError<C::NodeId>>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let encode = |entry: C::Entry| {
            let record: Arc<[u8]> = record::entry(&entry)?.into();
            Ok((entry.get_log_id().clone(), record))
        };
        let entries: Result<Vec<_>, Refused> = entries.into_iter().map(encode).collect();
        entries
            .and_then(|entries| {
                self.change(|index| {
                    index.follow(entries.iter().map(|(id, _)| id)).map_err(Refused::Order)?;
                    for (id, record) in &entries {
                        index.push(id.clone(), record.clone(), None).map_err(Refused::Order)?;
                    }
                    Ok((Command::Append { entries, flushed }, ()))
                })
            })
            .map_err(storage_error::<C>(ErrorSubject::Logs, ErrorVerb::Write))
    }

    async fn truncate(&mut self, id: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let (done, cut) = oneshot::channel();
        let sent = self.change(|index| {
            let record = record::cut(id.index)?;
            index.cut(id.index).map_err(Refused::Order)?;
            Ok((Command::Save { record, done: Some(done) }, ()))
        });
        let cut = match sent {
            Ok(()) => told(cut).await,
            failed => failed,
        };
        cut.map_err(storage_error::<C>(ErrorSubject::Log(id), ErrorVerb::Delete))
    }

    async fn purge(&mut self, id: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let (done, purged) = oneshot::channel();
        let sent = self.change(|index| {
            let mut state = index.state.clone();
            state.purged = state.purged.max(Some(id.clone()));
            let record = record::purge(&state)?;
            index.purge(state);
            Ok((Command::Purge { record, index: id.index, floor: index.floor(), done }, ()))
        });
        let purged = match sent {
            Ok(()) => told(purged).await,
            failed => failed,
        };
        purged.map_err(storage_error::<C>(ErrorSubject::Log(id), ErrorVerb::Delete))
    }
}

fn check<N: NodeId>(index: &Index<N>) -> Result<(), Refused> {
    Ok(index.failed.clone().map_or(Ok(()), Err)?)
}

/// The indexes of a range; `None` if it is empty.
fn indexes(range: &impl RangeBounds<u64>) -> Option<RangeInclusive<u64>> {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(before) => before.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(to) => *to,
        Bound::Excluded(behind) => behind.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (from <= to).then_some(from..=to)
}

impl<C> FlashReader<C>
where
    C: RaftTypeConfig,
    C::Entry: DeserializeOwned,
{
    async fn entries(
        &self,
        range: Option<RangeInclusive<u64>>,
        most: usize,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        let Some(range) = range else { return Ok(Vec::new()) };
        let failed = storage_error::<C>;
        let logs = || failed(ErrorSubject::Logs, ErrorVerb::Read);
        loop {
            let found = {
                let index = self.shared.index();
                check(&index).map_err(logs())?;
                index.find(range.clone(), most)
            };
            let in_memory = found.iter().all(|f| matches!(f, Found::Here(_)));
            let records = if in_memory {
                fetch(&self.shared.log, found)
            } else {
                let shared = self.shared.clone();
                let read = tokio::task::spawn_blocking(move || fetch(&shared.log, found)).await;
                read.unwrap_or_else(|e| Err(LogError::Failed(e.to_string())))
            };
            let records = match records {
                // Purged meanwhile: the index knows that already.
                Err(LogError::BeforeFirst { .. }) => continue,
                records => records.map_err(Refused::Log).map_err(logs())?,
            };
            let decode = |(lsn, record): Fetched| match record::decode::<C>(lsn, &record) {
                Ok(Record::Entry(entry)) => Ok(entry),
                Ok(_) => Err(OpenError::Foreign(lsn)),
                Err(e) => Err(e),
            };
            let entries: Result<Vec<_>, OpenError> = records.into_iter().map(decode).collect();
            return entries.map_err(|e| StorageIOError::read_logs(&e).into());
        }
    }
}

/// A record, and where it was; zero for memory.
type Fetched = (Lsn, Arc<[u8]>);

/// The records that were found. Those in the log are read in one go: they lie in order there.
fn fetch(log: &BlockingLog, found: Vec<Found>) -> Result<Vec<Fetched>, LogError> {
    let mut reading = None;
    let mut fetch_one = |lsn: Lsn| {
        let records = match &mut reading {
            Some(records) => records,
            none => none.insert(log.read(lsn)?),
        };
        for record in records {
            let record = record?;
            if record.lsn == lsn {
                return Ok((lsn, record.bytes.into()));
            }
        }
        Err(LogError::NoRecord { lsn, within: None })
    };
    let one = |found| match found {
        Found::Here(record) => Ok((Lsn::ZERO, record)),
        Found::There(lsn) => fetch_one(lsn),
    };
    found.into_iter().map(one).collect()
}

impl<C> RaftLogReader<C> for FlashReader<C>
where
    C: RaftTypeConfig,
    C::Entry: DeserializeOwned,
{
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        self.entries(indexes(&range), usize::MAX).await
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        self.entries(indexes(&(start..end)), PIECE).await
    }
}

impl<C> RaftLogReader<C> for FlashLog<C>
where
    C: RaftTypeConfig,
    C::Entry: Serialize + DeserializeOwned,
{
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        self.reader.try_get_log_entries(range).await
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<C::Entry>, StorageError<C::NodeId>> {
        self.reader.limited_get_log_entries(start, end).await
    }
}
