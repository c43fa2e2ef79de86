//! A flash log as a subject: its devices on one plug, and the log that is open while there is
//! power.

use crate::log::judge::LogJudge;
use crate::log::member::{LogLink, Members};
use crate::subject::{Fault, Subject};
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{IoError, Link, Operation, PowerCycle};
use tantalum_log::{Log, LogDevice, WhenFull};
use tantalum_rt::{Rt, join_all};

/// A flash log on devices of any kind. Cheap to clone.
#[derive(Clone)]
pub struct LogBox {
    rt: Rt,
    pub(super) members: Members,
    unit: u32,
    running: Rc<RefCell<Option<Open>>>,
}

/// A log that takes records, and what dies with its power.
#[derive(Clone)]
pub struct Open {
    pub(super) log: Log<LogLink>,
    pub(super) link: Link,
}

impl LogBox {
    pub(super) fn new(rt: &Rt, members: Members, unit: u32) -> LogBox {
        LogBox { rt: rt.clone(), members, unit, running: Rc::default() }
    }

    /// Its runtime.
    pub(super) fn rt(&self) -> &Rt {
        &self.rt
    }

    /// The log, if it is open.
    pub fn open(&self) -> Option<Open> {
        self.running.borrow().clone()
    }

    async fn open_log(&self, link: Link) -> Result<Open, String> {
        self.members.starts();
        let on = self.members.present().map(|(_, member)| member.power_on()).collect();
        let on: Result<Vec<()>, IoError> = join_all(on).await.into_iter().collect();
        on.map_err(|e| e.to_string())?;
        let name = |i| self.members.shape.name(i);
        let devices = self.members.present().map(|(i, m)| LogDevice::new(name(i), m.device()));
        let options = self.members.shape.open(self.unit);
        let options = tantalum_log::OpenOptions { when_full: WhenFull::Fail, ..options };
        let log = Log::open(&self.rt, devices.collect(), options).await;
        log.map(|log| Open { log, link }).map_err(|e| e.to_string())
    }
}

impl Subject for LogBox {
    type Judge = LogJudge;

    fn judge(&self) -> LogJudge {
        LogJudge::default()
    }

    fn cut(&self) {
        if let Some(open) = self.running.take() {
            open.link.cut();
        }
        self.members.cut();
    }

    async fn off(&self) {
        join_all(self.members.all.iter().map(|member| member.off()).collect()).await;
    }

    async fn start(&self) -> Result<(), String> {
        let open = self.open_log(Link::new(&self.rt)).await?;
        self.running.replace(Some(open));
        Ok(())
    }

    fn cut_copy(&self, rt: &Rt) -> Option<LogBox> {
        Some(LogBox::new(rt, self.members.cut_copy(rt)?, self.unit))
    }

    fn audit(&self) -> Result<(), String> {
        self.members.audit()
    }

    fn record_operations(&self) {
        self.members.record_operations();
    }

    fn take_operations(&self) -> Vec<Operation> {
        self.members.take_operations()
    }

    /// A device fails a write while the log is open. It is the only one that is ever lost.
    fn fail(&self, _fault: Fault, after: u64) {
        if self.running.borrow().is_some() {
            self.members.fail_write(after);
        }
    }

    fn fail_nothing(&self) {
        self.members.fail_nothing();
    }
}
