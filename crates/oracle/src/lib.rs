//! The oracle: holds any block device to what it promised, after any crash.
//!
//! A [`Host`] sends commands to the device and tells the oracle of each. After a
//! cut and a recovery, [`Oracle::check`] reads every block. What it finds wrong are
//! [`Violation`]s: values, not panics.
//!
//! 1. **Sound.** A device that keeps the contract is never accused. Whatever is not
//!    known (a command in flight at the cut, one whose future was dropped, one that
//!    failed) may or may not have happened.
//! 2. **Complete** for what it states: lost acknowledged, flushed or forced writes;
//!    torn atomic units and groups; survivors of an ordered device that are no
//!    prefix; data never written or given up for good; stale reads; work
//!    after a failed durability step; groups that had to be refused.
//! 3. **Chains.** What a check saw is what is durable from then on, so that rounds
//!    of writing, cutting and recovering (with cuts during recovery) are checked
//!    each against the one before.
//!
//! # An example
//!
//! This device loses with its power what it did not flush. It is held to more: that a write which
//! was acknowledged survives.
//!
//! ```
//! use tantalum_device::{Ack, Block, Blocks, Caps, Durability, Payload, PowerCycle};
//! use tantalum_device::{RamDevice, RamOptions};
//! use tantalum_oracle::Oracle;
//! use tantalum_rt::Runtime;
//!
//! let promised = Caps::power_safe(64, Payload::Stamps);
//! let kept = Caps { ack: Ack::Volatile, ordered: false, ..promised };
//! let mut runtime = Runtime::virtual_time(1);
//! let ram = RamDevice::new(&runtime.handle(), RamOptions::new(kept));
//! let violations = runtime.block_on(async move {
//!     let oracle = Oracle::new(&promised);
//!     let host = oracle.host(ram.device());
//!     for block in 0..64 {
//!         let range = Blocks { start: Block(block), count: 1 };
//!         host.write(range, Durability::Normal).await?;
//!     }
//!     ram.cut();
//!     ram.power_on().await?;
//!     oracle.check(&ram.device()).await
//! });
//! let violations = violations.unwrap().unwrap();
//! assert!(violations[0].to_string().contains("lost"), "{}", violations[0]);
//! ```

mod check;
mod content;
pub mod harness;
mod history;
mod host;
#[cfg(test)]
mod model;
pub mod patience;
pub mod shadow;
mod violation;

pub use content::Id;
pub use host::Host;
pub use violation::{Cause, Found, Violation};

use content::{GARBAGE, Pieces};
use history::History;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Blocks, Caps, IoError};

/// Blocks read at a time.
const CHUNK: u64 = 256;

/// The oracle of one device. Cheap to clone; a clone is the same oracle.
///
/// ```
/// use tantalum_device::{Ack, Block, Blocks, Caps, Durability, Payload, PowerCycle};
/// use tantalum_device::{RamDevice, RamOptions};
/// use tantalum_oracle::Oracle;
/// use tantalum_rt::Runtime;
///
/// let caps = Caps::power_safe(64, Payload::Stamps);
/// let caps = Caps { ack: Ack::Volatile, ordered: false, ..caps };
/// let mut runtime = Runtime::virtual_time(1);
/// let ram = RamDevice::new(&runtime.handle(), RamOptions::new(caps));
/// let violations = runtime.block_on(async move {
///     let oracle = Oracle::new(&caps);
///     let mut violations = Vec::new();
///     for round in 0..8 {
///         let host = oracle.host(ram.device()); // after each power cycle another one
///         let range = Blocks { start: Block(8 * round), count: 8 };
///         host.write(range, Durability::Normal).await?;
///         if round % 2 == 0 {
///             host.flush().await?;
///         }
///         ram.cut();
///         ram.power_on().await?;
///         violations.extend(oracle.check(&ram.device()).await?);
///     }
///     Ok::<_, tantalum_device::IoError>(violations)
/// });
/// assert!(violations.unwrap().unwrap().is_empty()); // only what was not flushed is lost
/// ```
#[derive(Clone)]
pub struct Oracle {
    caps: Rc<Caps>,
    history: Rc<RefCell<History>>,
}

impl Oracle {
    /// For a device that promises `caps` and holds zeros only. Pieces of blocks are
    /// told apart down to 8 bytes, so block size and atomic unit should be multiples of
    /// that.
    pub fn new(caps: &Caps) -> Oracle {
        Oracle { caps: Rc::new(*caps), history: Rc::new(RefCell::new(History::new(*caps))) }
    }

    /// What the device is held to.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// A host that sends commands to `device`; several may be at work at once. After
    /// each power cycle it takes a new one.
    pub fn host<D: BlockDevice>(&self, device: D) -> Host<D> {
        Host::new(device, self.clone())
    }

    /// An oracle for a copy of the device that is cut at this moment, while the device
    /// itself goes on: it knows what this one knows, and neither learns from the other.
    #[must_use]
    pub fn fork(&self) -> Oracle {
        let history = self.history.borrow().at_a_cut();
        Oracle { caps: self.caps.clone(), history: Rc::new(RefCell::new(history)) }
    }

    /// Reads every block of `device`, which has recovered from a cut, and gives all
    /// violations since the last check, those of reads included. What it saw
    /// is durable from now on.
    ///
    /// No command may be in flight.
    ///
    /// # Errors
    /// [`IoError::PowerLost`] if the power went meanwhile: check again after the
    /// next recovery.
    pub async fn check<D: BlockDevice>(&self, device: &D) -> Result<Vec<Violation>, IoError> {
        let piece = self.history.borrow().piece;
        let mut seen: FxHashMap<u64, Pieces> = FxHashMap::default();
        let mut unreadable = Vec::new();
        let mut at = 0;
        while at < self.caps.blocks {
            let count = CHUNK.min(self.caps.blocks - at);
            let range = Blocks { start: Block(at), count };
            host::read_each(device, range, |block, data| match data {
                Ok(data) => match content::pieces(data, block.0, piece) {
                    Pieces::Whole(0) => {}
                    pieces => drop(seen.insert(block.0, pieces)),
                },
                Err(error) => {
                    seen.insert(block.0, Pieces::Whole(GARBAGE));
                    unreadable.push(Violation::Unreadable { block, error });
                }
            })
            .await?;
            at += count;
        }
        let mut history = self.history.borrow_mut();
        for v in unreadable {
            history.report(v);
        }
        check::check(&mut history, &seen);
        history.rebase(seen);
        Ok(std::mem::take(&mut history.violations))
    }

    /// The violations since the last check or call, without looking at the device.
    pub fn take_violations(&self) -> Vec<Violation> {
        std::mem::take(&mut self.history.borrow_mut().violations)
    }

    fn unrefused(&self, command: Id) {
        self.history.borrow_mut().report(Violation::Unrefused { command });
    }
}
