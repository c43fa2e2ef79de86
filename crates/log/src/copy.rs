//! The log copied onto a device, while it runs.
//!
//! 1. What is copied was durable before: its bytes do not change any more.
//! 2. It lies in one main stream of the device, in order, as blocks of the present epoch.
//! 3. Groups are written as before until little is left to copy ([`Core::copy_most`]); then they wait
//!    ([`Core::until_paused`]).

use crate::Lsn;
use crate::area::{Area, Place};
use crate::core::Core;
use crate::encode::{bytes_of, encode};
use crate::error::{Damage, LogError};
use crate::format::{block_of, payload};
use crate::member::Member;
use crate::plan::Order;
use std::rc::Rc;
use tantalum_device::{BlockDevice, IoError};
use tantalum_rt::{First, Nanos, first};

/// Bytes that are copied at once, about.
const PIECE: u64 = 64 << 10;

/// What a copy is written to.
pub(crate) struct Onto<'a, D, W> {
    pub member: &'a Member<D>,
    /// A main stream of it.
    pub stream: u8,
    pub area: &'a mut Area,
    /// Writes whole units there, durably.
    pub write: W,
    /// Whether to go on. It is asked before room is taken: what has room is written, or a section
    /// might lack its header.
    pub check: &'a dyn Fn() -> Result<(), LogError>,
    /// Only devices that take part are read, and each read has so much time; `None`: all are read.
    pub patience: Option<Nanos>,
}

impl<D: BlockDevice + Clone + 'static> Core<D> {
    /// Copies from the block of `from` on, as long as that brings the end nearer. Gives up to where.
    /// It is an error if much is left that only grows, and reads have limits.
    pub async fn copy_most(
        self: &Rc<Self>,
        onto: &mut Onto<'_, D, impl AsyncFn(&Place, Vec<u8>) -> Result<(), LogError>>,
        from: Lsn,
    ) -> Result<Lsn, LogError> {
        let (mut copied, mut left) = (from, u64::MAX);
        loop {
            let now = self.durable().since(copied);
            let much = now > self.options.memory as u64 / 2;
            if much && now >= left && onto.patience.is_some() {
                return Err(LogError::Full { first: self.first.get(), end: self.durable() });
            }
            if now <= PIECE || now > left / 2 && !much {
                return Ok(copied);
            }
            left = now;
            copied = self.copy_to(onto, copied, self.durable()).await?;
        }
    }

    /// What a read gives, or that it takes too long.
    pub async fn within<T>(
        &self,
        patience: Option<Nanos>,
        read: impl Future<Output = T>,
    ) -> Result<T, LogError> {
        let Some(patience) = patience else { return Ok(read.await) };
        match first(read, self.rt.sleep(patience)).await {
            First::A(read) => Ok(read),
            First::B(()) => {
                let error = IoError::Failed("it does not answer");
                Err(LogError::Io { device: "a device that is read".to_string(), error })
            }
        }
    }

    /// Nothing new is issued from now on, and what was has ended.
    pub async fn until_paused(self: &Rc<Self>) -> Result<(), LogError> {
        self.plan().pause();
        self.pump();
        let quiet = || self.plan().is_quiet() || self.is_failed();
        self.until_changed(|| !quiet()).await;
        self.check_failed()
    }

    /// Bytes that are copied at once, at most.
    pub fn piece<W>(&self, onto: &Onto<'_, D, W>) -> u64 {
        let most = (PIECE / u64::from(self.unit)).min(u64::from(onto.area.section_room()));
        most * payload(self.unit)
    }

    /// Copies what lies between these LSNs, from the block of the first on. Gives the second.
    pub async fn copy_to(
        &self,
        onto: &mut Onto<'_, D, impl AsyncFn(&Place, Vec<u8>) -> Result<(), LogError>>,
        from: Lsn,
        to: Lsn,
    ) -> Result<Lsn, LogError> {
        let payload = payload(self.unit);
        let most = self.piece(onto);
        let mut merge = match onto.patience {
            Some(_) => self.merge_of(self.streams_present(), from),
            None => self.merge(from),
        };
        let mut block = block_of(from, payload);
        while block < to {
            let mut bytes: Vec<u8> = Vec::new();
            let want = to.since(block).min(most) as usize;
            while bytes.len() < want {
                match self.within(onto.patience, merge.next()).await?? {
                    Some((_, more)) => bytes.extend(more),
                    // What is before the checkpoint in its block may be gone. (Nothing else may be
                    // filled up: what was copied counts.)
                    None if block.plus(bytes.len() as u64) < from.min(self.first.get()) => {
                        bytes.resize(from.min(self.first.get()).since(block) as usize, 0);
                    }
                    None => {
                        let lsn = block.plus(bytes.len() as u64);
                        let place = merge.suspect(lsn);
                        return Err(LogError::Damaged(Damage { lsn, watermark: to, place }));
                    }
                }
            }
            bytes.truncate(want);
            let end = block.plus(want as u64);
            let units = want.div_ceil(payload as usize) as u32;
            (onto.check)()?;
            let Some(place) = onto.area.take(units, block, end, self.first.get()) else {
                return Err(LogError::Full { first: self.first.get(), end: to });
            };
            let order = Order {
                ticket: 0,
                lane: 0,
                device: onto.member.superblock.index as usize,
                stream: onto.stream,
                place,
                block,
                to: end,
                epoch: self.state.borrow().epoch,
                watermark: to.min(self.durable()),
            };
            let copy = |lsn: Lsn, piece: &mut [u8]| {
                let at = lsn.since(block) as usize;
                piece.copy_from_slice(&bytes[at..at + piece.len()]);
            };
            let mut blocks = vec![0; bytes_of(&order, self.unit)];
            encode(&order, copy, self.unit, onto.member.tag, &mut blocks);
            (onto.write)(&order.place, blocks).await?;
            // What ends within a block is repeated.
            block = if end < to { end } else { to };
        }
        Ok(to)
    }
}
