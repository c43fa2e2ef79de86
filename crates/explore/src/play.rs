//! Commands, played on a drive: each must succeed, unless the drive is thinly provisioned and
//! has no room for what is new, and what is read must be what was written.

use crate::command::Command;
use crate::failure::Failure;
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tantalum_device::{AtomicError, Block, Blocks, Durability, IoError, PowerCycle};
use tantalum_drive::{Drive, DriveLink};
use tantalum_oracle::{Host, Oracle};
use tantalum_rt::{Nanos, Rt};

/// Longer than anything that is done to a small drive in one go.
const PATIENCE: Nanos = Nanos::from_secs(100);

/// Blocks read in one command when all are read.
const CHUNK: u64 = 64;

/// A drive, its oracle, and those who use it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Player {
    pub rt: Rt,
    pub drive: Drive,
    pub oracle: Oracle,
    pub hosts: u32,
    /// When commands were issued and completed, if somebody wants to know.
    pub heard: Option<Rc<RefCell<Vec<Nanos>>>>,
}

impl Player {
    pub fn new(rt: &Rt, drive: Drive, oracle: Oracle, hosts: u32) -> Player {
        Player { rt: rt.clone(), drive, oracle, hosts, heard: None }
    }

    /// Starts the drive, and plays all.
    pub async fn run(self, commands: Rc<[Command]>) -> Result<(), Failure> {
        self.start().await?;
        self.play(commands).await
    }

    /// Plays all commands, on a drive that has power.
    pub async fn play(&self, commands: Rc<[Command]>) -> Result<(), Failure> {
        let mut from = 0;
        loop {
            let cycle = commands[from..].iter().position(|c| *c == Command::Cycle);
            let end = cycle.map_or(commands.len(), |i| from + i);
            self.segment(&commands, from, end).await?;
            if end == commands.len() {
                return Ok(());
            }
            self.drive.cut();
            self.recover().await?;
            from = end + 1;
        }
    }

    /// Commands `from..end`, each sent by the host that has waited longest.
    async fn segment(
        &self,
        commands: &Rc<[Command]>,
        from: usize,
        end: usize,
    ) -> Result<(), Failure> {
        let next = Rc::new(Cell::new(from));
        let host = self.oracle.host(self.drive.device());
        let tasks: Vec<_> = (0..self.hosts)
            .map(|_| {
                let (player, host) = (self.clone(), host.clone());
                let (commands, next) = (commands.clone(), next.clone());
                self.rt.spawn("a host", async move {
                    while let Some(command) = commands[..end].get(next.get()) {
                        next.set(next.get() + 1);
                        player.send(&host, *command).await?;
                    }
                    Ok::<(), Failure>(())
                })
            })
            .collect();
        for task in tasks {
            match task.await {
                Ok(ended) => ended?,
                Err(_) => unreachable!("a host is in no power domain"),
            }
        }
        Ok(())
    }

    async fn send(&self, host: &Host<DriveLink>, command: Command) -> Result<(), Failure> {
        self.hear();
        let blocks = command.blocks();
        let ended = match (command, blocks) {
            (Command::Write(..), Some(range)) => host.write(range, Durability::Normal).await,
            (Command::Fua(..), Some(range)) => host.write(range, Durability::Fua).await,
            (Command::Discard(..), Some(range)) => host.discard(range).await,
            (Command::Read(..), Some(range)) => host.read(range).await,
            (Command::Group(at, extents, step), _) => self.group(host, at, extents, step).await,
            (Command::Flush, _) => host.flush().await,
            (Command::Pause(us), _) => {
                self.rt.sleep(Nanos::from_micros(us)).await;
                Ok(())
            }
            (Command::FailProgram, _) => {
                self.drive.array().fail_program(0);
                Ok(())
            }
            (Command::FailErase, _) => {
                self.drive.array().fail_erase(0);
                Ok(())
            }
            _ => Ok(()),
        };
        self.hear();
        if ended == Err(IoError::NoSpace) && self.oracle.caps().thin {
            return Ok(()); // It may; and then nothing of the write may ever be seen.
        }
        ended.map_err(|error| failed(&format!("{command:?}"), &error))
    }

    async fn group(
        &self,
        host: &Host<DriveLink>,
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

    fn hear(&self) {
        if let Some(heard) = &self.heard {
            heard.borrow_mut().push(self.rt.now());
        }
    }

    /// Waits until the power is gone.
    pub async fn off(self) -> Result<(), Failure> {
        within(&self.rt, self.drive.off()).await
    }

    /// Starts the drive.
    pub async fn start(&self) -> Result<(), Failure> {
        match within(&self.rt, self.drive.start()).await? {
            Ok(()) => Ok(()),
            Err(error) => Err(Failure::Start(match self.drive.last_failure() {
                Some(why) => why.to_string(),
                None => error.to_string(),
            })),
        }
    }

    /// Waits until the start is finished to the end.
    pub async fn settle(&self) -> Result<(), Failure> {
        within(&self.rt, self.drive.settled()).await?;
        match self.drive.last_failure() {
            Some(why) => Err(Failure::Start(why.to_string())),
            None => Ok(()),
        }
    }

    /// Waits until the power is gone, starts the drive, and looks at all that it has.
    pub async fn recover(&self) -> Result<(), Failure> {
        self.clone().off().await?;
        self.start().await?;
        self.examine().await
    }

    /// Holds the drive, that has just started, to contract and invariants.
    pub async fn examine(&self) -> Result<(), Failure> {
        self.audit()?;
        let device = self.drive.device();
        let found = within(&self.rt, self.oracle.check(&device)).await?;
        Failure::contract(found.map_err(|error| failed("a read of everything", &error))?)?;
        self.settle().await?;
        self.audit()
    }

    /// The firmware's own invariants.
    pub fn audit(&self) -> Result<(), Failure> {
        self.drive.audit().map_err(Failure::Invariant)
    }

    /// Reads everything: it must be the newest.
    pub async fn read_all(&self) -> Result<(), Failure> {
        let host = self.oracle.host(self.drive.device());
        let blocks = self.oracle.caps().blocks;
        let mut at = 0;
        while at < blocks {
            let range = Blocks { start: Block(at), count: CHUNK.min(blocks - at) };
            let read = within(&self.rt, host.read(range)).await?;
            read.map_err(|error| failed("a read of everything", &error))?;
            at += range.count;
        }
        Failure::contract(self.oracle.take_violations())
    }

    /// The work after a recovery: commands that must all succeed and be seen, some more that
    /// are cut after `cut`, and what comes back then.
    pub async fn go_on(
        self,
        commands: Rc<[Command]>,
        more: Rc<[Command]>,
        cut: Nanos,
    ) -> Result<(), (bool, Failure)> {
        self.work(commands).await.map_err(|failure| (false, failure))?;
        let player = self.clone();
        let hosts = self.rt.spawn("the last commands", async move { player.play(more).await });
        self.rt.sleep(cut).await;
        self.drive.cut();
        // What the cut ended has ended.
        let ended = within(&self.rt, hosts).await.map_err(|failure| (false, failure))?;
        if let Ok(Err(failure)) = ended
            && !is_power_loss(&failure)
        {
            return Err((false, failure));
        }
        self.recover().await.map_err(|failure| (true, failure))
    }

    async fn work(&self, commands: Rc<[Command]>) -> Result<(), Failure> {
        within(&self.rt, self.play(commands)).await??;
        self.settle().await?;
        self.audit()?;
        self.read_all().await
    }
}

fn failed(command: &str, error: &IoError) -> Failure {
    Failure::Command { command: command.to_string(), error: error.to_string() }
}

fn is_power_loss(failure: &Failure) -> bool {
    let lost = IoError::PowerLost.to_string();
    matches!(failure, Failure::Command { error, .. } if *error == lost)
}

/// What `future` gives, if it ends in time.
async fn within<T>(rt: &Rt, future: impl Future<Output = T>) -> Result<T, Failure> {
    let (mut future, mut timer) = (pin!(future), pin!(rt.sleep(PATIENCE)));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        timer.as_mut().poll(cx).map(|()| Err(Failure::Endless(PATIENCE)))
    })
    .await
}
