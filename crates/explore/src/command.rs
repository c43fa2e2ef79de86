//! What is done to a drive, as plain data: generated from a seed, printed as code, shortened.

use serde::{Deserialize, Serialize};
use std::fmt;
use tantalum_device::{Block, Blocks};
use tantalum_oracle::harness::Mix;
use tantalum_rt::Stream;

/// One step of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Writes so many blocks, from this one on.
    Write(u64, u64),
    /// The same with forced unit access.
    Fua(u64, u64),
    /// Writes an atomic group: so many extents of one block, from this one on, each so far from
    /// the one before. (At most as many as the drive takes; none, if it takes no groups.)
    Group(u64, u64, u64),
    /// Discards.
    Discard(u64, u64),
    /// Reads.
    Read(u64, u64),
    /// The host drops so many blocks from its memory as they came, and tells the device; with
    /// `true` it gives their bytes along.
    Exit(u64, u64, bool),
    /// Flushes.
    Flush,
    /// The host does nothing for so many µs.
    Pause(u64),
    /// When all before this has ended, the power is cut and restored, and all is checked.
    Cycle,
    /// The next program of the flash array fails.
    FailProgram,
    /// The next erase of the flash array fails.
    FailErase,
}

impl Command {
    /// The blocks that it names.
    pub fn blocks(&self) -> Option<Blocks> {
        match *self {
            Command::Write(at, count)
            | Command::Fua(at, count)
            | Command::Discard(at, count)
            | Command::Read(at, count)
            | Command::Exit(at, count, _) => Some(Blocks { start: Block(at), count }),
            _ => None,
        }
    }

    /// Whether it orders a failure of the flash array.
    pub fn is_fault(&self) -> bool {
        matches!(self, Command::FailProgram | Command::FailErase)
    }

    /// The same on fewer blocks, if there is such a command.
    pub fn shorter(&self, count: u64) -> Option<Command> {
        let own = match *self {
            Command::Group(_, extents, _) => extents,
            _ => self.blocks()?.count,
        };
        if count == 0 || count >= own {
            return None;
        }
        Some(match *self {
            Command::Write(at, _) => Command::Write(at, count),
            Command::Fua(at, _) => Command::Fua(at, count),
            Command::Discard(at, _) => Command::Discard(at, count),
            Command::Read(at, _) => Command::Read(at, count),
            Command::Exit(at, _, bytes) => Command::Exit(at, count, bytes),
            Command::Group(at, _, step) => Command::Group(at, count, step),
            other => other,
        })
    }
}

impl fmt::Display for Command {
    /// As Rust code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command::{self:?}")
    }
}

/// What command lists are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ingredients {
    /// Commands of a run.
    ///
    /// *Source*: own choice.
    pub commands: u32,
    /// Commands of the phase without faults that follows each recovery.
    ///
    /// *Source*: own choice.
    pub then: u32,
    /// Hosts that send them side by side. Each takes the next when its last one has ended.
    ///
    /// *Source*: own choice.
    pub hosts: u32,
    /// How often which kind comes, relative to the others: `{ write, fua, group, flush, discard,
    /// read }`.
    ///
    /// *Source*: own choice.
    pub mix: Mix,
    /// Pauses, relative to the commands of `mix`.
    ///
    /// *Source*: own choice.
    pub pause: u64,
    /// Length of a pause, at most, µs.
    ///
    /// *Source*: own choice.
    pub pause_us: u64,
    /// Orderly power cycles, relative to the commands of `mix`.
    ///
    /// *Source*: own choice.
    pub cycle: u64,
    /// Discards of all that is touched, relative to the commands of `mix`.
    ///
    /// *Source*: own choice.
    pub wipe: u64,
    /// Exits, relative to the others: half of them with bytes.
    ///
    /// *Source*: own choice, after FaCE: pages enter when they leave memory.
    pub exit: u64,
    /// Blocks in a command, at most.
    ///
    /// *Source*: own choice.
    pub max_blocks: u64,
    /// Extents of an atomic group, at most.
    ///
    /// *Source*: own choice.
    pub max_extents: u64,
    /// Only the first so many blocks are used; the others must not change. 0: all of the drive.
    ///
    /// *Source*: own choice.
    pub range: u64,
    /// Programs and erases that fail, at most; never more than the drive has spare units.
    ///
    /// *Source*: own choice.
    pub faults: u32,
}

impl Default for Ingredients {
    fn default() -> Ingredients {
        Ingredients {
            commands: 180,
            then: 16,
            hosts: 2,
            mix: Mix { write: 8, fua: 1, group: 2, flush: 1, discard: 1, read: 1 },
            pause: 0,
            pause_us: 2_000,
            cycle: 0,
            wipe: 0,
            exit: 0,
            max_blocks: 6,
            max_extents: 8,
            range: 0,
            faults: 0,
        }
    }
}

impl Ingredients {
    /// A list of `count` commands on a drive of `blocks` blocks.
    pub fn list(&self, dice: &mut Stream, count: u32, blocks: u64) -> Vec<Command> {
        (0..count).map(|_| self.command(dice, blocks)).collect()
    }

    /// How often which kind comes, in the order of their numbers in [`Ingredients::command`].
    pub(crate) fn weights(&self) -> [u64; 10] {
        let mix = &self.mix;
        [
            mix.write,
            mix.fua,
            mix.discard,
            mix.read,
            mix.flush,
            self.pause,
            self.cycle,
            mix.group,
            self.wipe,
            self.exit,
        ]
    }

    fn command(&self, dice: &mut Stream, blocks: u64) -> Command {
        let weights = self.weights();
        let mut roll = dice.below(weights.iter().sum::<u64>().max(1));
        let mut kind = 0;
        while kind + 1 < weights.len() && roll >= weights[kind] {
            roll -= weights[kind];
            kind += 1;
        }
        let range = if self.range == 0 { blocks } else { self.range.min(blocks) };
        if kind == 7 {
            return self.group(dice, range);
        }
        if kind == 8 {
            return Command::Discard(0, range);
        }
        let count = dice.range(1, self.max_blocks.clamp(1, range) + 1);
        let at = dice.below(range - count + 1);
        match kind {
            0 => Command::Write(at, count),
            1 => Command::Fua(at, count),
            2 => Command::Discard(at, count),
            3 => Command::Read(at, count),
            4 => Command::Flush,
            5 => Command::Pause(dice.below(self.pause_us + 1)),
            6 => Command::Cycle,
            _ => Command::Exit(at, count, dice.chance(1, 2)),
        }
    }

    fn group(&self, dice: &mut Stream, range: u64) -> Command {
        let extents = dice.range(2, self.max_extents.max(2) + 1).min(range);
        let step = dice.range(1, (range - 1) / (extents - 1).max(1) + 1);
        let at = dice.below(range - (extents - 1) * step);
        Command::Group(at, extents, step)
    }

    /// Orders up to `most` failures at random places of a list.
    pub fn spoil(&self, dice: &mut Stream, commands: &mut Vec<Command>, most: u32) {
        let most = u64::from(self.faults.min(most));
        for _ in 0..dice.below(most + 1) {
            let at = dice.below(commands.len() as u64 + 1) as usize;
            let fault = if dice.chance(1, 2) { Command::FailErase } else { Command::FailProgram };
            commands.insert(at, fault);
        }
    }
}
