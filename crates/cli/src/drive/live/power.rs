//! The plug of a running drive: cuts, restarts, and notice of both to the front.
//!
//! 1. A cut takes place during the call, before anything waits.
//! 2. Hooks of the front run one at a time, in the order of the events: the power is not restored
//!    before the front knows that it was cut.

mod detach;

use super::report;
use super::{About, Front, Live, Site};
use crate::drive::words;
use crate::members::in_words;
use crate::out;
use std::cell::{Cell, RefCell};
use std::path::Path;
use tantalum_device::{LiveBox, PowerState, ResizeError, ScrubOutcome, StartError, UpkeepError};
use tantalum_export::control::{CutReport, Kind, Power, Refusal, ReplaceReport, RestoreReport};
use tantalum_rt::sync::{Semaphore, WaitQueue};
use tantalum_rt::wall::Io;
use tantalum_rt::{Nanos, Rt};

/// Why the power could not be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Its dump is not complete.
    #[error(
        "the drive does not start: {0}. `tantalum drive restore --salvage` starts it with the remaining data"
    )]
    DumpLost(String),
    /// Its image is damaged.
    #[error(
        "the drive does not start: {0}; `tantalum drive check` tells more. `tantalum drive restore --salvage` starts it with the remaining data"
    )]
    Damaged(String),
    /// The drive does not start for another reason.
    #[error("it does not start: {0}")]
    Failed(String),
    /// The power was cut again.
    #[error("the power was cut again before the start was complete")]
    CutAgain,
    /// The front failed before the drive started.
    #[error("the power was not restored: {0}")]
    FrontBefore(String),
    /// The front failed after the drive started.
    #[error("it has power, but {0}; cut and restore it to try again")]
    FrontAfter(String),
    /// The process is about to end.
    #[error("it is about to be stopped")]
    Stopping,
}

impl From<StartError> for RestoreError {
    fn from(error: StartError) -> RestoreError {
        match error {
            StartError::Lost(why) => RestoreError::DumpLost(why),
            StartError::Damaged(why) => RestoreError::Damaged(why),
            StartError::Failed(why) => RestoreError::Failed(in_words(why)),
            StartError::CutAgain => RestoreError::CutAgain,
        }
    }
}

/// A cut that has been made.
pub struct Pulled {
    before: report::Before,
    at: Nanos,
}

/// A running box with its front.
pub struct Plug<B: LiveBox, F> {
    rt: Rt,
    io: Io,
    drive: Live<B>,
    front: F,
    /// From power to the first command, of the last start.
    readied: Cell<Nanos>,
    /// From power until the last start was complete.
    finished: Cell<Nanos>,
    /// When the last start began, by the clock of the box.
    started: Cell<Nanos>,
    about: About,
    salvage: bool,
    /// Only the holder of the one permit may call hooks.
    hooks: Semaphore,
    /// The front does not know yet that the power was cut.
    untold: Cell<bool>,
    pulls: Cell<u64>,
    last_cut: RefCell<Option<CutReport>>,
    last_restore: RefCell<Option<RestoreReport>>,
    stopping: Cell<bool>,
    /// The front begins to serve, or already serves.
    fronted: Cell<bool>,
    /// The power came or went, or the cache goes.
    changed: WaitQueue,
    leave: detach::Leave,
}

impl<B: LiveBox, F: Front> Plug<B, F> {
    pub fn new(site: &Site<B>, front: F, about: About, salvage: bool) -> Plug<B, F> {
        Plug {
            rt: site.rt.clone(),
            io: site.io.clone(),
            drive: site.drive.clone(),
            front,
            readied: Cell::default(),
            finished: Cell::default(),
            started: Cell::default(),
            about,
            salvage,
            hooks: Semaphore::new(&site.rt, "the power to come or go", 1),
            untold: Cell::new(false),
            pulls: Cell::new(0),
            last_cut: RefCell::default(),
            last_restore: RefCell::default(),
            stopping: Cell::new(false),
            fronted: Cell::new(false),
            changed: WaitQueue::new(&site.rt, "the power to come or go"),
            leave: detach::Leave::new(&site.rt),
        }
    }

    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    pub fn io(&self) -> &Io {
        &self.io
    }

    pub fn drive(&self) -> &Live<B> {
        &self.drive
    }

    pub fn front(&self) -> &F {
        &self.front
    }

    pub fn about(&self) -> &About {
        &self.about
    }

    /// The outcome of the last cut.
    pub fn last_cut(&self) -> Option<CutReport> {
        self.last_cut.borrow().clone()
    }

    /// The result of the last restart.
    pub fn last_restore(&self) -> Option<RestoreReport> {
        self.last_restore.borrow().clone()
    }

    pub fn bare(&self) -> &B {
        self.drive.inner()
    }

    /// The first start; returns what the front prints. `None`: it was interrupted before
    /// ([`Plug::interrupt`]).
    pub async fn begin(&self) -> Result<Option<String>, String> {
        let _turn = self.hooks.acquire(1).await;
        let began = self.io.real_now();
        // It waits until the start is complete, so that no client is served by a drive whose start
        // fails later.
        let started = match self.start(self.salvage).await {
            Ok(_) => self.settled().await,
            Err(failed) => Err(failed),
        };
        if !self.stopping.get() {
            self.say_what_was_found(self.io.real_now() - began);
        }
        match started {
            Ok(()) | Err(RestoreError::CutAgain) if self.stopping.get() => return Ok(None),
            Ok(()) => {}
            Err(RestoreError::Damaged(why)) => {
                return Err(format!(
                    "the drive does not start: {why}; `tantalum drive check` tells more. What is left can be \
                     had with --salvage"
                ));
            }
            Err(RestoreError::DumpLost(why)) => {
                return Err(format!(
                    "the drive does not start: {why}. --salvage starts it with the remaining data"
                ));
            }
            Err(e) => {
                let name = self.about.image.as_ref().map(|path| format!("{}: ", path.display()));
                return Err(name.unwrap_or_default() + &e.to_string());
            }
        }
        self.bare().verify()?;
        self.fronted.set(true);
        let said = self.front.start().await?;
        self.changed.notify_all();
        Ok(Some(said))
    }

    /// Prints what the first start found, unless it was an ordinary one: the dump of a killed
    /// process, or a start without the dump.
    fn say_what_was_found(&self, real: Nanos) {
        let left = self.bare().left_behind().filter(|_| self.about.killed);
        if let Some(what) = left {
            out::note(words::killed_in_a_line(&what));
        }
        let mut report = report::restored(self, PowerState::Off);
        report.real_ns = real.0;
        let is_on = self.bare().power_state() == PowerState::On;
        if is_on && (self.about.killed || report.salvaged) {
            if let Some(found) = &report.found {
                out::note(format_args!("found: {found}"));
            }
            out::note(words::restore_in_a_line(&report));
        }
    }

    /// Interrupts [`Plug::begin`] because the process is to end. A start of the drive is aborted. A
    /// start of the front continues, and is taken down afterwards. Returns whether the caller must
    /// wait for that.
    pub fn interrupt(&self) -> bool {
        self.stopping.set(true);
        if !self.fronted.get() {
            self.pull();
        }
        self.fronted.get()
    }

    /// Ends; no further hooks are called.
    pub async fn stop(&self) -> Result<(), String> {
        self.stopping.set(true);
        let _turn = self.hooks.acquire(1).await;
        self.front.stop().await
    }

    /// Ends without waiting.
    pub async fn give_up(&self) {
        self.stopping.set(true);
        let _turn = self.hooks.acquire(1).await;
        self.front.give_up().await;
    }

    /// Cuts the power at this instant. [`Plug::told`] returns the outcome.
    pub fn pull(&self) -> Pulled {
        let before = report::Before::of(self.bare());
        let at = self.io.real_now();
        if matches!(before.was, PowerState::On | PowerState::Starting) {
            self.pulls.set(self.pulls.get() + 1);
            self.untold.set(true);
            self.bare().cut();
        }
        Pulled { before, at }
    }

    /// Waits until the drive is off after a cut, and the front knows.
    pub async fn told(&self, pulled: Pulled) -> CutReport {
        let report = self.died(pulled).await;
        let _turn = self.hooks.acquire(1).await;
        self.tell().await;
        report
    }

    /// Waits until the drive is off after a cut.
    async fn died(&self, pulled: Pulled) -> CutReport {
        {
            // A task waits for the end: at time scale 0 the dump takes no real time.
            let _announced = self.rt.outstanding("the end of a power cut");
            self.bare().off().await;
        }
        let real = self.io.real_now() - pulled.at;
        let report = pulled.before.cut(real);
        if matches!(report.was, Power::On | Power::Starting) {
            *self.last_cut.borrow_mut() = Some(report.clone());
        }
        report
    }

    /// Notifies the front of a cut, if it does not know.
    async fn tell(&self) {
        if self.untold.replace(false) && !self.stopping.get() {
            self.front.cut().await;
            self.changed.notify_all();
        }
    }

    /// Restores the power, and returns when the drive has recovered completely.
    ///
    /// # Errors
    /// [`RestoreError`]
    pub async fn restore(&self, salvage: bool) -> Result<RestoreReport, RestoreError> {
        let began = self.io.real_now();
        let turn = self.hooks.acquire(1).await;
        self.tell().await;
        if self.stopping.get() {
            return Err(RestoreError::Stopping);
        }
        let was = match self.bare().power_state() {
            PowerState::On if self.is_stuck() => {
                // It takes no commands: only a restart helps.
                self.died(self.pull()).await;
                self.tell().await;
                PowerState::Off
            }
            PowerState::On => return Ok(report::restored(self, PowerState::On)),
            was => was,
        };
        self.front.before_restore().await.map_err(RestoreError::FrontBefore)?;
        let on = self.io.real_now();
        let mut notes = self.start(salvage || self.salvage).await?;
        let real_ready_ns = (self.io.real_now() - on).0;
        notes.extend(self.front.after_restore().await.map_err(RestoreError::FrontAfter)?);
        drop(turn);
        self.changed.notify_all();
        self.settled().await?;
        let mut report = report::restored(self, was);
        report.real_ready_ns = real_ready_ns;
        report.real_ns = (self.io.real_now() - began).0;
        report.notes.extend(notes);
        *self.last_restore.borrow_mut() = Some(report.clone());
        Ok(report)
    }

    /// Gives the cache of the box another size, while it is used. Returns a line about it.
    ///
    /// # Errors
    /// [`ResizeError`]
    pub async fn resize(&self, flash_bytes: u64) -> Result<String, ResizeError> {
        // A task waits for it: at time scale 0 what it waits for takes no real time.
        let _announced = self.rt.outstanding("another size of the cache");
        self.bare().resize(flash_bytes).await
    }

    /// Compares every page of the cache of the box with its checksum, while it is used.
    ///
    /// # Errors
    /// [`UpkeepError`]
    pub async fn scrub(&self) -> Result<ScrubOutcome, UpkeepError> {
        // A task waits for it: at time scale 0 what it waits for takes no real time.
        let _announced = self.rt.outstanding("a look at every page of the cache");
        self.bare().scrub().await
    }

    /// Puts a device in the place of one that is lost to the log of the box, while it is used.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub async fn replace(
        &self,
        lost: &Path,
        new: &Path,
        force: bool,
    ) -> Result<ReplaceReport, Refusal> {
        if self.is_stopping() {
            return Err(Refusal::new(Kind::Stopping, RestoreError::Stopping.to_string()));
        }
        let Some(log) = &self.about.log else {
            let why = "it has no log, of which a device could be lost";
            return Err(Refusal::new(Kind::Device, why));
        };
        // A task waits for it: at time scale 0 what it waits for takes no real time.
        let _announced = self.rt.outstanding("a device in the place of a lost one");
        log.replace(lost, new, force).await
    }

    /// Starts the box; returns what has to be said about that, and says it.
    async fn start(&self, salvage: bool) -> Result<Vec<String>, RestoreError> {
        // A task waits for the start: at time scale 0 its flash operations take no real time.
        let _announced = self.rt.outstanding("the start of the drive");
        self.started.set(self.rt.now());
        let notes = self.bare().bring_up(salvage).await?;
        self.readied.set(self.rt.now() - self.started.get());
        notes.iter().for_each(out::note);
        Ok(notes)
    }

    /// Waits until the start is complete.
    async fn settled(&self) -> Result<(), RestoreError> {
        let _announced = self.rt.outstanding("the rest of the start");
        self.bare().recovered().await?;
        self.finished.set(self.rt.now() - self.started.get());
        Ok(())
    }

    /// Times of the last start: from power to the first command, and until it was complete.
    pub fn start_took(&self) -> (Nanos, Nanos) {
        (self.readied.get(), self.finished.get())
    }

    /// The drive has power, but does not take all commands.
    fn is_stuck(&self) -> bool {
        self.bare().failure().is_some() || self.bare().stopped_by().is_some()
    }

    /// Whether the process is about to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// How often the power was cut.
    pub fn pulls(&self) -> u64 {
        self.pulls.get()
    }

    /// Waits until the drive takes commands, and the front serves.
    pub async fn until_on(&self) {
        let is_on = || self.bare().power_state() == PowerState::On && !self.untold.get();
        self.changed.until(is_on).await;
    }

    /// Waits until there were more than `pulls` cuts, and the front knows.
    pub async fn until_cut(&self, pulls: u64) {
        self.changed.until(|| self.pulls.get() > pulls && !self.untold.get()).await;
    }
}

#[cfg(test)]
mod tests;
