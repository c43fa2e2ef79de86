//! The judge of a log. What commands mean to it:
//!
//! | command | what is done |
//! |---|---|
//! | `Write(at, n)` | a record is appended, whose length follows from both |
//! | `Fua(at, n)` | the same, and it is waited until that is durable |
//! | `Group(at, n, _)` | up to eight records, and the last is waited for |
//! | `Flush` | it is waited until everything is durable |
//! | `Read(..)` | everything is read and compared |
//! | `Discard(at, n)` | the checkpoint moves, to one of the last so many durable records |
//!
//! If the log is full the checkpoint moves to the end of what is durable.

use crate::command::Command;
use crate::failure::Failure;
use crate::log::journal::Journal;
use crate::log::member::LogLink;
use crate::log::subject::{LogBox, Open};
use crate::subject::Judge;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::IoError;
use tantalum_log::{Log, LogError, Lsn, Record};
use tantalum_rt::Stream;
use tantalum_rt::sync::Mutex;

/// Bytes of a record, at most.
pub(super) const RECORD: usize = 3000;

/// Holds a log to its promises ([`Journal`]).
#[derive(Clone, Default)]
pub struct LogJudge {
    journal: Rc<RefCell<Journal>>,
    /// What is durable at a cut, whether anybody was told or not, is asked of the log that runs.
    judged: Rc<RefCell<Option<LogBox>>>,
}

/// An open log and whoever uses it.
#[derive(Clone)]
pub struct LogSession {
    /// `None`: there is no power.
    open: Option<Open>,
    /// One checkpoint at a time.
    checkpoint: Option<Rc<Mutex>>,
}

/// Why a command failed.
enum Wrong {
    Log(LogError),
    Power,
    Judged(Failure),
}

impl From<LogError> for Wrong {
    fn from(error: LogError) -> Wrong {
        Wrong::Log(error)
    }
}

impl From<IoError> for Wrong {
    fn from(_: IoError) -> Wrong {
        Wrong::Power
    }
}

impl Judge for LogJudge {
    type Subject = LogBox;
    type Session = LogSession;

    fn fork(&self) -> LogJudge {
        let mut journal = self.journal.borrow().clone();
        if let Some(open) = self.judged.borrow().as_ref().and_then(LogBox::open) {
            journal.acked = journal.acked.max(open.log.durable());
        }
        LogJudge { journal: Rc::new(RefCell::new(journal)), judged: Rc::default() }
    }

    fn session(&self, subject: &LogBox) -> LogSession {
        *self.judged.borrow_mut() = Some(subject.clone());
        let checkpoint = Rc::new(Mutex::new(subject.rt(), "the turn to move the checkpoint"));
        LogSession { open: subject.open(), checkpoint: Some(checkpoint) }
    }

    async fn send(&self, session: &LogSession, command: Command) -> Result<(), Failure> {
        let name = format!("{command:?}");
        let lost = || Failure::of_command(&name, &IoError::PowerLost);
        let Some(open) = &session.open else { return Err(lost()) };
        let ended = open.link.command("a command to a log", async {
            self.carry_out(session, &open.log, command).await
        });
        match ended.await {
            Ok(()) => Ok(()),
            Err(Wrong::Power) => Err(lost()),
            Err(Wrong::Judged(failure)) => Err(failure),
            Err(Wrong::Log(error)) => {
                Err(Failure::Command { command: name, error: error.to_string() })
            }
        }
    }

    async fn check(&self, subject: &LogBox) -> Result<(), Failure> {
        let Some(open) = subject.open() else { return Err(no_power()) };
        let mut journal = self.journal.borrow().clone();
        journal.check(&open.log).await.map_err(Failure::Promise)?;
        *self.journal.borrow_mut() = journal;
        Ok(())
    }

    async fn read_all(&self, subject: &LogBox) -> Result<(), Failure> {
        let Some(open) = subject.open() else { return Err(no_power()) };
        let promise = |e: LogError| Failure::Promise(e.to_string());
        self.flush(&self.session(subject), &open.log).await.map_err(promise)?;
        let end = open.log.durable();
        let journal = self.journal.borrow().clone();
        let found = journal.compare(&open.log).await.map_err(Failure::Promise)?;
        if found != end {
            return Err(Failure::Promise(format!(
                "the log ends at {end}, and was read to {found}"
            )));
        }
        Ok(())
    }
}

fn no_power() -> Failure {
    Failure::of_command("a check", &IoError::PowerLost)
}

impl LogJudge {
    async fn carry_out(
        &self,
        session: &LogSession,
        log: &Log<LogLink>,
        command: Command,
    ) -> Result<(), Wrong> {
        match command {
            Command::Write(at, count) => drop(self.append(session, log, at, count).await?),
            Command::Fua(at, count) => {
                let end = self.append(session, log, at, count).await?;
                self.wait(session, log, end).await?;
            }
            Command::Group(at, count, _) => {
                let mut end = log.durable();
                for i in 0..count.min(8) {
                    end = self.append(session, log, at, i).await?;
                }
                self.wait(session, log, end).await?;
            }
            Command::Flush => {
                self.flush(session, log).await?;
            }
            Command::Read(..) => self.read(log).await?,
            Command::Discard(at, count) => {
                self.checkpoint(session, log, (at + count) as usize).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends a record; where it ends.
    async fn append(
        &self,
        session: &LogSession,
        log: &Log<LogLink>,
        at: u64,
        count: u64,
    ) -> Result<Lsn, Wrong> {
        let length = (count * count * 60 + at * 7) as usize % RECORD;
        let bytes = {
            let mut journal = self.journal.borrow_mut();
            let seed = journal.counter;
            journal.content(length, |rest| Stream::new(seed, "a record").fill(rest))
        };
        loop {
            match log.append(&bytes).await {
                Ok(at) => {
                    let record = Record { lsn: at.lsn, end: at.end, bytes };
                    self.journal.borrow_mut().records.push(record);
                    return Ok(at.end);
                }
                Err(LogError::Full { first, .. }) => {
                    self.flush(session, log).await?;
                    self.checkpoint(session, log, 1).await?;
                    if log.first() == first {
                        return Err(LogError::Full { first, end: log.end() }.into());
                    }
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Waits until everything before `end` is durable. If there is no room for it any more, the
    /// checkpoint has to make some, at once.
    async fn wait(
        &self,
        session: &LogSession,
        log: &Log<LogLink>,
        end: Lsn,
    ) -> Result<(), LogError> {
        loop {
            match log.wait_durable(end).await {
                Ok(()) => break,
                Err(LogError::Full { first, .. }) => {
                    self.checkpoint(session, log, 1).await?;
                    if log.first() == first && log.durable() < end {
                        log.wait_durable(end).await?;
                    }
                }
                Err(e) => return Err(e),
            }
        }
        self.acked(end);
        Ok(())
    }

    async fn flush(&self, session: &LogSession, log: &Log<LogLink>) -> Result<(), LogError> {
        self.wait(session, log, log.end()).await
    }

    fn acked(&self, end: Lsn) {
        let mut journal = self.journal.borrow_mut();
        journal.acked = journal.acked.max(end);
    }

    /// Moves the checkpoint to the end of one of the last durable records.
    async fn checkpoint(
        &self,
        session: &LogSession,
        log: &Log<LogLink>,
        back: usize,
    ) -> Result<(), LogError> {
        let Some(mutex) = &session.checkpoint else { return Ok(()) };
        let _turn = mutex.lock().await;
        let (durable, first) = (log.durable(), log.first());
        let (lsn, number) = {
            let mut journal = self.journal.borrow_mut();
            let ends = journal.records.iter().map(|r| r.end);
            let may: Vec<Lsn> = ends.filter(|e| *e >= first && *e <= durable).collect();
            let Some(last) = may.len().checked_sub(1) else { return Ok(()) };
            let lsn = may[may.len() - back.clamp(1, last + 1)];
            let number = journal.checkpoint.1 + 1;
            journal.asked = Some((lsn, number));
            (lsn, number)
        };
        log.checkpoint(lsn, number).await?;
        self.journal.borrow_mut().moved((lsn, number));
        Ok(())
    }

    async fn read(&self, log: &Log<LogLink>) -> Result<(), Wrong> {
        let (journal, first) = (self.journal.borrow().clone(), log.first());
        match journal.compare(log).await {
            // The checkpoint may overtake a reader.
            Err(why) if log.first() == first => Err(Wrong::Judged(Failure::Promise(why))),
            _ => Ok(()),
        }
    }
}
