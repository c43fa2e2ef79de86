//! Commands, played on a subject: each must succeed, and what is read must be what was written.

use crate::command::Command;
use crate::failure::Failure;
use crate::subject::{Fault, Judge, Subject};
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tantalum_device::IoError;
use tantalum_rt::{Nanos, Rt};

/// Longer than anything that is done to a small subject in one go.
const PATIENCE: Nanos = Nanos::from_secs(100);

/// A subject, its judge, and the hosts that use it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Player<S: Subject> {
    pub rt: Rt,
    pub subject: S,
    pub judge: S::Judge,
    pub hosts: u32,
    /// When commands were issued and completed, if that is recorded.
    pub heard: Option<Rc<RefCell<Vec<Nanos>>>>,
}

impl<S: Subject> Player<S> {
    pub fn new(rt: &Rt, subject: S, judge: S::Judge, hosts: u32) -> Player<S> {
        Player { rt: rt.clone(), subject, judge, hosts, heard: None }
    }

    /// Starts the subject, and plays all.
    pub async fn run(self, commands: Rc<[Command]>) -> Result<(), Failure> {
        self.start().await?;
        self.play(commands).await
    }

    /// Plays all commands, on a subject that has power.
    pub async fn play(&self, commands: Rc<[Command]>) -> Result<(), Failure> {
        let mut from = 0;
        loop {
            let cycle = commands[from..].iter().position(|c| *c == Command::Cycle);
            let end = cycle.map_or(commands.len(), |i| from + i);
            self.segment(&commands, from, end).await?;
            if end == commands.len() {
                return Ok(());
            }
            self.subject.cut();
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
        let session = self.judge.session(&self.subject);
        let tasks: Vec<_> = (0..self.hosts)
            .map(|_| {
                let (player, session) = (self.clone(), session.clone());
                let (commands, next) = (commands.clone(), next.clone());
                self.rt.spawn("a host", async move {
                    while let Some(command) = commands[..end].get(next.get()) {
                        next.set(next.get() + 1);
                        player.send(&session, *command).await?;
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

    async fn send(
        &self,
        session: &<S::Judge as Judge>::Session,
        command: Command,
    ) -> Result<(), Failure> {
        self.hear();
        let ended = match command {
            Command::Pause(us) => {
                self.rt.sleep(Nanos::from_micros(us)).await;
                Ok(())
            }
            Command::FailProgram => {
                self.subject.fail(Fault::Program, 0);
                Ok(())
            }
            Command::FailErase => {
                self.subject.fail(Fault::Erase, 0);
                Ok(())
            }
            Command::Cycle => Ok(()),
            _ => self.judge.send(session, command).await,
        };
        self.hear();
        ended
    }

    fn hear(&self) {
        if let Some(heard) = &self.heard {
            heard.borrow_mut().push(self.rt.now());
        }
    }

    /// Waits until the power is gone.
    pub async fn off(self) -> Result<(), Failure> {
        within(&self.rt, self.subject.off()).await
    }

    /// Starts the subject.
    pub async fn start(&self) -> Result<(), Failure> {
        within(&self.rt, self.subject.start()).await?.map_err(Failure::Start)
    }

    /// Waits until the start is finished to the end.
    pub async fn settle(&self) -> Result<(), Failure> {
        within(&self.rt, self.subject.settle()).await?.map_err(Failure::Start)
    }

    /// Waits until the power is gone, starts the subject, and looks at all that it has.
    pub async fn recover(&self) -> Result<(), Failure> {
        self.clone().off().await?;
        self.start().await?;
        self.examine().await
    }

    /// Holds the subject, which has just started, to its promises and its invariants.
    pub async fn examine(&self) -> Result<(), Failure> {
        self.audit()?;
        within(&self.rt, self.judge.check(&self.subject)).await??;
        self.settle().await?;
        self.audit()
    }

    /// The subject's own invariants.
    pub fn audit(&self) -> Result<(), Failure> {
        self.subject.audit().map_err(Failure::Invariant)
    }

    /// Reads everything: it must be the newest.
    pub async fn read_all(&self) -> Result<(), Failure> {
        within(&self.rt, self.judge.read_all(&self.subject)).await?
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
        self.subject.cut();
        // The commands that the cut interrupted have ended.
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
