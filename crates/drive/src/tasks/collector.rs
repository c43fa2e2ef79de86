//! Garbage collection: one task for each die moves what is valid out of the unit with
//! the fewest valid sectors, and erases it.
//!
//! 1. A moved page is mapped to its new place only if the map still names the old one.
//! 2. A unit is erased only when it has no valid sector and every change that made its
//!    sectors invalid is durable; the collector asks for that itself, so it never waits
//!    for somebody who waits for it.
//! 3. The collector's last free unit is its own; without one on its die it goes to the
//!    freest other die, one collector at a time: so each that does comes to an end, and
//!    leaves a free unit, or no die has place and the drive's life may be over (`retire`, 5).
//! 4. On the last free unit of a die each program is made durable before the next: a power
//!    loss spoils one row of it, not all.
//! 5. A bad unit is emptied when there is room to spare, and not erased.
//! 6. What is collected because the host is idle is left as it is when the host is back: once
//!    the operation that is under way, or the wait for the map log, is over, nothing more of it
//!    is begun.
//! 7. What cannot be read, or is not what the map says, is moved as such ([`LOST`]): reads go on to
//!    say so, and the unit is free.

use crate::firmware::Firmware;
use crate::format::unit_journal::Entry;
use crate::format::words::{BORN_NOW, Kind, LOST, Lpn, MORE, PART, Ppa};
use crate::planted::planted;
use crate::state::space::WriteStream;
use std::collections::VecDeque;
use std::rc::Rc;
use tantalum_device::OwnedData;
use tantalum_nand::{PageAddr, PageState, ReadRequest, SECTOR_BYTES, Unit};
use tantalum_rt::Nanos;

/// Collects on one die, for ever.
pub(crate) async fn collect_on(fw: Rc<Firmware>, die: u32) {
    let events = &fw.collectors.dies[die as usize];
    while !fw.is_poisoned() {
        let victim = if fw.is_ending() { None } else { fw.pick_victim(die) };
        match victim {
            Some((unit, why)) => {
                events.hungry.set(false);
                Move::new(&fw, die, unit, why).run().await;
            }
            None => {
                events.hungry.set(fw.is_short(die));
                fw.wait_for_space(die).await;
            }
        }
    }
}

/// Tells the collectors when the host has become idle, for ever.
pub(crate) async fn watch_host(fw: Rc<Firmware>) {
    if !fw.uses_idle_times() {
        return;
    }
    loop {
        // The end of a command is no event here, so it is asked for; a command that never
        // ends is not asked for for ever.
        let mut patience = 0;
        while !fw.is_idle() && patience < 1000 {
            let last = fw.host.last_command.get();
            let quiet = last + fw.idle_time();
            let then = if quiet > fw.rt.now() { quiet } else { fw.rt.now() + fw.idle_time() };
            fw.rt.sleep_until_for(then, "an idle host").await;
            patience = if last == fw.host.last_command.get() { patience + 1 } else { 0 };
        }
        fw.notify_dies();
        if fw.design.map.checkpoint_idle && fw.keeper.since_checkpoint.get() > 0 {
            fw.keeper.idle_checkpoint.set(true);
            fw.keeper.work.notify_all();
        }
        fw.host.activity.wait().await;
        if fw.is_poisoned() {
            return;
        }
    }
}

/// Why a unit is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Space is short, or the unit is bad.
    Space,
    /// It wears less than others.
    Wear,
    /// The host is idle.
    Idle,
}

impl Firmware {
    fn is_short(&self, die: u32) -> bool {
        let space = self.state.space.borrow();
        !space.has_spare(die) || space.free_units(die) < self.design.space.collect_below
    }

    /// Whether anything is done while the host is idle.
    pub fn uses_idle_times(&self) -> bool {
        self.design.space.background_below > 0 || self.design.map.checkpoint_idle
    }

    fn idle_time(&self) -> Nanos {
        Nanos::from_micros(self.design.space.idle_us)
    }

    /// Whether the host has sent nothing for a while, and waits for nothing.
    fn is_idle(&self) -> bool {
        self.host.queue.free() == u64::from(self.design.link.queue_depth)
            && self.rt.now() >= self.host.last_command.get() + self.idle_time()
    }

    fn pick_victim(&self, die: u32) -> Option<(Unit, Why)> {
        // A bad unit gives nothing back: it is emptied when there is room to spare.
        let spare = self.state.space.borrow().has_spare(die);
        if spare && let Some(unit) = self.state.space.borrow_mut().take_condemned(die) {
            return Some((unit, Why::Space));
        }
        if let Some(unit) = self.level_victim(die) {
            return Some((unit, Why::Wear));
        }
        let short = self.is_short(die);
        let background = self.design.space.background_below;
        let mut space = self.state.space.borrow_mut();
        let why = match short {
            true => Why::Space,
            false if space.free_units(die) < background && self.is_idle() => Why::Idle,
            false => return None,
        };
        let unit = self.places.data_sectors();
        // While the host has free units, only what is well worth it; then whatever gains
        // anything; but first of all what gains most, until the reserve is whole again.
        let victim = match space.has_spare(die) {
            true => space.take_victim(die, unit - unit / 8),
            false if space.was_whole(die) => space.take_victim(die, unit),
            false => space.take_emptiest(die),
        };
        victim.map(|unit| (unit, why))
    }
}

/// The moving of one unit.
struct Move<'a> {
    fw: &'a Firmware,
    die: u32,
    victim: Unit,
    why: Why,
    stream: WriteStream,
    /// Sectors read and not yet programmed, in order.
    packed: VecDeque<Packed>,
    payload: OwnedData,
    words: Vec<u64>,
    /// Room for a row that is read, while none is.
    room: Option<Room>,
    /// Its turn, if it moves to another die.
    borrowing: Option<Borrowing<'a>>,
}

/// A turn to move to other dies than one's own.
struct Borrowing<'a>(&'a Firmware);

impl Drop for Borrowing<'_> {
    fn drop(&mut self) {
        self.0.collectors.borrowing.set(false);
        self.0.notify_dies();
    }
}

/// Room for a row: it is made once for all rows of a unit.
struct Room {
    states: Vec<PageState>,
    data: OwnedData,
    oob: Vec<u64>,
}

impl Room {
    fn new(fw: &Firmware) -> Room {
        let planes = fw.places.planes as usize;
        let sectors = fw.design.geometry.row_sectors() as usize;
        Room {
            states: vec![PageState::Erased; planes],
            data: OwnedData::zeros(fw.nand.payload(), sectors, SECTOR_BYTES),
            oob: vec![0; planes * fw.nand.oob_words()],
        }
    }
}

/// A sector on its way.
struct Packed {
    /// Its logical page number, perhaps [`LOST`].
    word: u64,
    birth: u64,
    /// Where it was.
    from: Ppa,
}

impl Packed {
    fn lpn(&self) -> Lpn {
        Lpn(self.word as u32)
    }
}

impl<'a> Move<'a> {
    fn new(fw: &'a Firmware, die: u32, victim: Unit, why: Why) -> Move<'a> {
        let row = fw.design.geometry.row_sectors() as usize;
        Move {
            fw,
            die,
            victim,
            why,
            stream: if why == Why::Wear { WriteStream::Cold } else { WriteStream::Moved },
            packed: VecDeque::new(),
            payload: OwnedData::zeros(fw.nand.payload(), 2 * row, SECTOR_BYTES),
            words: Vec::new(),
            room: None,
            borrowing: None,
        }
    }

    async fn run(mut self) {
        let fw = self.fw;
        let mut cursor = 0;
        loop {
            if self.gives_way() {
                return self.leave();
            }
            // Where there is no place, a unit without anything valid needs none.
            if self.packed.is_empty() {
                let space = fw.state.space.borrow();
                let nothing = || space.next_valid(self.victim, cursor).is_none();
                if !space.can_move(self.die) && nothing() {
                    break;
                }
            }
            let Some(target) = self.target().await else { return };
            let most =
                fw.state.space.borrow().row_left(target, self.stream) * fw.places.page_sectors;
            while (self.packed.len() as u32) < most && !self.gives_way() {
                let next = fw.state.space.borrow().next_valid(self.victim, cursor);
                let Some(sector) = next else { break };
                cursor = self.read_row(sector).await;
            }
            if self.gives_way() {
                return self.leave();
            }
            if self.packed.is_empty() {
                break;
            }
            if !self.program(target, most).await {
                return;
            }
        }
        self.free().await;
    }

    /// Whether this was begun because the host was idle, and the host is back.
    fn gives_way(&self) -> bool {
        self.why == Why::Idle && !self.fw.is_idle() && !self.fw.is_short(self.die)
    }

    /// The unit stays as it is, for another time.
    fn leave(self) {
        self.fw.state.space.borrow_mut().file(self.victim);
    }

    /// The die to write to, with a write point. `None` if the drive is poisoned.
    async fn target(&mut self) -> Option<u32> {
        let fw = self.fw;
        if self.why == Why::Wear {
            self.stream = WriteStream::Cold;
            if fw.try_point(self.die, WriteStream::Cold).await {
                return Some(self.die);
            }
            self.stream = WriteStream::Moved;
        }
        while !fw.is_poisoned() {
            let own = fw.state.space.borrow().can_move(self.die);
            if !own && self.borrowing.is_none() {
                if fw.collectors.borrowing.replace(true) {
                    fw.wait_for_space(self.die).await; // Another one's turn ends with a change.
                    continue;
                }
                self.borrowing = Some(Borrowing(fw));
            }
            let die = if own { Some(self.die) } else { fw.state.space.borrow().freest_target() };
            match die {
                Some(die) if fw.try_point(die, WriteStream::Moved).await => return Some(die),
                Some(_) => {}
                None => fw.wait_for_space(self.die).await,
            }
        }
        None
    }

    /// Reads the pages of the row of `sector` that have valid sectors and packs these;
    /// the sector after the row.
    async fn read_row(&mut self, sector: u32) -> u32 {
        let fw = self.fw;
        let (ps, planes) = (fw.places.page_sectors, fw.places.planes);
        let row = sector / ps / planes;
        let end = (row + 1) * planes * ps;
        let start = fw.places.unit_start(self.victim);
        let last = {
            let space = fw.state.space.borrow();
            (sector..end).rev().find(|&s| space.is_valid(Ppa(start + s)))
        };
        let Some(last) = last else { return end };
        let (first_page, last_page) = (sector / ps, last / ps);
        let count = last_page - first_page + 1;
        let words = fw.nand.oob_words();
        let mut room = self.room.take().unwrap_or_else(|| Room::new(fw));
        let op = fw.nand.read(ReadRequest {
            at: PageAddr { unit: self.victim, page: first_page },
            count,
            first: 0,
            data: Some(room.data.as_mut().slice(0..(count * ps) as usize, SECTOR_BYTES)),
            oob: Some(&mut room.oob[..count as usize * words]),
            states: &mut room.states[..count as usize],
        });
        fw.stats.flash_reads.add(1);
        let Some(op) = fw.must(op) else { return end };
        {
            let map = fw.state.map.borrow();
            for page in room.oob[..count as usize * words].chunks_exact(words) {
                let lpns = page[2..].iter().take(ps as usize);
                lpns.for_each(|lpn| map.look_ahead(Lpn((lpn & !(PART | MORE)) as u32)));
            }
        }
        op.await;
        self.pack(first_page, count, &room);
        self.room = Some(room);
        end
    }

    /// Takes what is valid of these pages, which were read.
    fn pack(&mut self, first_page: u32, count: u32, room: &Room) {
        let fw = self.fw;
        let (ps, words) = (fw.places.page_sectors, fw.nand.oob_words());
        let start = fw.places.unit_start(self.victim);
        let space = fw.state.space.borrow();
        for i in 0..count * ps {
            let page = (i / ps) as usize;
            let old = Ppa(start + first_page * ps + i);
            if !space.is_valid(old) {
                continue;
            }
            let at = page * words + 2 + (i % ps) as usize;
            let (word, birth) = (room.oob[at] & !(PART | MORE), room.oob[at + ps as usize]);
            let whole = room.states[page] == PageState::Programmed;
            let (word, birth) = match fw.is_at(Lpn(word as u32), old) {
                true if whole => (word, birth),
                _ => match fw.who_is_at(old) {
                    // Born now: no older copy comes back in its place.
                    Some(lpn) => (u64::from(lpn.0) | LOST, BORN_NOW),
                    None => continue,
                },
            };
            let to = self.packed.len();
            self.packed.push_back(Packed { word, birth, from: old });
            let from = room.data.as_data().slice(i as usize..i as usize + 1, SECTOR_BYTES);
            self.payload.as_mut().slice(to..to + 1, SECTOR_BYTES).copy_from(from);
        }
    }

    /// Programs up to `most` packed sectors; whether that went well.
    async fn program(&mut self, target: u32, most: u32) -> bool {
        let fw = self.fw;
        let ps = fw.places.page_sectors;
        let count = most.min(self.packed.len() as u32);
        let lpns = self.packed.iter().take(count as usize).map(Packed::lpn);
        let reserved = fw.begin_changes(lpns).await;
        if fw.is_poisoned() {
            return false;
        }
        if self.gives_way() {
            fw.end_changes(reserved); // (It may have waited for the map log.)
            return true;
        }
        let pages = count.div_ceil(ps);
        let place = fw.state.space.borrow_mut().place(target, self.stream, pages);
        // Another die's collector may have used up the row meanwhile.
        let Some((at, pages)) = place else {
            fw.end_changes(reserved);
            return true;
        };
        let used = count.min(pages * ps) as usize;
        let sectors = self.packed.iter().take(used).map(|p| (p.word, p.birth));
        let kind = if self.stream == WriteStream::Cold { Kind::Cold } else { Kind::Moved };
        fw.page_words(kind, 0, pages, sectors, &mut self.words);
        let data = self.payload.as_data().slice(0..(pages * ps) as usize, SECTOR_BYTES);
        let Some(op) = fw.must(fw.nand.program(at, data, &self.words)) else { return false };
        let summary = fw.note(at, &self.words);
        fw.stats.flash_program_bytes.add(fw.page_bytes(pages));
        let bytes = used as u64 * u64::from(SECTOR_BYTES);
        fw.stats.gc_copied_bytes.add(bytes);
        match self.why {
            Why::Space => {}
            Why::Wear => fw.stats.levelled_bytes.add(bytes),
            Why::Idle => fw.stats.background_bytes.add(bytes),
        }
        let Some(good) = fw.outcome(at.unit, op.await) else { return false };
        if !good {
            fw.enter(Entry::Failed { unit: at.unit, from: at.page, until: at.page + pages });
            fw.landed(at.unit, pages);
            fw.end_changes(reserved);
            return !fw.is_poisoned();
        }
        self.land(at, used);
        fw.landed(at.unit, pages);
        fw.end_changes(reserved);
        let version = fw.state.map.borrow().version();
        let last = self.borrowing.is_some() || fw.state.space.borrow().free_units(target) == 0;
        if last && !fw.make_durable(version).await {
            return false;
        }
        if !fw.finish_summary(summary).await {
            return false;
        }
        self.packed.drain(..used);
        self.payload.as_mut().move_to_front(used..used + self.packed.len(), SECTOR_BYTES);
        true
    }

    /// The first `used` packed sectors are on flash from `at` on: they are mapped there, unless
    /// they have become out of date meanwhile.
    fn land(&self, at: PageAddr, used: usize) {
        let fw = self.fw;
        fw.look_ahead(self.packed.iter().take(used).map(Packed::lpn));
        let mut row = Some(fw.remapping());
        for (i, packed) in (0..).zip(self.packed.iter().take(used)) {
            let (lpn, from, to) = (packed.lpn(), packed.from, fw.places.ppa(at, i));
            let map = row.get_or_insert_with(|| fw.remapping());
            if map.get(lpn) == Some(from) || planted!(MoveResurrects) {
                map.change(lpn, Some(to));
                continue;
            }
            row = None;
            if !fw.move_in_group(lpn, from, to) {
                fw.enter_stale(at, i, &self.words);
            }
        }
    }

    async fn free(self) {
        let fw = self.fw;
        if fw.state.space.borrow().valid_in(self.victim) > 0 {
            return fw.fail("a unit with valid data was to be given free");
        }
        if fw.state.space.borrow().is_bad(self.victim) {
            fw.state.space.borrow_mut().retire(self.victim);
            return;
        }
        let version = fw.state.space.borrow().superseded(self.victim);
        let durable = planted!(EraseEarly) || fw.make_durable(version).await;
        if self.gives_way() {
            return self.leave();
        }
        if durable && fw.erase_victim(self.victim).await == Some(true) {
            fw.wore(self.die);
            fw.give_free(self.victim, false);
        }
    }
}
