//! A device that breaks its word.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{
    AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent, IoError,
    OwnedData, PowerCycle, RamDevice, RamOptions, forward,
};
use tantalum_rt::{Nanos, Rt, Stream};

/// An honest device whose commands complete out of order.
pub fn ram(rt: &Rt, caps: Caps) -> RamDevice {
    let us = Nanos::from_micros;
    let (command, jitter, flush, start) = (us(10), us(90), us(200), us(1000));
    RamDevice::new(rt, RamOptions { command, jitter, flush, start, ..RamOptions::new(caps) })
}

/// How a [`Liar`] breaks its word, beyond promising what the device below does not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    Nothing,
    FlushDoesNothing,
    FuaDoesNothing,
    WritesComeLate,
    OldDataComeBack,
    DiscardsComeBack,
    GroupsAreSplit,
    GroupsAreNotRefused,
    WritesGoAstray,
    RefusedWritesAreDone,
    ReadsAreStale,
    FailedFlushIsForgotten,
    BlocksRot,
}

/// A RAM device that promises other things than it keeps.
#[derive(Clone)]
pub struct Liar {
    inner: RamDevice,
    caps: Caps,
    lie: Lie,
    dice: Rc<RefCell<Stream>>,
    /// Content that was replaced in this power cycle.
    old: Rc<RefCell<Vec<(Block, OwnedData)>>>,
    failed: Rc<Cell<bool>>,
}

impl Liar {
    pub fn new(rt: &Rt, keeps: Caps, promises: Caps, lie: Lie) -> Liar {
        let dice = Rc::new(RefCell::new(rt.stream("liar")));
        let (old, failed) = Default::default();
        Liar { inner: ram(rt, keeps), caps: promises, lie, dice, old, failed }
    }

    fn chance(&self, den: u64) -> bool {
        self.dice.borrow_mut().chance(1, den)
    }

    async fn remember(&self, at: Block) -> Result<(), IoError> {
        let mut room = OwnedData::zeros(self.caps.payload, 1, self.caps.block_size);
        self.inner.read(at, room.as_mut()).await?;
        self.old.borrow_mut().push((at, room));
        Ok(())
    }
}

impl BlockDevice for Liar {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn is_alive(&self) -> bool {
        self.inner.is_alive()
    }

    async fn read(&self, at: Block, mut buf: DataMut<'_>) -> Result<(), IoError> {
        self.inner.read(at, buf.reborrow()).await?;
        // Not when everything is read: the medium itself is fine.
        let few = buf.blocks(self.caps.block_size) < Some(self.caps.blocks);
        if self.lie == Lie::ReadsAreStale && few && self.chance(10) {
            buf.zero();
        }
        Ok(())
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        if self.lie == Lie::OldDataComeBack && self.chance(4) {
            self.remember(at).await?;
        }
        if self.lie == Lie::WritesComeLate && self.chance(10) {
            // Acknowledged, and carried out in the next power cycle.
            self.old.borrow_mut().push((at, data.slice(0..1, self.caps.block_size).into()));
            return Ok(());
        }
        let want = if self.lie == Lie::FuaDoesNothing { Durability::Normal } else { want };
        let astray = self.lie == Lie::WritesGoAstray && at.0 > 0 && self.chance(50);
        let at = if astray { Block(at.0 - 1) } else { at };
        self.inner.write(at, data, want).await?;
        match self.lie == Lie::RefusedWritesAreDone && self.chance(20) {
            true => Err(IoError::NoSpace),
            false => Ok(()),
        }
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        let split = match self.lie {
            Lie::GroupsAreSplit => self.caps.check_group(group).is_ok(),
            Lie::GroupsAreNotRefused => self.caps.check_group(group).is_err(),
            _ => false,
        };
        if !split {
            return self.inner.write_atomic(group).await;
        }
        for e in group {
            // (Each survives by itself, as a group that has completed does.)
            self.inner.write(e.at, e.data, Durability::Fua).await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), IoError> {
        match self.lie {
            Lie::FlushDoesNothing => Ok(()),
            Lie::FailedFlushIsForgotten if !self.failed.replace(true) => {
                Err(IoError::Failed("once"))
            }
            _ => self.inner.flush().await,
        }
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        if self.lie == Lie::DiscardsComeBack {
            self.remember(range.start).await?;
        }
        self.inner.discard(range).await
    }
}

impl PowerCycle for Liar {
    type Device = Liar;

    forward!(inner: cut, off);

    fn device(&self) -> Liar {
        Liar { inner: self.inner.device(), ..self.clone() }
    }

    async fn power_on(&self) -> Result<(), IoError> {
        self.inner.power_on().await?;
        let device = self.inner.device();
        let old = std::mem::take(&mut *self.old.borrow_mut());
        for (at, data) in old {
            if self.chance(3) {
                device.write(at, data.as_data(), Durability::Fua).await?;
            }
        }
        if self.lie == Lie::BlocksRot && self.chance(2) {
            let mut room = vec![0; 4096];
            device.read(Block(7), DataMut::Bytes(&mut room)).await?;
            room[100] ^= 4;
            device.write(Block(7), Data::Bytes(&room), Durability::Fua).await?;
        }
        Ok(())
    }
}
