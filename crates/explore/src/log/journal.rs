//! What a log must hold.
//!
//! 1. A log that is opened holds the records that were appended from its checkpoint on, in their
//!    order, each whole, and nothing else: a prefix of them.
//! 2. That prefix has everything that was acknowledged.
//! 3. The checkpoint is the last one that was acknowledged, or the one that was asked for then.
//! 4. What a log was seen to hold must be there from then on.

use tantalum_device::BlockDevice;
use tantalum_log::{Log, Lsn, Record};

/// What was appended, and what was promised.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// The records, in the order of their LSNs.
    pub records: Vec<Record>,
    /// Everything before it must be there.
    pub acked: Lsn,
    /// The checkpoint that is durable.
    pub checkpoint: (Lsn, u64),
    /// The checkpoint that may be durable.
    pub asked: Option<(Lsn, u64)>,
    /// Records appended so far: each is stamped with its number.
    pub counter: u64,
}

impl Journal {
    /// The content of the next record: its number, and what `fill` makes of the rest.
    pub fn content(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
        self.counter += 1;
        let mut bytes = vec![0; length];
        fill(&mut bytes);
        for (byte, stamp) in bytes.iter_mut().zip(self.counter.to_le_bytes()) {
            *byte = stamp;
        }
        bytes
    }

    /// The checkpoint that was asked for is durable: what is before it is forgotten.
    pub fn moved(&mut self, checkpoint: (Lsn, u64)) {
        (self.asked, self.checkpoint) = (None, checkpoint);
        self.records.retain(|r| r.end >= checkpoint.0);
    }

    /// Compares the log that was opened after a cut; from then on what it holds must stay.
    ///
    /// # Errors
    /// In a line, what is lost, out of order or made up.
    pub async fn check<D: BlockDevice + Clone + 'static>(
        &mut self,
        log: &Log<D>,
    ) -> Result<(), String> {
        let first = (log.first(), log.checkpoint_number());
        if first == self.asked.unwrap_or(self.checkpoint) {
            self.checkpoint = first;
        }
        if first != self.checkpoint {
            return Err(format!("the checkpoint is {first:?} and not {:?}", self.checkpoint));
        }
        self.asked = None;
        let found = self.compare(log).await?;
        if log.end() != found || log.durable() != found {
            return Err(format!("{} and {} are not {found}", log.end(), log.durable()));
        }
        // What was acknowledged may end within a record, of which nothing was said.
        let acked = self.records.iter().map(|r| r.end).filter(|e| *e <= self.acked).max();
        if acked.is_some_and(|acked| found < acked) {
            return Err(format!("the log ends at {found}; {} was acknowledged", self.acked));
        }
        self.records.retain(|r| r.end <= found);
        self.acked = found;
        Ok(())
    }

    /// Reads the whole log: it must be the records that were appended. Where it ends.
    ///
    /// # Errors
    /// In a line, the first record that is not, or why it cannot be read.
    pub async fn compare<D: BlockDevice + Clone + 'static>(
        &self,
        log: &Log<D>,
    ) -> Result<Lsn, String> {
        let first = log.first();
        let mut records = log.read(first).map_err(|e| e.to_string())?;
        let mut expected = self.records.iter().filter(|r| r.lsn >= first);
        let mut end = first;
        while let Some(record) = records.next().await.map_err(|e| e.to_string())? {
            let Some(right) = expected.next() else {
                return Err(format!("{} was never appended", record.lsn));
            };
            if record != *right {
                return Err(format!("{} is not what was appended at {}", record.lsn, right.lsn));
            }
            end = record.end;
        }
        Ok(end)
    }
}
