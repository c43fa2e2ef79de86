//! The devices of a log: some of their writes are slow, one may fail, and one may be gone.
//!
//! 1. At most one device of a life and of all that follow it is lost, whatever is cut: that is what
//!    a log with two copies bears.

use crate::boxes::{AnyBox, AnyLink};
use crate::log::shape::LogShape;
use crate::log::slow::Slow;
use crate::subject::Subject;
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{CommandKind, Faults, IoError, Operation, PowerCycle};
use tantalum_rt::Rt;

/// A device of a log as the log sees it.
pub type LogLink = Slow<Faults<AnyLink>>;

/// A box with a device of a log. Cheap to clone.
#[derive(Clone)]
pub struct LogMember {
    wired: Slow<Faults<AnyBox>>,
    gone: Rc<Cell<bool>>,
}

impl LogMember {
    fn new(rt: &Rt, device: AnyBox, name: &str, shape: &LogShape) -> LogMember {
        let faults = Faults::new(rt, device, &format!("faults of {name}"));
        let wired = Slow::new(rt, faults, &format!("slow writes of {name}"));
        wired.plan.one_in.set(shape.slow_one_in);
        wired.plan.delay.set(shape.slow_by);
        LogMember { wired, gone: Rc::default() }
    }

    /// The box itself.
    pub fn inner(&self) -> &AnyBox {
        self.wired.inner.inner()
    }
}

impl PowerCycle for LogMember {
    type Device = LogLink;

    fn device(&self) -> LogLink {
        self.wired.device()
    }

    fn cut(&self) {
        self.wired.cut();
    }

    async fn off(&self) {
        self.wired.off().await;
    }

    /// # Errors
    /// [`IoError::Failed`] if the device is gone.
    async fn power_on(&self) -> Result<(), IoError> {
        match self.gone.get() {
            true => Err(IoError::Failed("the device is gone")),
            false => self.wired.power_on().await,
        }
    }
}

/// All devices of a log, the archive last. Cheap to clone.
#[derive(Clone)]
pub struct Members {
    rt: Rt,
    pub shape: LogShape,
    pub all: Rc<[LogMember]>,
    /// The one that failed or was gone once.
    lost: Rc<Cell<Option<usize>>>,
    /// Whether they had power since they were formatted. Before that none is lost.
    used: Rc<Cell<bool>>,
}

impl Members {
    pub fn new(rt: &Rt, boxes: Vec<AnyBox>, shape: &LogShape) -> Members {
        let boxes = boxes.into_iter().enumerate();
        let all = boxes.map(|(i, b)| LogMember::new(rt, b, &shape.name(i), shape)).collect();
        Members { rt: rt.clone(), shape: *shape, all, lost: Rc::default(), used: Rc::default() }
    }

    /// The members with their names: those of the array, and the archive.
    #[allow(clippy::type_complexity, reason = "what a log volume takes")]
    pub fn named(&self) -> (Vec<(String, LogMember)>, Option<(String, LogMember)>) {
        let all = self.all.iter().enumerate();
        let mut array: Vec<_> = all.map(|(i, m)| (self.shape.name(i), m.clone())).collect();
        let archive = self.shape.archive.then(|| array.pop()).flatten();
        (array, archive)
    }

    /// Those that are there.
    pub fn present(&self) -> impl Iterator<Item = (usize, &LogMember)> {
        self.all.iter().enumerate().filter(|(_, member)| !member.gone.get())
    }

    /// Their power is on its way.
    pub fn starts(&self) {
        self.used.set(true);
    }

    pub fn cut(&self) {
        self.all.iter().for_each(PowerCycle::cut);
    }

    /// All of them as a cut at this moment leaves them. One may be gone from then on, or be back.
    pub fn cut_copy(&self, rt: &Rt) -> Option<Members> {
        let boxes: Option<Vec<AnyBox>> =
            self.all.iter().map(|member| member.inner().cut_copy(rt)).collect();
        let copy = Members::new(rt, boxes?, &self.shape);
        copy.lost.set(self.lost.get());
        copy.used.set(self.used.get());
        if self.shape.loss && self.used.get() {
            let mut dice = rt.stream("which device is gone");
            if dice.chance(1, 3) {
                let device = copy.choose(dice.below(self.all.len() as u64) as usize);
                copy.all[device].gone.set(true);
            }
        }
        Some(copy)
    }

    /// The device that is lost, which is this one if none was.
    fn choose(&self, device: usize) -> usize {
        let device = self.lost.get().unwrap_or(device);
        self.lost.set(Some(device));
        device
    }

    /// One device fails a write, if there are copies of what it holds.
    pub fn fail_write(&self, after: u64) {
        if !self.shape.loss {
            return;
        }
        let mut dice = self.rt.stream("which device fails");
        let device = self.choose(dice.below(self.all.len() as u64) as usize);
        let device = &self.all[device].wired.inner;
        device.fail_nth(CommandKind::Fua, after + 1);
        device.fail_nth(CommandKind::Write, after + 1);
    }

    pub fn fail_nothing(&self) {
        self.all.iter().for_each(|member| member.wired.inner.clear());
    }

    pub fn record_operations(&self) {
        self.all.iter().for_each(|member| member.inner().record_operations());
    }

    pub fn take_operations(&self) -> Vec<Operation> {
        self.all.iter().flat_map(|member| member.inner().take_operations()).collect()
    }

    pub fn audit(&self) -> Result<(), String> {
        self.present().try_for_each(|(_, member)| member.inner().audit())
    }
}
