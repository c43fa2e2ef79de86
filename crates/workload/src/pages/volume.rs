//! A drive as the host's block layer gives it to a database.
//!
//! 1. With barriers off no flush is ever sent. With barriers on, a flush that returns
//!    was begun by the drive after it was asked for.
//! 2. One flush at a time: those who ask while one runs share the next one (as Linux
//!    does).
//! 3. If flushes are not queued (the rule of ATA: FLUSH CACHE can not be outstanding
//!    together with queued commands), a flush waits for the commands in flight,
//!    and commands that come after it wait for it.

use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Caps, Data, DataMut, Durability, IoError};
use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

/// The host's way to a drive. Cheap to clone: a clone is the same way.
pub struct Volume<D> {
    shared: Rc<Shared<D>>,
}

impl<D> Clone for Volume<D> {
    fn clone(&self) -> Volume<D> {
        Volume { shared: self.shared.clone() }
    }
}

struct Shared<D> {
    device: D,
    barriers: bool,
    queued_flush: bool,
    /// Reads and writes on their way.
    in_flight: Cell<u32>,
    /// A flush waits for those, or is on its way.
    flushing: Cell<bool>,
    begun: Cell<u64>,
    done: Cell<u64>,
    changed: WaitQueue,
    idle: WaitQueue,
}

impl<D: BlockDevice> Volume<D> {
    /// The way to `device`; `barriers`: whether flushes are sent; `queued_flush`: whether
    /// they go beside other commands.
    pub fn new(rt: &Rt, device: D, barriers: bool, queued_flush: bool) -> Volume<D> {
        let shared = Shared {
            device,
            barriers,
            queued_flush,
            in_flight: Cell::new(0),
            flushing: Cell::new(false),
            begun: Cell::new(0),
            done: Cell::new(0),
            changed: WaitQueue::new(rt, "the end of a flush"),
            idle: WaitQueue::new(rt, "commands before a flush"),
        };
        Volume { shared: Rc::new(shared) }
    }

    /// What the drive promises.
    pub fn caps(&self) -> &Caps {
        self.shared.device.caps()
    }

    /// Flushes that the drive has completed.
    pub fn flushes(&self) -> u64 {
        self.shared.done.get()
    }

    /// Reads the stamps of the blocks from `at` on.
    ///
    /// # Errors
    /// The drive's.
    pub async fn read(&self, at: Block, stamps: &mut [u64]) -> Result<(), IoError> {
        let _turn = self.turn().await;
        self.shared.device.read(at, DataMut::Stamps(stamps)).await
    }

    /// Writes the stamps of the blocks from `at` on, in one command.
    ///
    /// # Errors
    /// The drive's.
    pub async fn write(&self, at: Block, stamps: &[u64]) -> Result<(), IoError> {
        let _turn = self.turn().await;
        self.shared.device.write(at, Data::Stamps(stamps), Durability::Normal).await
    }

    /// A barrier: what was written before is durable when it returns, if barriers are on.
    ///
    /// # Errors
    /// The drive's.
    pub async fn flush(&self) -> Result<(), IoError> {
        let s = &*self.shared;
        if !s.barriers {
            return Ok(());
        }
        let wanted = s.begun.get() + 1;
        while s.done.get() < wanted {
            if s.flushing.get() {
                s.changed.wait().await;
                continue;
            }
            s.flushing.set(true);
            let _running = Running(s);
            if !s.queued_flush {
                s.idle.until(|| s.in_flight.get() == 0).await;
            }
            let this = s.begun.get() + 1;
            s.begun.set(this);
            s.device.flush().await?;
            s.done.set(this);
        }
        Ok(())
    }

    async fn turn(&self) -> Turn<'_, D> {
        let s = &*self.shared;
        if !s.queued_flush {
            s.changed.until(|| !s.flushing.get()).await;
        }
        s.in_flight.set(s.in_flight.get() + 1);
        Turn(s)
    }
}

/// While it lives, a flush is on its way.
struct Running<'a, D>(&'a Shared<D>);

impl<D> Drop for Running<'_, D> {
    fn drop(&mut self) {
        self.0.flushing.set(false);
        self.0.changed.notify_all();
    }
}

/// While it lives, a read or write is on its way.
struct Turn<'a, D>(&'a Shared<D>);

impl<D> Drop for Turn<'_, D> {
    fn drop(&mut self) {
        let left = self.0.in_flight.get() - 1;
        self.0.in_flight.set(left);
        if left == 0 {
            self.0.idle.notify_all();
        }
    }
}
