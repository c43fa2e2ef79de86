//! The baseline: a log that is striped over its devices. Each request is cut at the borders of the
//! stripes, and is done when all its parts are. A stripe of half a request splits each request in
//! two; a long stripe makes devices skip the requests of others.
//!
//! 1. The device of a byte is its offset in the log / stripe, mod the number of devices.
//! 2. A device has one write at a time, in the order of the requests.
//! 3. As in any log a request is durable only when all before it are.
//!
//! It is for comparison: nothing recovers it.

use super::AppendError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use tantalum_device::{Block, BlockDevice, Data, Durability, IoError};
use tantalum_rt::sync::{Mutex, WaitQueue};
use tantalum_rt::{Rt, join_all};

/// A striped log.
pub struct StripedLog<D> {
    lanes: Vec<Lane<D>>,
    stripe: u64,
    end: Cell<u64>,
    /// Requests so far.
    begun: Cell<u64>,
    /// Those whose writes have not ended, by number.
    pending: RefCell<BTreeSet<u64>>,
    ended: WaitQueue,
    failure: RefCell<Option<IoError>>,
}

struct Lane<D> {
    device: D,
    turn: Mutex,
    /// The next block.
    next: Cell<u64>,
}

impl<D: BlockDevice> StripedLog<D> {
    /// Over these devices, in stripes of so many bytes, a multiple of their blocks.
    pub fn new(rt: &Rt, devices: Vec<D>, stripe: u64) -> StripedLog<D> {
        let lane = |device| Lane {
            device,
            turn: Mutex::new(rt, "a device of a striped log"),
            next: Cell::new(0),
        };
        StripedLog {
            lanes: devices.into_iter().map(lane).collect(),
            stripe,
            end: Cell::new(0),
            begun: Cell::new(0),
            pending: RefCell::default(),
            ended: WaitQueue::new(rt, "an earlier request of a striped log"),
            failure: RefCell::default(),
        }
    }

    /// Appends a request of so many bytes; it and all before it are durable when this returns.
    ///
    /// # Errors
    /// [`AppendError::Io`].
    pub async fn append(&self, bytes: u64) -> Result<(), AppendError> {
        let from = self.end.replace(self.end.get() + bytes);
        let shares = shares(from, bytes, self.stripe, self.lanes.len());
        let parts = self.lanes.iter().zip(shares).filter(|(_, share)| *share > 0);
        let number = self.begun.replace(self.begun.get() + 1);
        self.pending.borrow_mut().insert(number);
        let written = join_all(parts.map(|(lane, share)| lane.write(share)).collect()).await;
        match written.into_iter().collect::<Result<(), IoError>>() {
            Ok(()) => self.pending.borrow_mut().remove(&number),
            Err(error) => self.failure.borrow_mut().replace(error).is_none(),
        };
        self.ended.notify_all();
        let is_durable = || self.pending.borrow().first().is_none_or(|first| *first > number);
        self.ended.until(|| is_durable() || self.failure.borrow().is_some()).await;
        match self.failure.borrow().clone().filter(|_| !is_durable()) {
            None => Ok(()),
            Some(error) => Err(AppendError::Io(error)),
        }
    }
}

/// How many of `bytes` from `from` on go to each device.
fn shares(mut from: u64, bytes: u64, stripe: u64, devices: usize) -> Vec<u64> {
    let (mut shares, end) = (vec![0; devices], from + bytes);
    while from < end {
        let border = (from / stripe + 1) * stripe;
        let device = (from / stripe) % devices as u64;
        shares[device as usize] += border.min(end) - from;
        from = border;
    }
    shares
}

impl<D: BlockDevice> Lane<D> {
    async fn write(&self, bytes: u64) -> Result<(), IoError> {
        let _turn = self.turn.lock().await;
        let caps = self.device.caps();
        let blocks = bytes / u64::from(caps.block_size);
        if self.next.get() + blocks > caps.blocks {
            self.next.set(0);
        }
        let at = self.next.replace(self.next.get() + blocks);
        let data = vec![0; bytes as usize];
        self.device.write(Block(at), Data::Bytes(&data), Durability::Fua).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use tantalum_device::{Caps, Payload, RamDevice, RamOptions};
    use tantalum_rt::{Nanos, Runtime};

    #[test]
    fn a_request_is_durable_when_all_before_it_are() {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let ends = runtime.block_on(async move {
            let device = |us| {
                let caps = Caps { block_size: 512, ..Caps::power_safe(1000, Payload::Bytes) };
                let (command, jitter) = (Nanos::from_micros(us), Nanos(0));
                RamDevice::new(&rt, RamOptions { command, jitter, ..RamOptions::new(caps) })
            };
            // Of three requests the second one is on the quick device.
            let log = Rc::new(StripedLog::new(&rt, vec![device(500), device(10)], 512));
            let append = |_| {
                let (log, rt) = (log.clone(), rt.clone());
                async move {
                    log.append(512).await.unwrap();
                    rt.now().0 / 1000
                }
            };
            join_all((0..3).map(append).collect()).await
        });
        assert_eq!(ends.unwrap(), [500, 500, 1000]);
    }

    #[test]
    fn a_byte_lies_where_its_offset_says() {
        assert_eq!(shares(0, 4096, 2048, 2), [2048, 2048]);
        assert_eq!(shares(0, 4096, 512, 2), [2048, 2048]);
        assert_eq!(shares(65536 - 512, 4096, 65536, 2), [512, 3584]);
        assert_eq!(shares(65536 * 3, 4096, 65536, 2), [0, 4096]);
        assert_eq!(shares(1024, 4096, 1024, 3), [1024, 2048, 1024]);
    }
}
