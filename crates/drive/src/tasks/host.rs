//! The host's side: commands as they come over the link.
//!
//! 1. Admission, copy and acknowledgement of a write happen in one poll: a command that
//!    was not fully received changes nothing. (Up to the atomic unit of a protected drive; of
//!    others up to one page, or a part of it if they shear.)
//! 2. Commands are admitted in the order in which they arrived; a large one that waits
//!    for room is not overtaken, unless the drive is disorderly: then others go between its
//!    pieces.
//! 3. Nothing that outlives a command is in its future: dropping it stops only the waiting.

use crate::firmware::{Firmware, HOST_FAILED};
use crate::format::unit_journal::Entry;
use crate::format::words::{Lpn, MORE, PART};
use crate::planted::planted;
use crate::state::buffer::CopyId;
use crate::{CacheMode, FlushMode, ForcedAccess};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use tantalum_device::{
    Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent,
    IoError, Link, OwnedData, Payload,
};
use tantalum_nand::{ImageFile, PageState, ReadRequest, SECTOR_BYTES};
use tantalum_rt::Nanos;

/// Entries discarded in one step, at most.
const DISCARD_STEP: u64 = 512;

/// Entries of the map looked at for one question about it, at most.
const QUESTION_STEP: u64 = 1 << 16;

/// Pages that a disorderly drive admits of one command before others may go between.
const DISORDERLY_PIECE: u64 = 8;

/// The host's end of a drive's link. Dead after a cut; cheap to clone.
///
/// ```
/// use tantalum_device::{Block, BlockDevice, Blocks, Data, DataMut, Durability, IoError};
/// use tantalum_device::{Payload, PowerCycle};
/// use tantalum_drive::{Design, Drive};
/// use tantalum_rt::Runtime;
///
/// let small = "geometry.blocks = 64\ngeometry.pages = 64".parse()?;
/// let design = Design::preset("durassd")?.with_overrides(&small)?;
/// let mut runtime = Runtime::virtual_time(1);
/// let drive = Drive::new(&runtime.handle(), &design, Payload::Stamps)?;
/// let read = runtime.block_on(async move {
///     drive.power_on().await?;
///     let link = drive.device();
///     link.write(Block(0), Data::Stamps(&[1, 2]), Durability::Normal).await?;
///     link.discard(Blocks { start: Block(1), count: 1 }).await?;
///
///     drive.cut();
///     drive.off().await;
///     drive.power_on().await?;
///     assert_eq!(link.flush().await, Err(IoError::PowerLost)); // the power has another link
///     let mut blocks = [9; 2];
///     drive.device().read(Block(0), DataMut::Stamps(&mut blocks)).await?;
///     Ok::<_, IoError>(blocks)
/// });
/// assert_eq!(read.unwrap()?, [1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DriveLink {
    pub(crate) link: Link,
    pub(crate) caps: Caps,
    pub(crate) firmware: Option<Rc<Firmware>>,
    /// The image, which is made durable on the host's disk if it was opened for that.
    pub(crate) image: Option<ImageFile>,
}

impl DriveLink {
    /// Waits until everything stored in the image so far survives a crash of the host, if the drive
    /// was opened for that.
    async fn host_sync(&self) -> Result<(), IoError> {
        let ticket = self.image.as_ref().and_then(ImageFile::ticket);
        let (Some(ticket), Some(firmware)) = (ticket, &self.firmware) else { return Ok(()) };
        // The thread that waits for the host's disk will wake this one: something is expected from
        // outside.
        let _coming = firmware.rt.inbox_of::<()>(1);
        ticket.await.map_err(|_| {
            // What is acknowledged from here on could not be made durable either.
            firmware.fail(HOST_FAILED);
            IoError::Failed(HOST_FAILED)
        })
    }

    fn firmware(&self) -> Result<&Firmware, IoError> {
        self.firmware.as_deref().ok_or(IoError::PowerLost)
    }
}

impl BlockDevice for DriveLink {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn is_alive(&self) -> bool {
        self.firmware.is_some() && self.link.is_alive()
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let body = pin!(async { self.firmware()?.read(at, buf).await });
        self.link.command("a read", body).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        if planted!(AckEarly) {
            let fw = self.firmware.clone().ok_or(IoError::PowerLost)?;
            let (link, data) = (self.link.clone(), OwnedData::from(data));
            self.firmware()?.rt.spawn_background("a late write", async move {
                link.command("a late write", fw.write(at, data.as_data(), want)).await
            });
            let passed = async {
                self.firmware()?.pass_link().await;
                Ok(())
            };
            return self.link.command("a write", passed).await;
        }
        let body = pin!(async { self.firmware()?.write(at, data, want).await });
        self.link.command("a write", body).await?;
        if want == Durability::Fua { self.host_sync().await } else { Ok(()) }
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        let body = pin!(async { self.firmware()?.write_group(group).await });
        self.link.command("an atomic group", body).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        let body = pin!(async { self.firmware()?.flush().await });
        self.link.command("a flush", body).await?;
        self.host_sync().await
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let body = pin!(async { self.firmware()?.discard(range).await });
        self.link.command("a discard", body).await
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        let body = pin!(async { self.firmware()?.allocation(range).await });
        self.link.command("a question about the map", body).await
    }
}

/// While it lives, the flusher does not wait for full rows.
struct Urgent<'a>(&'a Firmware);

impl<'a> Urgent<'a> {
    fn new(fw: &'a Firmware) -> Urgent<'a> {
        fw.host.urgent.set(fw.host.urgent.get() + 1);
        fw.flusher.work.notify_all();
        Urgent(fw)
    }
}

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        self.0.host.urgent.set(self.0.host.urgent.get() - 1);
    }
}

/// While it lives, a host waits for room: pages that do not fill a row must not keep it
/// from that for ever.
struct Starved<'a>(&'a Firmware);

impl<'a> Starved<'a> {
    fn new(fw: &'a Firmware) -> Starved<'a> {
        fw.host.starved.set(true);
        fw.announce_work();
        Starved(fw)
    }
}

impl Drop for Starved<'_> {
    fn drop(&mut self) {
        self.0.host.starved.set(false);
    }
}

impl Firmware {
    pub fn healthy(&self) -> Result<(), IoError> {
        self.look_for_defects();
        match (self.is_poisoned(), self.defect()) {
            // (A durability step failed: contract, 6.)
            (true, Some(HOST_FAILED)) => Err(IoError::Poisoned),
            (true, Some(why)) => Err(IoError::Failed(why)),
            (true, None) if self.is_read_only() => Err(IoError::ReadOnly),
            (true, None) => Err(IoError::Poisoned),
            (false, _) => Ok(()),
        }
    }

    /// From here on the changes of this command in protected memory survive the process. If they do
    /// not, the command is not acknowledged.
    pub fn keep_changes(&self) -> Result<(), IoError> {
        if self.publish() && self.defect().is_none() { Ok(()) } else { self.still_healthy() }
    }

    /// The same for a command that was carried out in part: it may leave a trace.
    pub fn still_healthy(&self) -> Result<(), IoError> {
        match self.healthy() {
            Err(IoError::ReadOnly) => Err(IoError::Failed("the drive's life ended meanwhile")),
            health => health,
        }
    }

    /// Whether a power loss would lose nothing, of a drive that takes no more writes.
    fn is_settled(&self) -> bool {
        let stored = || self.state.log.borrow().durable() >= self.state.map.borrow().version();
        let empty = || self.state.buffer.borrow().used() == 0;
        self.design.is_protected() || self.began_read_only() || empty() && stored()
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let block_size = self.caps.block_size;
        let blocks = self.caps.check(at, data.kind(), data.blocks(block_size))?;
        self.healthy()?;
        let bytes = blocks * u64::from(block_size);
        let _place = self.host.queue.acquire(1).await;
        self.take_data(bytes).await;
        let at_once = self.design.cache.mode == CacheMode::Through;
        let fua = at_once || want == Durability::Fua && self.flush_drains();
        let through = at_once || self.design.cache.mode == CacheMode::Off;
        if through {
            self.work_for(self.design.firmware.through_us).await;
        }
        let mut own = (fua && !through && self.can_hasten()).then(Vec::new);
        let half = u64::from(self.design.buffer_slots() / 2);
        let disorder = self.design.is_disorderly();
        let shears = self.shears();
        let most = match () {
            () if self.design.is_protected() => u64::from(self.caps.atomic_unit / SECTOR_BYTES),
            () if shears => 1,
            () if disorder => DISORDERLY_PIECE.min(half),
            () => half,
        };
        // (A piece of smaller blocks may lie in one sector more.)
        let spare = u64::from(self.sector_blocks() > 1 && !self.design.is_protected());
        let most = most.saturating_sub(spare).max(1) * self.sector_blocks();
        let all = Blocks { start: at, count: blocks };
        let mut ahead = self.read_ahead(std::iter::once(all));
        let mut turn = Some(self.host.arrival.lock().await);
        if self.layout.is_thin() {
            // What is live is not known before.
            self.until_whole().await;
        }
        let pages = self.pages(all);
        let grant = match self.layout.is_thin() {
            true => self.grant_room(std::slice::from_ref(&pages)).await?,
            false => None,
        };
        let mut first = 0;
        while first < blocks {
            let count = most.min(blocks - first);
            let piece = data.slice(first as usize..(first + count) as usize, block_size);
            let range = Blocks { start: Block(at.0 + first), count };
            if disorder && turn.is_none() {
                turn = Some(self.host.arrival.lock().await);
            }
            if self.groups.under_way.borrow().are_open() {
                self.until_no_group(&pages).await;
            }
            if shears && let Data::Bytes(page) = piece {
                let rest = self.admit_part(Lpn((at.0 + first) as u32), page).await?;
                drop(turn.take());
                self.rt.sleep(rest).await;
                turn = Some(self.host.arrival.lock().await);
            }
            let whole = self.whole(range, piece, &mut ahead).await?;
            let piece = whole.as_deref().map_or(piece, Data::Bytes);
            let sectors = self.sectors(range);
            let taken = sectors.end - sectors.start;
            self.take_room(taken).await;
            if first == 0 && !shears { self.healthy() } else { self.still_healthy() }?;
            if planted!(SplitAdmission) && taken > 1 {
                self.admit(sectors.start, piece.slice(0..1, SECTOR_BYTES));
                self.rt.sleep(Nanos(1_000)).await;
                self.admit(sectors.start + 1, piece.slice(1..taken as usize, SECTOR_BYTES));
            } else {
                self.admit(sectors.start, piece);
            }
            self.keep_changes()?;
            if let Some(copies) = &mut own {
                self.hasten(sectors, copies);
            }
            first += count;
            if disorder {
                drop(turn.take());
            }
        }
        drop((grant, turn));
        self.stats.host_writes.add(1);
        self.stats.host_write_bytes.add(bytes);
        match own {
            Some(copies) => self.program_copies(&copies).await?,
            None if through || fua => self.program_so_far().await?,
            None => {}
        }
        if fua && !planted!(FuaWithoutMap) {
            self.store_map_so_far().await?;
        }
        Ok(())
    }

    /// Waits for room in the buffer. The caller has the turn to be admitted.
    pub async fn take_room(&self, count: u64) {
        if self.host.room.try_take(count) {
            return;
        }
        let asked = self.rt.now();
        {
            let _starved = (self.host.room.free() < count).then(|| Starved::new(self));
            self.host.room.take(count).await;
        }
        self.stats.buffer_wait.add((self.rt.now() - asked).0);
    }

    /// Takes in the first part of a page; the dice say how much has arrived. The rest is what the
    /// page held before. Returns how long the rest takes on the link. The caller has the turn to be
    /// admitted, so that the page does not change meanwhile.
    async fn admit_part(&self, lpn: Lpn, page: &[u8]) -> Result<Nanos, IoError> {
        self.take_room(1).await;
        let pieces = u64::from(SECTOR_BYTES / self.caps.atomic_unit);
        let arrived = (1 + self.state.buffer.borrow_mut().roll(pieces - 1)) as usize;
        let arrived = arrived * self.caps.atomic_unit as usize;
        let mut mixed = vec![0; page.len()];
        let mut room = DataMut::Bytes(&mut mixed);
        let mut readable = true;
        if !self.state.buffer.borrow().read(lpn, room.reborrow()) {
            let ppa = self.state.map.borrow().get(lpn);
            if let Some(ppa) = ppa {
                let (at, first) = self.places.page(ppa);
                let (mut states, mut words) = ([PageState::Erased], vec![0; self.nand.oob_words()]);
                let (data, oob) = (Some(room), Some(&mut words[..]));
                let request = ReadRequest { at, count: 1, first, data, oob, states: &mut states };
                self.stats.flash_reads.add(1);
                let op = self.must(self.nand.read(request));
                op.ok_or(IoError::Failed("the flash array took no read"))?.await;
                let own = words[2 + first as usize] & !(PART | MORE) == u64::from(lpn.0);
                readable = states[0] == PageState::Programmed && own;
            }
        }
        if self.is_poisoned() || !readable {
            // There is nothing to mix with, so the page comes whole.
            self.host.room.release(1);
            self.still_healthy()?;
            return Ok(Nanos::ZERO);
        }
        mixed[..arrived].copy_from_slice(&page[..arrived]);
        self.admit(lpn.0.into(), Data::Bytes(&mixed));
        let rest = self.on_link((page.len() - arrived) as u64);
        Ok(Nanos(rest * 1_000 / self.design.link.mb_s))
    }

    /// Whether pages arrive in parts, of which a power loss may leave some.
    pub fn shears(&self) -> bool {
        let bytes = self.caps.payload == Payload::Bytes;
        bytes && self.design.cache.shear_bytes < SECTOR_BYTES
    }

    /// Takes pages into the buffer, for which there is room. In one go: after this they
    /// are all there, before it none; and none where there is no room after all: that is not
    /// acknowledged (see [`Firmware::keep_changes`]).
    pub fn admit(&self, first: u64, data: Data<'_>) {
        let mut buffer = self.state.buffer.borrow_mut();
        let blocks = data.blocks(SECTOR_BYTES).unwrap_or(0);
        if u64::from(buffer.used()) + blocks > u64::from(self.design.buffer_slots()) {
            drop(buffer);
            return self.fail("more pages were to be admitted than there is room for");
        }
        let mut replaced = 0;
        for i in 0..blocks {
            let page = data.slice(i as usize..i as usize + 1, SECTOR_BYTES);
            if !buffer.insert(Lpn((first + i) as u32), page) {
                replaced += 1;
            }
        }
        drop(buffer);
        if replaced > 0 {
            self.stats.coalesced_bytes.add(replaced * u64::from(SECTOR_BYTES));
            self.host.room.release(replaced);
        }
        self.announce_work();
    }

    /// Waits until all that is in the buffer now is on flash.
    pub async fn program_so_far(&self) -> Result<(), IoError> {
        let epoch = self.state.buffer.borrow_mut().close_epoch();
        let _urgent = Urgent::new(self);
        let flown = || planted!(FlushSkipsFlying) && self.state.buffer.borrow().waiting() == 0;
        let done = || self.state.buffer.borrow().epoch_done(epoch) || self.is_poisoned() || flown();
        self.flusher.epochs.until(done).await;
        self.still_healthy()
    }

    /// Whether a forced write waits for its own pages. These may then go to flash before those that
    /// arrived earlier: the drive promises no order, and no page is the last one of a group because
    /// of when it is programmed.
    fn can_hasten(&self) -> bool {
        let own = self.design.cache.fua == ForcedAccess::OwnPages;
        own && !self.caps.ordered && !self.groups.scheme.is_alone()
    }

    /// A command waits for these pages alone, which were just admitted.
    fn hasten(&self, pages: Range<u64>, copies: &mut Vec<CopyId>) {
        let mut buffer = self.state.buffer.borrow_mut();
        copies.extend(pages.filter_map(|page| buffer.hasten(Lpn(page as u32))));
        drop(buffer);
        self.announce_work();
    }

    /// Waits until these copies, or what was written over them in the buffer, are on flash. Those
    /// that were discarded need not be.
    async fn program_copies(&self, copies: &[CopyId]) -> Result<(), IoError> {
        let done = || {
            let buffer = self.state.buffer.borrow();
            !copies.iter().any(|copy| buffer.is_under_way(*copy)) || self.is_poisoned()
        };
        self.flusher.epochs.until(done).await;
        self.still_healthy()
    }

    /// Waits until all changes of the map so far are on flash.
    async fn store_map_so_far(&self) -> Result<(), IoError> {
        let version = self.state.map.borrow().version();
        if self.state.log.borrow().durable() < version || self.design.is_protected() {
            self.work_for(self.design.firmware.map_us).await;
            self.drain_map().await;
        }
        self.still_healthy()
    }

    async fn flush(&self) -> Result<(), IoError> {
        let _place = self.host.queue.acquire(1).await;
        self.pass_link().await;
        match self.healthy() {
            Err(IoError::ReadOnly) if self.is_settled() => {}
            health => health?,
        }
        if self.is_read_only() || self.design.cache.flush == FlushMode::Ignore {
            // Nothing is left to do, or nothing is to be done.
        } else if self.flush_drains() {
            if self.state.buffer.borrow().used() > 0 {
                // Programs that the flush finds under way save none of the firmware's own time.
                self.program_so_far().await?;
                self.work_for(self.design.firmware.flush_us).await;
            }
            self.store_map_so_far().await?;
        } else {
            // Whatever arrived before is in the protected buffer, or waits its turn to be:
            // after that turn a flush is done.
            drop(self.host.arrival.lock().await);
            self.healthy()?;
        }
        self.stats.flushes.add(1);
        Ok(())
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.caps.check_range(range)?;
        self.healthy()?;
        let _place = self.host.queue.acquire(1).await;
        self.pass_link().await;
        let _turn = self.host.arrival.lock().await;
        self.until_whole().await;
        self.until_no_group(&self.pages(range)).await;
        self.discard_parts(range).await?;
        let is_part = self.parts(range).next().is_some();
        let sectors = self.whole_sectors(range);
        let mut done = sectors.start;
        while done < sectors.end {
            let step = DISCARD_STEP.min(self.changes_at_once().into());
            let count = step.min(sectors.end - done);
            let pages = (done..).take(count as usize).map(|i| Lpn(i as u32));
            let reserved = self.begin_changes(pages).await;
            if done == sectors.start && !is_part { self.healthy() } else { self.still_healthy() }?;
            // What was born before does not count.
            let (first, sequence) = (Lpn(done as u32), self.state.sequence.get() - 1);
            self.enter(Entry::Gone { first, count: count as u32, sequence });
            for i in 0..count {
                let lpn = Lpn((done + i) as u32);
                let freed = self.state.buffer.borrow_mut().discard(lpn);
                if freed > 0 {
                    self.host.room.release(freed.into());
                }
                if self.state.map.borrow().get(lpn).is_some() {
                    self.remap(lpn, None);
                }
            }
            self.end_changes(reserved);
            self.flusher.epochs.notify_all();
            self.keep_changes()?;
            done += count;
        }
        if self.design.cache.mode == CacheMode::Through {
            if is_part {
                self.program_so_far().await?;
            }
            self.store_map_so_far().await?;
        }
        self.stats.discard_bytes.add(range.count * u64::from(self.caps.block_size));
        Ok(())
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        self.caps.check_range(range)?;
        self.pass_link().await;
        let (each, sectors) = (self.sector_blocks(), self.sectors(range));
        let count = (sectors.end - sectors.start).min(QUESTION_STEP);
        if !self.know(Lpn(sectors.start as u32), count).await {
            return Err(IoError::Failed("the map cannot be read"));
        }
        let (buffer, map) = (self.state.buffer.borrow(), self.state.map.borrow());
        let is_hole = |i: u64| {
            let lpn = Lpn((sectors.start + i) as u32);
            map.get(lpn).is_none() && !buffer.contains(lpn)
        };
        let hole = is_hole(0);
        let alike = (1..count).find(|i| is_hole(*i) != hole).unwrap_or(count);
        let blocks = (sectors.start + alike) * each - range.start.0;
        Ok(Allocation { blocks: blocks.min(range.count), hole })
    }

    async fn read(&self, at: Block, mut buf: DataMut<'_>) -> Result<(), IoError> {
        let block_size = self.caps.block_size;
        let blocks = self.caps.check(at, buf.kind(), buf.blocks(block_size))?;
        let _place = self.host.queue.acquire(1).await;
        self.pass_link().await;
        let range = Blocks { start: at, count: blocks };
        let (each, sectors) = (self.sector_blocks(), self.sectors(range));
        let count = sectors.end - sectors.start;
        if !self.know(Lpn(sectors.start as u32), count).await {
            return Err(IoError::Failed("the map cannot be read"));
        }
        let wrong = match (&mut buf, self.parts(range).next()) {
            (DataMut::Bytes(to), Some(_)) => {
                let mut whole = vec![0; count as usize * SECTOR_BYTES as usize];
                let wrong =
                    self.read_sectors(sectors.start, count, DataMut::Bytes(&mut whole)).await?;
                let skipped = (at.0 - sectors.start * each) as usize * block_size as usize;
                to.copy_from_slice(&whole[skipped..skipped + to.len()]);
                wrong
            }
            (buf, _) => self.read_sectors(sectors.start, count, buf.reborrow()).await?,
        };
        if let Some(sector) = wrong {
            return Err(IoError::Uncorrectable(Block((sector * each).max(at.0))));
        }
        let bytes = blocks * u64::from(block_size);
        self.pass_data(bytes).await;
        self.stats.host_reads.add(1);
        self.stats.host_read_bytes.add(bytes);
        Ok(())
    }

    /// Reads `blocks` sectors from `at` on, which the map knows. The first that cannot be read, if
    /// there is one.
    async fn read_sectors(
        &self,
        at: u64,
        blocks: u64,
        mut buf: DataMut<'_>,
    ) -> Result<Option<u64>, IoError> {
        // (Neither takes memory for what is buffered.)
        let (mut ops, mut words) = (Vec::new(), Vec::new());
        let mut i = 0;
        while i < blocks {
            let lpn = |i: u64| Lpn((at + i) as u32);
            let one = i as usize..i as usize + 1;
            if self.state.buffer.borrow().read(lpn(i), buf.slice(one.clone(), SECTOR_BYTES)) {
                i += 1;
                continue;
            }
            let Some(ppa) = self.state.map.borrow().get(lpn(i)) else {
                buf.slice(one, SECTOR_BYTES).zero();
                i += 1;
                continue;
            };
            // Neighbours in the same page come with one read.
            let (page, sector) = self.places.page(ppa);
            let mut count = 1;
            while i + count < blocks
                && sector + (count as u32) < self.places.page_sectors
                && !self.state.buffer.borrow().contains(lpn(i + count))
                && self
                    .state
                    .map
                    .borrow()
                    .get(lpn(i + count))
                    .is_some_and(|p| p.0 == ppa.0 + count as u32)
            {
                count += 1;
            }
            let mut state = [PageState::Erased];
            words.resize(self.nand.oob_words(), 0);
            let op = self.nand.read(ReadRequest {
                at: page,
                count: 1,
                first: sector,
                data: Some(buf.slice(i as usize..(i + count) as usize, SECTOR_BYTES)),
                oob: Some(&mut words),
                states: &mut state,
            });
            self.stats.flash_reads.add(1);
            let op = self.must(op).ok_or(IoError::Failed("the flash array took no read"))?;
            // Each sector has its logical page number beside it. A sector with another number is
            // never served.
            let found = words[2 + sector as usize..].iter().take(count as usize);
            let named = |word: u64| word & !(PART | MORE);
            let wrong = (i..).zip(found).find(|(i, word)| named(**word) != u64::from(lpn(*i).0));
            let wrong =
                if state[0] == PageState::Programmed { wrong.map(|w| w.0) } else { Some(i) };
            ops.push((op, wrong.map(|i| at + i)));
            i += count;
        }
        // It waits for the last first, since most others have ended by then.
        let wrong = ops.iter().find_map(|op| op.1);
        while let Some((op, _)) = ops.pop() {
            op.await;
        }
        Ok(wrong)
    }
}
