//! The page cache of a host's operating system over a device: buffered reads and writes, write-back
//! and fsync, as Linux has them. What it holds is in [`pages`].
//!
//! 1. A buffered write is in the host's memory when it completes, and nowhere else. A power cut
//!    loses it, unless it was written back. After an fsync (a flush) all that had completed before
//!    is on the device, and durable by the device's own flush, or by its completion where that is
//!    durable. Without barriers the fsync sends no flush.
//! 2. Reads and writes see what is in the cache first. When the device is dead, so is the host:
//!    nothing is read or written in its memory any more.
//! 3. Atomic groups, forced unit access and discards go past it ([`Cached::direct`] does all of
//!    them so): what is dirty at their place is written back first, and nothing clean is kept there
//!    while they are under way. They go on when they are given up.
//! 4. The cache is bounded. A write waits while the limit of dirty blocks is reached.
//! 5. Dirty blocks next to each other go in one command, up to its longest, by ascending place. At
//!    most `depth` commands are under way.
//! 6. Once a command of write-back has failed, all further writes and fsyncs fail in the same way.
//!
//! A read that does not find all of its blocks reads them all by one command, and takes those that
//! are dirty from the cache: so it sees all of a group, or nothing of it.
//!
//! The blocks of the device are those of the file system. All commands have whole ones, so no write
//! has to read first; the cache keeps, dirties and drops them one by one. All of a job is one file,
//! and each call has a processor for itself. There is no read-ahead.

mod pages;
mod settings;

pub use settings::Buffered;

use super::{JobError, file_block};
use pages::{EVERYWHERE, Pages, Run};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use tantalum_device::{
    Ack, Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, CommandKind, Data, DataMut,
    Durability, Extent, IoError, OwnedData, forward,
};
use tantalum_rt::sync::{Semaphore, WaitQueue};
use tantalum_rt::{Join, Nanos, Rt, first};

/// The drive refused what the cache had acknowledged: an error, not a write that may be repeated.
const NO_SPACE: IoError = IoError::Failed("no space left when buffered writes were written back");

/// A device behind a host's page cache or, without settings, without one. Clones share it.
#[derive(Clone)]
pub struct Cached<D> {
    device: D,
    /// `None`: all commands go to the device.
    cache: Option<Rc<Cache<D>>>,
    is_direct: bool,
    caps: Caps,
}

struct Cache<D> {
    rt: Rt,
    device: D,
    settings: Buffered,
    barriers: bool,
    pages: RefCell<Pages>,
    /// Blocks of the device in a page, in a command, and how many may be dirty.
    page: u64,
    longest: u64,
    background: u64,
    limit: u64,
    /// Places of commands of write-back.
    slots: Semaphore,
    /// Dirty blocks became more, or clean; or the cache failed or ends.
    changed: WaitQueue,
    failed: RefCell<Option<IoError>>,
    ends: Cell<bool>,
    writer: RefCell<Option<Join<()>>>,
}

impl<D: BlockDevice + Clone + 'static> Cached<D> {
    /// The device behind the cache, of whose fsyncs `barriers` says whether they flush the device.
    /// A cache must be closed ([`Cached::close`]).
    pub fn new(rt: &Rt, device: D, settings: Option<Buffered>, barriers: bool) -> Cached<D> {
        let mut caps = *device.caps();
        let Some(settings) = settings else {
            return Cached { device, cache: None, is_direct: false, caps };
        };
        let page = file_block(caps.block_size);
        let blocks = settings.cache_pages.saturating_mul(page);
        let part = |percent: u64| (u128::from(blocks) * u128::from(percent) / 100) as u64;
        let limit = part(settings.dirty_percent).max(1);
        let cache = Rc::new(Cache {
            rt: rt.clone(),
            device: device.clone(),
            settings,
            barriers,
            pages: RefCell::new(Pages::new(caps.payload, caps.block_size, blocks)),
            page,
            longest: settings.command_pages.saturating_mul(page),
            background: part(settings.dirty_background_percent).min(limit - 1),
            limit,
            slots: Semaphore::new(rt, "a place for write-back", settings.depth),
            changed: WaitQueue::new(rt, "write-back"),
            failed: RefCell::default(),
            ends: Cell::new(false),
            writer: RefCell::default(),
        });
        *cache.writer.borrow_mut() =
            Some(rt.spawn_background("write-back", cache.clone().in_background()));
        caps.flush = caps.ack.survives() || (caps.flush && barriers);
        caps.ack = Ack::Volatile;
        caps.ordered = false;
        caps.atomic_unit = caps.atomic_unit.min(caps.block_size);
        Cached { device, cache: Some(cache), is_direct: false, caps }
    }

    /// The same, with all commands past the cache.
    pub fn direct(&self) -> Cached<D> {
        Cached { is_direct: true, caps: *self.device.caps(), ..self.clone() }
    }

    /// Writes back what is dirty, if `clean`, and ends the cache.
    ///
    /// # Errors
    /// [`JobError::Io`], if it cannot be written.
    pub async fn close(&self, clean: bool) -> Result<(), JobError> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let done = if clean { cache.write_back(EVERYWHERE).await } else { Ok(()) };
        cache.ends.set(true);
        cache.changed.notify_all();
        if let Some(writer) = cache.writer.take() {
            // It is never cancelled, since it belongs to no power domain.
            let _ = writer.await;
        }
        done.map_err(|error| JobError::Io { kind: CommandKind::Write, at: Block(0), error })
    }

    fn range(&self, at: Block, blocks: Option<u64>) -> Range<u64> {
        at.0..at.0.saturating_add(blocks.unwrap_or(0)).min(self.caps.blocks)
    }
}

impl<D: BlockDevice + Clone + 'static> Cache<D> {
    /// Takes the processor for a call that copies so many blocks.
    async fn work(&self, call_ns: u64, blocks: u64) {
        let copying = u128::from(self.settings.page_ns) * u128::from(blocks);
        let copying = (copying / u128::from(self.page)) as u64;
        self.rt.sleep(Nanos(call_ns.saturating_add(copying))).await;
    }

    /// Whether the host is alive and has written back all that it had to.
    fn check(&self) -> Result<(), IoError> {
        match &*self.failed.borrow() {
            Some(error) => Err(error.clone()),
            None if !self.device.is_alive() => Err(IoError::PowerLost),
            None => Ok(()),
        }
    }

    /// Reads from the cache if all of it is there, and from the device by one command if not.
    async fn read(&self, at: Block, mut buf: DataMut<'_>) -> Result<(), IoError> {
        let caps = *self.device.caps();
        let count = caps.check(at, buf.kind(), buf.blocks(caps.block_size))?;
        self.work(self.settings.call_ns, count).await;
        let range = at.0..at.0 + count;
        loop {
            if !self.device.is_alive() {
                return Err(IoError::PowerLost);
            }
            if self.pages.borrow_mut().read(range.clone(), &mut buf) {
                return Ok(());
            }
            let unclean = self.pages.borrow().unclean_in(range.clone());
            self.fill(range.clone(), buf.reborrow()).await?;
            // If one of them was written back meanwhile, the device may have returned what was
            // there before, and perhaps not.
            if self.pages.borrow_mut().overlay(&unclean, at.0, &mut buf) {
                return Ok(());
            }
        }
    }

    /// Reads from the device, and keeps what it returns.
    async fn fill(&self, range: Range<u64>, mut buf: DataMut<'_>) -> Result<(), IoError> {
        let number = self.pages.borrow_mut().begin_fill(range.clone());
        let mut filling = Filling { pages: &self.pages, range: range.clone(), number };
        self.device.read(Block(range.start), buf.reborrow()).await?;
        filling.range.end = filling.range.start;
        let found = match &buf {
            DataMut::Bytes(bytes) => Data::Bytes(bytes),
            DataMut::Stamps(stamps) => Data::Stamps(stamps),
        };
        self.pages.borrow_mut().end_fill(range, number, Some(found));
        Ok(())
    }

    async fn write(&self, at: Block, data: Data<'_>) -> Result<(), IoError> {
        let caps = *self.device.caps();
        let count = caps.check(at, data.kind(), data.blocks(caps.block_size))?;
        self.work(self.settings.call_ns, count).await;
        for (place, one) in (at.0..).zip(data.each(caps.block_size)) {
            let admitted = || self.pages.borrow().admits(place, self.limit);
            self.changed.until(|| self.failed.borrow().is_some() || admitted()).await;
            self.check()?;
            let mut pages = self.pages.borrow_mut();
            pages.write(place, one, self.rt.now());
            if pages.dirty() == self.background + 1 {
                self.changed.notify_all();
            }
        }
        Ok(())
    }

    /// Carries out a command past the cache, in a task of its own: it goes on if it is given up.
    async fn pass<T: 'static, E: From<IoError> + 'static, C>(
        self: &Rc<Self>,
        ranges: Vec<Range<u64>>,
        command: impl FnOnce(D) -> C + 'static,
    ) -> Result<T, E>
    where
        C: Future<Output = Result<T, E>>,
    {
        let cache = self.clone();
        let task = self.rt.spawn("a command past the page cache", async move {
            for range in &ranges {
                cache.write_back(range.clone()).await?;
            }
            let each = |pass: fn(&mut Pages, Range<u64>)| {
                let mut pages = cache.pages.borrow_mut();
                ranges.iter().for_each(|range| pass(&mut pages, range.clone()));
            };
            each(Pages::begin_pass);
            let done = command(cache.device.clone()).await;
            each(Pages::end_pass);
            done
        });
        // It is never cancelled, since it belongs to no power domain.
        task.await.unwrap_or(Err(IoError::PowerLost.into()))
    }

    async fn fsync(self: &Rc<Self>) -> Result<(), IoError> {
        self.work(self.settings.fsync_ns, 0).await;
        self.write_back(EVERYWHERE).await?;
        if self.barriers { self.device.flush().await } else { Ok(()) }
    }

    /// Writes back what is dirty in `range` at this moment.
    async fn write_back(self: &Rc<Self>, range: Range<u64>) -> Result<(), IoError> {
        let goal = self.pages.borrow().newest();
        self.write_up_to(range, goal).await
    }

    /// Writes back the blocks of `range` with numbers up to `goal`.
    async fn write_up_to(self: &Rc<Self>, range: Range<u64>, goal: u64) -> Result<(), IoError> {
        loop {
            let mut rest = range.clone();
            while let Some(end) = self.send(rest, goal).await {
                rest = end..range.end;
            }
            self.check()?;
            if !self.pages.borrow().is_pending(range.clone(), goal) {
                return Ok(());
            }
            self.changed.wait().await;
        }
    }

    /// Sends one command of write-back, when there is a place for it. Where it ends; `None`
    /// if there is nothing to send, or no use in it.
    async fn send(self: &Rc<Self>, range: Range<u64>, goal: u64) -> Option<u64> {
        if !self.pages.borrow().is_pending(range.clone(), goal) {
            return None;
        }
        self.slots.acquire(1).await.keep();
        let run = match self.check() {
            Ok(()) => self.pages.borrow_mut().take(range, goal, self.longest),
            Err(error) => {
                // Nothing is written back any more: who waits for that is told.
                self.failed.borrow_mut().get_or_insert(error);
                self.changed.notify_all();
                None
            }
        };
        let Some(run) = run else {
            self.slots.release(1);
            return None;
        };
        let end = run.end();
        self.rt.spawn("a command of write-back", self.clone().carry_out(run));
        Some(end)
    }

    async fn carry_out(self: Rc<Self>, run: Run) {
        match self.device.write(Block(run.at), run.data.as_data(), Durability::Normal).await {
            Ok(()) => self.pages.borrow_mut().written(&run),
            Err(error) => {
                let error = if error == IoError::NoSpace { NO_SPACE } else { error };
                self.failed.borrow_mut().get_or_insert(error);
            }
        }
        self.slots.release(1);
        self.changed.notify_all();
    }

    /// Writes back what is too old, and what is too much, until the cache ends or fails.
    async fn in_background(self: Rc<Self>) {
        let over = || self.pages.borrow().dirty() > self.background;
        let ends = || self.ends.get() || self.failed.borrow().is_some();
        let period = Nanos::from_millis(self.settings.writeback_ms);
        let expire = Nanos::from_millis(self.settings.dirty_expire_ms);
        let mut next = 0;
        while !ends() {
            first(self.rt.sleep(period), self.changed.until(|| over() || ends())).await;
            while over() && !ends() {
                match self.send(next..u64::MAX, u64::MAX).await {
                    Some(end) => next = end,
                    None if next > 0 => next = 0,
                    // All of it is under way with older content.
                    None => self.changed.wait().await,
                }
            }
            let now = self.rt.now();
            if now >= expire && !ends() {
                let goal = self.pages.borrow().dirty_since(now - expire);
                // (What fails is kept for those who write and sync.)
                let _ = self.write_up_to(EVERYWHERE, goal).await;
            }
        }
    }
}

/// A read of the device under way. If it fails, or is given up, nothing of it is kept.
struct Filling<'a> {
    pages: &'a RefCell<Pages>,
    range: Range<u64>,
    number: u64,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.pages.borrow_mut().end_fill(self.range.clone(), self.number, None);
    }
}

impl<D: BlockDevice + Clone + 'static> BlockDevice for Cached<D> {
    forward!(device: is_alive, arm_queue, blocks_its_thread);

    fn caps(&self) -> &Caps {
        &self.caps
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let Some(cache) = &self.cache else { return self.device.read(at, buf).await };
        if !self.is_direct {
            return cache.read(at, buf).await;
        }
        cache.write_back(self.range(at, buf.blocks(self.caps.block_size))).await?;
        self.device.read(at, buf).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let Some(cache) = &self.cache else { return self.device.write(at, data, want).await };
        if want == Durability::Normal && !self.is_direct {
            return cache.write(at, data).await;
        }
        let range = self.range(at, data.blocks(self.caps.block_size));
        let data = OwnedData::from(data);
        let write = async move |device: D| device.write(at, data.as_data(), want).await;
        cache.pass(vec![range], write).await
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        let Some(cache) = &self.cache else { return self.device.write_atomic(group).await };
        let range = |e: &Extent<'_>| self.range(e.at, e.data.blocks(self.caps.block_size));
        let ranges = group.iter().map(range).collect();
        let owned: Vec<(Block, OwnedData)> =
            group.iter().map(|e| (e.at, OwnedData::from(e.data))).collect();
        let write = async move |device: D| {
            let group: Vec<Extent<'_>> =
                owned.iter().map(|(at, data)| Extent { at: *at, data: data.as_data() }).collect();
            device.write_atomic(&group).await
        };
        cache.pass(ranges, write).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        match &self.cache {
            Some(cache) if !self.is_direct => cache.fsync().await,
            _ => self.device.flush().await,
        }
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let Some(cache) = &self.cache else { return self.device.discard(range).await };
        let place = self.range(range.start, Some(range.count));
        cache.pass(vec![place], async move |device: D| device.discard(range).await).await
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        if let Some(cache) = &self.cache {
            cache.write_back(self.range(range.start, Some(range.count))).await?;
        }
        self.device.allocation(range).await
    }
}

#[cfg(test)]
mod tests;
