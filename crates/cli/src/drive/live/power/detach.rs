//! The cache of a box is given up while the box is served.
//!
//! 1. First everything goes to the slow device while clients go on. If that fails nothing has
//!    changed.
//! 2. Then the process ends as at a signal: the front stops. What its clients wrote last goes to the
//!    slow device, and the flash device is given up. If that fails the box is closed with its cache.
//! 3. The answer comes when the power is off. Who asks meanwhile gets the same answer, or tries again
//!    after a first attempt that failed.

use super::super::control::not_done;
use super::{Front, Plug, RestoreError};
use crate::members::CacheDescription;
use crate::out;
use std::cell::{Cell, RefCell};
use tantalum_device::{Line, LiveBox, UpkeepError};
use tantalum_export::control::{DetachReport, Kind, Refusal};
use tantalum_rt::Rt;
use tantalum_rt::sync::Mutex;

/// How far that is.
pub struct Leave {
    turn: Mutex,
    /// The process ends now (2).
    ends: Cell<bool>,
    answer: RefCell<Option<Result<DetachReport, Refusal>>>,
}

impl Leave {
    pub fn new(rt: &Rt) -> Leave {
        let turn = Mutex::new(rt, "the cache to be given up");
        Leave { turn, ends: Cell::new(false), answer: RefCell::default() }
    }
}

impl<B: LiveBox, F: Front> Plug<B, F> {
    /// Gives up the cache of the box, and ends the process.
    ///
    /// # Errors
    /// The refusal to answer with.
    pub async fn detach(&self) -> Result<DetachReport, Refusal> {
        // A task waits for it: at time scale 0 what it waits for takes no real time.
        let _announced = self.rt.outstanding("the end of a cache");
        let _turn = self.leave.turn.lock().await;
        if !self.leave.ends.get() {
            let cleaned = self.bare().clean().await;
            if self.is_stopping() {
                return Err(Refusal::new(Kind::Stopping, RestoreError::Stopping.to_string()));
            }
            cleaned.map_err(|e| not_done(e, Kind::NotDetached))?;
            self.leave.ends.set(true);
            self.changed.notify_all();
        }
        let answered = || self.leave.answer.borrow().is_some();
        self.changed.until(answered).await;
        let answer = self.leave.answer.borrow().clone();
        answer.unwrap_or_else(|| Err(Refusal::new(Kind::NotDetached, "there is no answer")))
    }

    /// Waits until the process has to end because the cache is given up.
    pub async fn until_to_detach(&self) {
        self.changed.until(|| self.is_to_detach()).await;
    }

    /// Whether it has to.
    pub fn is_to_detach(&self) -> bool {
        self.leave.ends.get()
    }

    /// The front has stopped: brings the rest to the slow device. Returns where the box begins there.
    ///
    /// # Errors
    /// Why not, in a line.
    pub async fn detach_unused(&self) -> Result<u64, String> {
        let detached = self.bare().detach().await;
        detached.map_err(|error| match error {
            UpkeepError::NoCache(why) | UpkeepError::Failed(why) => why,
        })
    }

    /// Answers those who asked, and says what was done.
    ///
    /// # Errors
    /// Why the cache was not given up, in a line.
    pub fn answer_detach(&self, detached: Result<u64, String>) -> Result<(), String> {
        let detached = detached.map_err(|why| {
            format!(
                "clients have ended, and the cache is not given up: {why}; it can be served again"
            )
        });
        let refused = |why: &String| Refusal::new(Kind::NotDetached, why);
        let answer = detached.as_ref().map(|byte| DetachReport { first_byte: *byte });
        *self.leave.answer.borrow_mut() = Some(answer.map_err(refused));
        self.changed.notify_all();
        let first_byte = detached?;
        let of = self.about.image.as_deref().map(CacheDescription::read);
        if let Some(Ok(description)) = of {
            out::note(description.has_everything(first_byte));
        }
        Ok(())
    }

    /// Lines for the state of the box while it goes: its cache, and who has it in use.
    pub fn lines_of_the_end(&self) -> impl Iterator<Item = Line> {
        let text = "everything goes to the slow device; then the process ends";
        let detach = self.leave.turn.is_busy().then(|| Line::new("detach", text));
        let in_use = self.front.in_use().map(|who| Line::new("in use", who));
        detach.into_iter().chain(in_use)
    }
}
