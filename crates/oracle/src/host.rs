//! A host that tells the oracle of every command it sends.

use crate::Oracle;
use crate::content::{Id, fill};
use crate::history::{Action, Failure};
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Data, Durability, Extent, IoError, OwnedData,
};

/// A host's view of a device. It writes data that the oracle recognizes. A command is submitted by
/// the first poll of its future, and may be dropped at any time.
///
/// See [`Oracle`] for an example.
#[derive(Clone)]
pub struct Host<D> {
    device: D,
    oracle: Oracle,
}

/// Ends a command in the history if its future is dropped.
struct Open<'a> {
    oracle: &'a Oracle,
    id: Option<Id>,
}

impl Open<'_> {
    fn end<E>(mut self, result: &Result<(), E>)
    where
        Failure: for<'e> From<&'e E>,
    {
        let Some(id) = self.id.take() else { return };
        let mut history = self.oracle.history.borrow_mut();
        match result {
            Ok(()) => history.succeed(id),
            Err(e) => history.fail(id, &e.into()),
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.oracle.history.borrow_mut().fail(id, &Failure::Unknown);
        }
    }
}

impl<D: BlockDevice> Host<D> {
    pub(super) fn new(device: D, oracle: Oracle) -> Host<D> {
        Host { device, oracle }
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn open(&self, action: Action, extents: Vec<(u64, u64)>) -> (Id, Open<'_>) {
        let id = self.oracle.history.borrow_mut().submit(action, extents);
        (id, Open { oracle: &self.oracle, id: Some(id) })
    }

    fn fill(&self, id: Id, range: Blocks) -> OwnedData {
        let caps = self.oracle.caps();
        fill(caps.payload, id, range.start.0, range.count, caps.block_size)
    }

    /// Writes fresh data.
    ///
    /// # Errors
    /// What the device says.
    pub async fn write(&self, range: Blocks, want: Durability) -> Result<(), IoError> {
        let action = match want {
            Durability::Normal => Action::Write,
            Durability::Fua => Action::Fua,
        };
        let (id, open) = self.open(action, vec![(range.start.0, range.count)]);
        let data = self.fill(id, range);
        let result = self.device.write(range.start, data.as_data(), want).await;
        open.end(&result);
        result
    }

    /// Writes fresh data as an atomic group.
    ///
    /// # Errors
    /// What the device says.
    pub async fn write_atomic(&self, ranges: &[Blocks]) -> Result<(), AtomicError> {
        let extents = ranges.iter().map(|r| (r.start.0, r.count)).collect();
        let (id, open) = self.open(Action::Group, extents);
        let data: Vec<OwnedData> = ranges.iter().map(|r| self.fill(id, *r)).collect();
        let group: Vec<Extent<'_>> = ranges
            .iter()
            .zip(&data)
            .map(|(r, d)| Extent { at: r.start, data: d.as_data() })
            .collect();
        let result = self.device.write_atomic(&group).await;
        open.end(&result);
        if result.is_ok() && self.oracle.caps().check_group(&group).is_err() {
            self.oracle.unrefused(id);
        }
        result
    }

    /// Discards.
    ///
    /// # Errors
    /// What the device says.
    pub async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.blank(range, Durability::Normal, self.device.discard(range)).await
    }

    /// Makes a range read as zeros by `how`: with the device's discard, or in a way that only the
    /// caller knows, as a protocol's zeroes. Nothing says that it is atomic. With
    /// [`Durability::Fua`] it survives once `how` ends well.
    ///
    /// # Errors
    /// What `how` says.
    pub async fn blank(
        &self,
        range: Blocks,
        want: Durability,
        how: impl Future<Output = Result<(), IoError>>,
    ) -> Result<(), IoError> {
        let action = match want {
            Durability::Normal => Action::Discard,
            Durability::Fua => Action::ForcedDiscard,
        };
        let (_, open) = self.open(action, vec![(range.start.0, range.count)]);
        let result = how.await;
        open.end(&result);
        result
    }

    /// Flushes.
    ///
    /// # Errors
    /// What the device says.
    pub async fn flush(&self) -> Result<(), IoError> {
        let submitted = self.oracle.history.borrow_mut().tick();
        let result = self.device.flush().await;
        self.oracle.history.borrow_mut().flushed(submitted, &result);
        result
    }

    /// Reads, and checks what it sees.
    ///
    /// # Errors
    /// What the device says.
    pub async fn read(&self, range: Blocks) -> Result<(), IoError> {
        self.look(range).await.map(drop)
    }

    /// Tells the device that the host has dropped these blocks from its memory as they came. With
    /// `bytes` it reads them before, checks what it sees, and gives them along, unless they have
    /// changed meanwhile, or may still: a host has its own changes in its memory.
    ///
    /// # Errors
    /// What the device says.
    pub async fn drop_clean(&self, range: Blocks, bytes: bool) -> Result<(), IoError> {
        if !bytes {
            return self.device.left(range, None).await;
        }
        let (submitted, read) = self.look(range).await?;
        let unchanged = self.oracle.history.borrow().is_unchanged_since(submitted, range);
        self.device.left(range, unchanged.then_some(read.as_data())).await
    }

    /// Reads, and checks what it sees. Returns that, and when it was asked for.
    async fn look(&self, range: Blocks) -> Result<(u64, OwnedData), IoError> {
        let caps = *self.oracle.caps();
        let reading = Reading::begin(&self.oracle);
        let mut room = OwnedData::zeros(caps.payload, range.count as usize, caps.block_size);
        self.device.read(range.start, room.as_mut()).await?;
        let mut history = self.oracle.history.borrow_mut();
        history.saw(reading.submitted, range.start, room.as_data());
        drop(history);
        Ok((reading.submitted, room))
    }
}

/// A read in flight, until it ends or is given up.
struct Reading<'a> {
    oracle: &'a Oracle,
    submitted: u64,
}

impl<'a> Reading<'a> {
    fn begin(oracle: &'a Oracle) -> Reading<'a> {
        let submitted = oracle.history.borrow_mut().begin_read();
        Reading { oracle, submitted }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.oracle.history.borrow_mut().end_read(self.submitted);
    }
}

/// All blocks of `at`, read one after the other: which could be read, and what the
/// device said of the others.
pub(super) async fn read_each<D: BlockDevice>(
    device: &D,
    range: Blocks,
    mut each: impl FnMut(Block, Result<Data<'_>, IoError>),
) -> Result<(), IoError> {
    let caps = *device.caps();
    let mut room = OwnedData::zeros(caps.payload, range.count as usize, caps.block_size);
    match device.read(range.start, room.as_mut()).await {
        Ok(()) => {
            for i in 0..range.count as usize {
                let block = Block(range.start.0 + i as u64);
                each(block, Ok(room.as_data().slice(i..i + 1, caps.block_size)));
            }
            return Ok(());
        }
        Err(IoError::PowerLost) => return Err(IoError::PowerLost),
        Err(_) => {}
    }
    let mut room = OwnedData::zeros(caps.payload, 1, caps.block_size);
    for i in 0..range.count {
        let block = Block(range.start.0 + i);
        match device.read(block, room.as_mut()).await {
            Ok(()) => each(block, Ok(room.as_data())),
            Err(IoError::PowerLost) => return Err(IoError::PowerLost),
            Err(e) => each(block, Err(e)),
        }
    }
    Ok(())
}
