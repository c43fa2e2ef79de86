//! The judge of block devices: [`tantalum_oracle::Oracle`].

use crate::command::Command;
use crate::failure::Failure;
use crate::subject::{Judge, Subject};
use std::marker::PhantomData;
use tantalum_device::{AtomicError, Block, BlockDevice, Blocks, Durability, IoError, PowerCycle};
use tantalum_oracle::{Host, Oracle};

/// Blocks read in one command when all are read.
const CHUNK: u64 = 64;

/// Holds a block device to the contract. Every command must succeed, except writes for which a
/// thinly provisioned device has no room.
pub struct Contract<S> {
    oracle: Oracle,
    of: PhantomData<fn(&S)>,
}

impl<S> Clone for Contract<S> {
    fn clone(&self) -> Contract<S> {
        Contract { oracle: self.oracle.clone(), of: PhantomData }
    }
}

impl<S: PowerCycle> Contract<S> {
    /// For a box that promises what its device says, and holds zeros only.
    pub fn of(subject: &S) -> Contract<S> {
        Contract { oracle: Oracle::new(subject.device().caps()), of: PhantomData }
    }
}

impl<S: Subject + PowerCycle> Judge for Contract<S> {
    type Subject = S;
    type Session = Host<S::Device>;

    fn fork(&self) -> Contract<S> {
        Contract { oracle: self.oracle.fork(), of: PhantomData }
    }

    fn session(&self, subject: &S) -> Host<S::Device> {
        self.oracle.host(subject.device())
    }

    async fn send(&self, host: &Host<S::Device>, command: Command) -> Result<(), Failure> {
        let ended = match (command, command.blocks()) {
            (Command::Write(..), Some(range)) => host.write(range, Durability::Normal).await,
            (Command::Fua(..), Some(range)) => host.write(range, Durability::Fua).await,
            (Command::Discard(..), Some(range)) => host.discard(range).await,
            (Command::Read(..), Some(range)) => host.read(range).await,
            (Command::Exit(.., bytes), Some(range)) => host.drop_clean(range, bytes).await,
            (Command::Group(at, extents, step), _) => self.group(host, at, extents, step).await,
            (Command::Flush, _) => host.flush().await,
            _ => Ok(()),
        };
        if ended == Err(IoError::NoSpace) && self.oracle.caps().thin {
            return Ok(()); // It may; and then nothing of the write may ever be seen.
        }
        ended.map_err(|error| Failure::of_command(&format!("{command:?}"), &error))
    }

    async fn check(&self, subject: &S) -> Result<(), Failure> {
        let found = self.oracle.check(&subject.device()).await;
        let judged = Failure::contract(found.map_err(|error| of_all(&error))?);
        judged.map_err(|failure| failure.for_lack_of(subject.shortage()))
    }

    async fn read_all(&self, subject: &S) -> Result<(), Failure> {
        let host = self.session(subject);
        let blocks = self.oracle.caps().blocks;
        let mut at = 0;
        while at < blocks {
            let range = Blocks { start: Block(at), count: CHUNK.min(blocks - at) };
            host.read(range).await.map_err(|error| of_all(&error))?;
            at += range.count;
        }
        let judged = Failure::contract(self.oracle.take_violations());
        judged.map_err(|failure| failure.for_lack_of(subject.shortage()))
    }
}

impl<S: PowerCycle> Contract<S> {
    async fn group(
        &self,
        host: &Host<S::Device>,
        at: u64,
        extents: u64,
        step: u64,
    ) -> Result<(), IoError> {
        let Some(limit) = self.oracle.caps().atomic_group else { return Ok(()) };
        let most =
            (limit.bytes / u64::from(self.oracle.caps().block_size)).min(limit.extents.into());
        let block = |i| Blocks { start: Block(at + i * step), count: 1 };
        let ranges: Vec<Blocks> = (0..extents.min(most)).map(block).collect();
        match host.write_atomic(&ranges).await {
            Err(AtomicError::Io(error)) => Err(error),
            Err(_) => Err(IoError::Invalid("the group was refused")),
            Ok(()) => Ok(()),
        }
    }
}

fn of_all(error: &IoError) -> Failure {
    Failure::of_command("a read of everything", error)
}
