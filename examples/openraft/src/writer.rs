//! The thread that writes: everything that changes the log goes through its queue.
//!
//! 1. Commands are carried out in the order of the queue.
//! 2. Whoever waits is answered when the record is durable, or with the error that ended the store.
//! 3. After an error nothing is written any more.

use crate::index::Index;
use openraft::storage::LogFlushed;
use openraft::{LogId, NodeId, RaftTypeConfig};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use tantalum_log::{BlockingLog, LogError, Lsn};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

/// Commands of one wait for durability, at most.
const BATCH: usize = 256;

/// What log, thread and readers share.
pub(crate) struct Shared<N: NodeId> {
    pub log: BlockingLog,
    index: Mutex<Index<N>>,
}

impl<N: NodeId> Shared<N> {
    pub fn new(log: BlockingLog, index: Index<N>) -> Shared<N> {
        Shared { log, index: Mutex::new(index) }
    }

    /// The index, also after a panic elsewhere: each change of it is whole.
    pub fn index(&self) -> MutexGuard<'_, Index<N>> {
        self.index.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Is told how a command ended.
pub(crate) type Done = oneshot::Sender<Result<(), LogError>>;

/// An entry's id and record.
pub(crate) type Encoded<N> = (LogId<N>, Arc<[u8]>);

/// What the thread is to do.
pub(crate) enum Command<C: RaftTypeConfig> {
    Append {
        entries: Vec<Encoded<C::NodeId>>,
        flushed: LogFlushed<C>,
    },
    /// Appends a cut or a state. Nobody may wait for it.
    Save {
        record: Vec<u8>,
        done: Option<Done>,
    },
    /// Appends a purge, and moves the checkpoint to `floor`, or to that record.
    Purge {
        record: Vec<u8>,
        index: u64,
        floor: Option<Lsn>,
        done: Done,
    },
    Close(Done),
}

/// Bytes of room that stay free: entries leave twice this, states and cuts once, purges nothing.
#[derive(Clone, Copy)]
pub(crate) struct Reserve(pub u64);

/// What is left of a command until its record is durable.
enum Rest<C: RaftTypeConfig> {
    Appended { places: Vec<(LogId<C::NodeId>, Lsn)>, flushed: LogFlushed<C> },
    Saved(Option<Done>),
    Purge { to: Lsn, index: u64, done: Done },
}

/// Carries out commands until nobody can send any more.
pub(crate) fn run<C: RaftTypeConfig>(
    shared: &Shared<C::NodeId>,
    reserve: Reserve,
    mut commands: UnboundedReceiver<Command<C>>,
) {
    let mut batch = Vec::new();
    loop {
        batch.clear();
        match commands.blocking_recv() {
            Some(first) => batch.push(first),
            None => return,
        }
        while batch.len() < BATCH
            && let Ok(next) = commands.try_recv()
        {
            batch.push(next);
        }
        for rest in carry_out(shared, reserve, batch.drain(..)) {
            // Nobody needs the answer if its receiver is gone.
            match rest {
                (Rest::Appended { flushed, .. }, result) => {
                    flushed.log_io_completed(result.map_err(io_error));
                }
                (Rest::Saved(done), result) => {
                    let _ = done.map(|done| done.send(result));
                }
                (Rest::Purge { done, .. }, result) => drop(done.send(result)),
            }
        }
    }
}

type Results<C> = Vec<(Rest<C>, Result<(), LogError>)>;

fn carry_out<C: RaftTypeConfig>(
    shared: &Shared<C::NodeId>,
    reserve: Reserve,
    commands: impl Iterator<Item = Command<C>>,
) -> Results<C> {
    let mut failed = shared.index().failed.clone();
    let (mut rests, mut wait) = (Vec::new(), None);
    for command in commands {
        let rest = match command {
            Command::Close(done) => {
                let closed = failed.clone().map_or_else(|| shared.log.close(), Err);
                failed = Some(LogError::Failed("it was closed".to_string()));
                let _ = done.send(closed);
                continue;
            }
            command => append(shared, reserve, command, &mut failed),
        };
        match &rest {
            Rest::Saved(None) => {}
            _ => wait = Some(shared.log.end()),
        }
        rests.push(rest);
    }
    // What was appended before an error is durable or not; the error says nothing else than that.
    if let Some(end) = wait.filter(|_| failed.is_none()) {
        failed = shared.log.wait_durable(end).err();
    }
    settle(shared, failed, rests, wait)
}

/// Appends the records of a command.
fn append<C: RaftTypeConfig>(
    shared: &Shared<C::NodeId>,
    reserve: Reserve,
    command: Command<C>,
    failed: &mut Option<LogError>,
) -> Rest<C> {
    let mut add = |record: &[u8], leave: u64| {
        // After an error the LSN is of no use.
        append_one(shared, record, leave, failed).unwrap_or_else(|e| {
            *failed = Some(e);
            Lsn::ZERO
        })
    };
    match command {
        Command::Append { entries, flushed } => {
            let entries = entries.into_iter();
            let places = entries.map(|(id, record)| (id, add(&record, 2 * reserve.0))).collect();
            Rest::Appended { places, flushed }
        }
        Command::Save { record, done } => {
            add(&record, reserve.0);
            Rest::Saved(done)
        }
        Command::Purge { record, index, floor, done } => {
            let to = add(&record, 0);
            Rest::Purge { to: floor.unwrap_or(to), index, done }
        }
        Command::Close(done) => Rest::Saved(Some(done)),
    }
}

/// Appends a record if it leaves so much room.
fn append_one<N: NodeId>(
    shared: &Shared<N>,
    record: &[u8],
    leave: u64,
    failed: &Option<LogError>,
) -> Result<Lsn, LogError> {
    let log = &shared.log;
    if let Some(e) = failed {
        return Err(e.clone());
    }
    if log.room() < record.len() as u64 + leave {
        return Err(LogError::Full { first: log.first()?, end: log.end() });
    }
    Ok(log.append(record)?.lsn)
}

/// Tells the index what is durable, up to `end`, and moves the checkpoint.
fn settle<C: RaftTypeConfig>(
    shared: &Shared<C::NodeId>,
    mut failed: Option<LogError>,
    rests: Vec<Rest<C>>,
    end: Option<Lsn>,
) -> Results<C> {
    let mut index = shared.index();
    if failed.is_none() {
        for rest in &rests {
            if let Rest::Appended { places, .. } = rest {
                places.iter().for_each(|(id, lsn)| index.durable(id, *lsn));
            }
        }
        index.end = end.unwrap_or(index.end);
        index.drop_old();
    }
    drop(index);
    for rest in &rests {
        if let (Rest::Purge { to, index, .. }, None) = (rest, &failed) {
            failed = move_checkpoint(&shared.log, *to, *index).err();
        }
    }
    shared.index().failed.clone_from(&failed);
    let result = |failed: &Option<LogError>| failed.clone().map_or(Ok(()), Err);
    rests.into_iter().map(|rest| (rest, result(&failed))).collect()
}

/// Moves the checkpoint to `to`, if it is before that. Its number is how many indexes were purged.
fn move_checkpoint(log: &BlockingLog, to: Lsn, index: u64) -> Result<(), LogError> {
    if log.first()? >= to {
        return Ok(());
    }
    log.checkpoint(to, index.saturating_add(1))
}

fn io_error(e: LogError) -> io::Error {
    let kind = match e {
        LogError::Full { .. } => io::ErrorKind::StorageFull,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, e)
}
