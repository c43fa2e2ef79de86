//! What follows from the records: which entries count, and where they are.
//!
//! 1. Entries that count have consecutive indexes, and lie in the log in that order.
//! 2. An entry whose LSN is not known is in memory.
//! 3. An entry whose LSN is not known lies at or behind `end`.

use crate::record::State;
use openraft::{LogId, NodeId};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tantalum_log::{LogError, Lsn};

pub(crate) struct Index<N: NodeId> {
    pub state: State<N>,
    /// Why nothing is taken any more.
    pub failed: Option<LogError>,
    /// Everything that the log had when this was set lies before it.
    pub end: Lsn,
    /// The index of the first place.
    first: u64,
    places: VecDeque<Place<N>>,
    /// Entries before this index are not in memory.
    dropped: u64,
    /// Bytes of entries in memory, and how many of them may stay when they are durable.
    bytes: usize,
    memory: usize,
}

struct Place<N: NodeId> {
    id: LogId<N>,
    /// Known only once the entry is durable.
    lsn: Option<Lsn>,
    /// Bytes of its record.
    length: usize,
    record: Option<Arc<[u8]>>,
}

/// Where a reader finds an entry.
pub(crate) enum Found {
    Here(Arc<[u8]>),
    There(Lsn),
}

impl<N: NodeId> Index<N> {
    pub fn new(memory: usize) -> Index<N> {
        Index {
            state: State::default(),
            failed: None,
            end: Lsn::ZERO,
            first: 0,
            places: VecDeque::new(),
            dropped: 0,
            bytes: 0,
            memory,
        }
    }

    /// The id of the last entry that counts, or else the purged one.
    pub fn last(&self) -> Option<&LogId<N>> {
        self.places.back().map(|p| &p.id).or(self.state.purged.as_ref())
    }

    /// The index behind the last entry.
    fn next(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// Whether entries with these ids may come next.
    ///
    /// # Errors
    /// What index one of them should have.
    pub fn follow<'a>(&self, ids: impl IntoIterator<Item = &'a LogId<N>>) -> Result<(), String> {
        let mut next = (!self.places.is_empty()).then(|| self.next());
        for LogId { index, .. } in ids {
            if let Some(next) = next.filter(|next| next != index) {
                return Err(format!("entry {index} comes where {next} belongs"));
            }
            next = Some(index.checked_add(1).ok_or("there is no larger index")?);
        }
        Ok(())
    }

    /// Adds an entry; its LSN, if it is durable.
    ///
    /// # Errors
    /// As [`Index::follow`].
    pub fn push(
        &mut self,
        id: LogId<N>,
        record: Arc<[u8]>,
        lsn: Option<Lsn>,
    ) -> Result<(), String> {
        self.follow([&id])?;
        if self.places.is_empty() {
            (self.first, self.dropped) = (id.index, id.index);
        }
        self.bytes += record.len();
        self.places.push_back(Place { id, lsn, length: record.len(), record: Some(record) });
        self.drop_old();
        Ok(())
    }

    /// Entries from `since` on do not count any more.
    ///
    /// # Errors
    /// If they were purged.
    pub fn cut(&mut self, since: u64) -> Result<(), String> {
        if let Some(purged) = self.state.purged.as_ref().filter(|p| since <= p.index) {
            return Err(format!("the log is cut at {since} after {} was purged", purged.index));
        }
        let keep = since.saturating_sub(self.first).min(self.places.len() as u64);
        let cut = self.places.drain(keep as usize..);
        self.bytes -= cut.map(|p| p.record.map_or(0, |r| r.len())).sum::<usize>();
        self.dropped = self.dropped.min(self.next());
        Ok(())
    }

    /// Takes over a state; entries up to its purged id do not count any more.
    pub fn purge(&mut self, state: State<N>) {
        let purged = state.purged.as_ref().map(|p| p.index);
        self.state = state;
        while self.places.front().is_some_and(|p| Some(p.id.index) <= purged) {
            let gone = self.places.pop_front().and_then(|p| p.record);
            self.bytes -= gone.map_or(0, |r| r.len());
            self.first += 1;
        }
        self.dropped = self.dropped.max(self.first);
    }

    /// Where the checkpoint may be: the first entry that counts, or a place before it. `None` if no
    /// entry counts.
    pub fn floor(&self) -> Option<Lsn> {
        self.places.front().map(|p| p.lsn.unwrap_or(self.end))
    }

    /// The entry with this id is durable. If it does not count any more, nothing is done.
    pub fn durable(&mut self, id: &LogId<N>, lsn: Lsn) {
        let at = id.index.checked_sub(self.first).map(|i| i as usize);
        let place = at.and_then(|at| self.places.get_mut(at)).filter(|p| p.id == *id);
        if let Some(place) = place {
            place.lsn = Some(lsn);
        }
    }

    /// Drops what memory need not hold.
    pub fn drop_old(&mut self) {
        while self.bytes > self.memory {
            let at = (self.dropped - self.first) as usize;
            let Some(place) = self.places.get_mut(at).filter(|p| p.lsn.is_some()) else { return };
            self.bytes -= place.record.take().map_or(0, |r| r.len());
            self.dropped += 1;
        }
    }

    /// Where the entries of these indexes are, as far as they count: up to so many bytes, but at
    /// least one.
    pub fn find(&self, range: RangeInclusive<u64>, most: usize) -> Vec<Found> {
        let from = range.start().saturating_sub(self.first) as usize;
        let behind = range.end().saturating_add(1).saturating_sub(self.first);
        let behind = behind.min(self.places.len() as u64) as usize;
        let (mut found, mut bytes) = (Vec::new(), 0usize);
        for place in self.places.range(from.min(behind)..behind) {
            bytes = bytes.saturating_add(place.length);
            if bytes > most && !found.is_empty() {
                break;
            }
            match (&place.record, place.lsn) {
                (Some(record), _) => found.push(Found::Here(record.clone())),
                (None, Some(lsn)) => found.push(Found::There(lsn)),
                (None, None) => unreachable!("2."),
            }
        }
        found
    }
}
