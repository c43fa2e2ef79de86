//! Records what a host does to a device, as a dm-log-writes log.
//!
//! 1. A command is recorded when it has completed, and only if it succeeded; see
//!    [`LogWriter`] for the place of a flush.
//! 2. A group's writes stand together; the last one is FUA, since a group that is complete
//!    survives, and a mark follows. So a replay up to a mark, a flush or a FUA has whole groups.
//!    (The format knows no groups: up to other entries there may be a part of one.)
//! 3. A recorded run is the run without recording: nothing here takes virtual time.

use crate::run::row::{RowBox, Traffic};
use std::sync::{Arc, Mutex, PoisonError};
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Data, Durability, Extent, IoError, PowerCycle, forward,
};
use tantalum_drive::Drive;
use tantalum_workload::trace::{LogOutput, LogWriter};

/// A log that a run writes. It carries bytes: so does the device then.
pub type Log = Arc<Mutex<LogWriter<Box<dyn LogOutput>>>>;

/// A device, or a box, whose commands are recorded, if there is a log for them.
#[derive(Clone)]
pub struct Recorded<D> {
    inner: D,
    log: Option<Log>,
}

impl<D> Recorded<D> {
    /// Of `inner`, into `log`.
    pub fn new(inner: D, log: Option<Log>) -> Recorded<D> {
        Recorded { inner, log }
    }

    fn with<T>(&self, record: impl FnOnce(&mut LogWriter<Box<dyn LogOutput>>) -> T) -> Option<T> {
        let log = self.log.as_ref()?;
        Some(record(&mut log.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn written(&self, at: Block, data: Data<'_>, want: Durability) {
        if let Data::Bytes(bytes) = data {
            self.with(|log| log.write(at.0, bytes, want == Durability::Fua));
        }
    }
}

impl<D: BlockDevice> BlockDevice for Recorded<D> {
    forward!(inner: caps, is_alive, arm_queue, blocks_its_thread, read);

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        self.inner.write(at, data, want).await?;
        self.written(at, data, want);
        Ok(())
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        self.inner.write_atomic(group).await?;
        if let Some((last, others)) = group.split_last() {
            others.iter().for_each(|e| self.written(e.at, e.data, Durability::Normal));
            self.written(last.at, last.data, Durability::Fua);
            self.with(|log| log.mark(&format!("a group of {}", group.len())));
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        let submitted = self.with(|log| log.submit_flush());
        self.inner.flush().await?;
        if let Some(submitted) = submitted {
            self.with(|log| log.complete_flush(submitted));
        }
        Ok(())
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.inner.discard(range).await?;
        self.with(|log| log.discard(range.start.0, range.count));
        Ok(())
    }
}

impl<B: PowerCycle> PowerCycle for Recorded<B> {
    type Device = Recorded<B::Device>;

    forward!(inner: off, power_on);

    fn device(&self) -> Recorded<B::Device> {
        Recorded { inner: self.inner.device(), log: self.log.clone() }
    }

    fn cut(&self) {
        self.inner.cut();
        self.with(|log| log.mark("power cut"));
    }
}

impl<S: RowBox> RowBox for Recorded<S> {
    fn traffic(&self) -> Traffic {
        self.inner.traffic()
    }

    fn drives(&self) -> &[Drive] {
        self.inner.drives()
    }
}
