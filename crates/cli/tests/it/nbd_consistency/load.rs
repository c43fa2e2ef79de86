//! The load: many commands under way on ranges that overlap.
//!
//! 1. A write of parts of blocks touches at most one atomic unit: the drive writes whole blocks, so
//!    its units begin at the first block, not at the first byte.
//! 2. A trim is judged only in the whole blocks that it covers: parts of blocks keep their content.

use super::client::Complaints;
use super::device::{Blank, PER_BLOCK, SECTOR};
use super::lies::Liar;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{Block, BlockDevice, Blocks, Caps, Durability, IoError};
use tantalum_oracle::Host;
use tantalum_rt::Stream;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};

/// Commands under way.
const UNDER_WAY: usize = 64;
/// Half of the commands go to this many blocks at the start of the drive.
const HOT_BLOCKS: u64 = 128;
/// The longest ordinary write is 128 KiB; one write of 16 is up to twice as long.
const LONGEST: u64 = 32;

/// Counts of commands.
#[derive(Default)]
pub struct Tally {
    done: Cell<u64>,
    more: Notify,
    /// Writes, forced ones included.
    pub writes: Cell<u64>,
}

/// A load that runs until its commands fail.
pub struct Load {
    hosts: Vec<JoinHandle<()>>,
    tally: Rc<Tally>,
    complaints: Complaints,
}

/// How often flushes and forced writes are among the commands. Each round has frequencies of its
/// own: a write that a flush made durable does not show whether it was forced.
#[derive(Clone, Copy, Debug)]
struct Mix {
    /// Flushes among 1000 commands. The same number of 1000 trims and zeroes is forced, because on
    /// a drive with a volatile cache that is a flush.
    flushes: u64,
    /// Forced writes among 1000 writes.
    forced: u64,
}

impl Mix {
    fn new(dice: &mut Stream) -> Mix {
        let mut one_of = |all: [u64; 3]| all[dice.below(3) as usize];
        Mix { flushes: one_of([2, 10, 60]), forced: one_of([10, 60, 300]) }
    }
}

enum Command {
    Write(Blocks, Durability),
    Read(Blocks),
    Flush,
    Blank(Blank, Blocks, Durability),
}

impl Load {
    /// Starts the load.
    pub fn start(host: &Host<Liar>, mut dice: Stream, complaints: &Complaints) -> Load {
        let tally = Rc::<Tally>::default();
        let mix = Mix::new(&mut dice);
        let dice = Rc::new(RefCell::new(dice));
        let one = |_| spawn_local(work(host.clone(), mix, dice.clone(), tally.clone()));
        let hosts = (0..UNDER_WAY).map(one).collect();
        Load { hosts, tally, complaints: complaints.clone() }
    }

    /// Waits until this many commands are done, or there is a failure.
    pub async fn until(&self, count: u64) {
        while self.tally.done.get() < count && self.complaints.borrow().is_empty() {
            self.tally.more.notified().await;
        }
    }

    /// Waits until all commands have ended; returns the counts.
    pub async fn end(self) -> u64 {
        for host in self.hosts {
            host.await.expect("a host does not panic");
        }
        self.tally.writes.get()
    }
}

async fn work(host: Host<Liar>, mix: Mix, dice: Rc<RefCell<Stream>>, tally: Rc<Tally>) {
    let caps = *host.device().caps();
    loop {
        let command = command(&mut dice.borrow_mut(), mix, &caps);
        let result = carry_out(&host, &command).await;
        tally.more.notify_one();
        if result.is_err() {
            return;
        }
        tally.done.set(tally.done.get() + 1);
        let wrote = u64::from(matches!(command, Command::Write(..)));
        tally.writes.set(tally.writes.get() + wrote);
    }
}

async fn carry_out(host: &Host<Liar>, command: &Command) -> Result<(), IoError> {
    match *command {
        Command::Write(range, want) => host.write(range, want).await,
        Command::Read(range) => host.read(range).await,
        Command::Flush => host.flush().await,
        Command::Blank(how, range, want) => {
            let judged = if how == Blank::Trim { whole_blocks(range) } else { range };
            host.blank(judged, want, host.device().blank(how, range, want)).await
        }
    }
}

/// The sectors of the whole blocks in a range.
fn whole_blocks(range: Blocks) -> Blocks {
    let (start, end) = (range.start.0, range.start.0 + range.count);
    let first = start.next_multiple_of(PER_BLOCK);
    let last = (end / PER_BLOCK * PER_BLOCK).max(first);
    Blocks { start: Block(first), count: last - first }
}

fn command(dice: &mut Stream, mix: Mix, caps: &Caps) -> Command {
    if dice.below(1000) < mix.flushes {
        return Command::Flush;
    }
    let wants = |yes: bool| if yes { Durability::Fua } else { Durability::Normal };
    let kind = dice.below(100);
    let forced = wants(dice.below(1000) < if kind < 56 { mix.forced } else { mix.flushes });
    match kind {
        0..14 => Command::Write(parts(dice, caps, most_in_parts(caps)), forced),
        14..56 => Command::Write(whole(dice, caps), forced),
        56..78 => Command::Read(parts(dice, caps, LONGEST)),
        78..89 => Command::Blank(Blank::Trim, parts(dice, caps, LONGEST), forced),
        89..95 => Command::Blank(Blank::Zero, parts(dice, caps, LONGEST), forced),
        _ => Command::Blank(Blank::ZeroAndKeep, parts(dice, caps, LONGEST), forced),
    }
}

/// Blocks that a write of parts of blocks may touch.
fn most_in_parts(caps: &Caps) -> u64 {
    // With units of one sector, a write may be torn between any two sectors.
    if caps.atomic_unit <= SECTOR { 8 } else { u64::from(caps.atomic_unit) / 4096 }
}

/// Blocks: short ranges are as frequent as long ones.
fn blocks(dice: &mut Stream, caps: &Caps, most: u64) -> (u64, u64) {
    let all = caps.blocks / PER_BLOCK;
    let scale = 1 << dice.below(u64::from(most.ilog2()) + 1);
    let count = dice.range(1, scale + 1).min(all);
    let space = if dice.chance(1, 2) { HOT_BLOCKS.min(all) } else { all };
    (dice.below(space).min(all - count), count)
}

fn whole(dice: &mut Stream, caps: &Caps) -> Blocks {
    let most = if dice.chance(1, 16) { 2 * LONGEST } else { LONGEST };
    let (first, count) = blocks(dice, caps, most);
    Blocks { start: Block(first * PER_BLOCK), count: count * PER_BLOCK }
}

/// Sectors, from the middle of one block to the middle of another.
fn parts(dice: &mut Stream, caps: &Caps, most: u64) -> Blocks {
    let (first, count) = blocks(dice, caps, most);
    let sectors = count * PER_BLOCK;
    let before = dice.below(PER_BLOCK);
    let behind = dice.below(if sectors > PER_BLOCK { PER_BLOCK } else { PER_BLOCK - before });
    Blocks { start: Block(first * PER_BLOCK + before), count: sectors - before - behind }
}
