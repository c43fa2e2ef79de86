//! Whatever a row of an exploration names, and its judge.

use crate::boxes::AnyBox;
use crate::command::Command;
use crate::contract::Contract;
use crate::failure::Failure;
use crate::log::{LogBox, LogJudge, LogSession, VolumeBox};
use crate::subject::{Fault, Judge, Subject};
use tantalum_device::{Operation, PowerCycle};
use tantalum_oracle::Host;
use tantalum_rt::Rt;

/// A subject of any kind. Cheap to clone.
#[derive(Clone)]
pub enum AnySubject {
    /// A block device.
    Box(AnyBox),
    /// A flash log.
    Log(LogBox),
    /// A log volume.
    Volume(VolumeBox),
}

/// The judge of a subject of any kind.
#[derive(Clone)]
pub enum AnyJudge {
    /// Of a block device.
    Box(Contract<AnyBox>),
    /// Of a flash log.
    Log(LogJudge),
    /// Of a log volume.
    Volume(Contract<VolumeBox>),
}

/// What commands are sent over.
#[derive(Clone)]
pub enum AnySession {
    /// To a block device.
    Box(Host<<AnyBox as PowerCycle>::Device>),
    /// To a flash log.
    Log(LogSession),
    /// To a log volume.
    Volume(Host<<VolumeBox as PowerCycle>::Device>),
}

/// The same call for each kind.
macro_rules! kinds {
    ($on:expr, $it:ident => $call:expr) => {
        match $on {
            AnySubject::Box($it) => $call,
            AnySubject::Log($it) => $call,
            AnySubject::Volume($it) => $call,
        }
    };
}

impl Subject for AnySubject {
    type Judge = AnyJudge;

    fn judge(&self) -> AnyJudge {
        match self {
            AnySubject::Box(s) => AnyJudge::Box(s.judge()),
            AnySubject::Log(s) => AnyJudge::Log(s.judge()),
            AnySubject::Volume(s) => AnyJudge::Volume(s.judge()),
        }
    }

    fn cut(&self) {
        kinds!(self, s => Subject::cut(s));
    }

    async fn off(&self) {
        kinds!(self, s => Subject::off(s).await);
    }

    async fn start(&self) -> Result<(), String> {
        kinds!(self, s => s.start().await)
    }

    async fn settle(&self) -> Result<(), String> {
        kinds!(self, s => s.settle().await)
    }

    fn cut_copy(&self, rt: &Rt) -> Option<AnySubject> {
        Some(match self {
            AnySubject::Box(s) => AnySubject::Box(s.cut_copy(rt)?),
            AnySubject::Log(s) => AnySubject::Log(s.cut_copy(rt)?),
            AnySubject::Volume(s) => AnySubject::Volume(s.cut_copy(rt)?),
        })
    }

    fn audit(&self) -> Result<(), String> {
        kinds!(self, s => s.audit())
    }

    fn record_operations(&self) {
        kinds!(self, s => s.record_operations());
    }

    fn take_operations(&self) -> Vec<Operation> {
        kinds!(self, s => s.take_operations())
    }

    fn fail(&self, fault: Fault, after: u64) {
        kinds!(self, s => s.fail(fault, after));
    }

    fn fail_nothing(&self) {
        kinds!(self, s => s.fail_nothing());
    }
}

/// Judge and subject are of one kind, since one is made by the other.
const OTHER: &str = "a judge of another kind of subject";

impl Judge for AnyJudge {
    type Subject = AnySubject;
    type Session = AnySession;

    fn fork(&self) -> AnyJudge {
        match self {
            AnyJudge::Box(j) => AnyJudge::Box(j.fork()),
            AnyJudge::Log(j) => AnyJudge::Log(j.fork()),
            AnyJudge::Volume(j) => AnyJudge::Volume(j.fork()),
        }
    }

    fn session(&self, subject: &AnySubject) -> AnySession {
        match (self, subject) {
            (AnyJudge::Box(j), AnySubject::Box(s)) => AnySession::Box(j.session(s)),
            (AnyJudge::Log(j), AnySubject::Log(s)) => AnySession::Log(j.session(s)),
            (AnyJudge::Volume(j), AnySubject::Volume(s)) => AnySession::Volume(j.session(s)),
            _ => unreachable!("{OTHER}"),
        }
    }

    async fn send(&self, session: &AnySession, command: Command) -> Result<(), Failure> {
        match (self, session) {
            (AnyJudge::Box(j), AnySession::Box(s)) => j.send(s, command).await,
            (AnyJudge::Log(j), AnySession::Log(s)) => j.send(s, command).await,
            (AnyJudge::Volume(j), AnySession::Volume(s)) => j.send(s, command).await,
            _ => unreachable!("{OTHER}"),
        }
    }

    async fn check(&self, subject: &AnySubject) -> Result<(), Failure> {
        match (self, subject) {
            (AnyJudge::Box(j), AnySubject::Box(s)) => j.check(s).await,
            (AnyJudge::Log(j), AnySubject::Log(s)) => j.check(s).await,
            (AnyJudge::Volume(j), AnySubject::Volume(s)) => j.check(s).await,
            _ => unreachable!("{OTHER}"),
        }
    }

    async fn read_all(&self, subject: &AnySubject) -> Result<(), Failure> {
        match (self, subject) {
            (AnyJudge::Box(j), AnySubject::Box(s)) => j.read_all(s).await,
            (AnyJudge::Log(j), AnySubject::Log(s)) => j.read_all(s).await,
            (AnyJudge::Volume(j), AnySubject::Volume(s)) => j.read_all(s).await,
            _ => unreachable!("{OTHER}"),
        }
    }
}
