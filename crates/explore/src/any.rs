//! Whatever a row of an exploration names: its blueprint, what that builds, and the judge of it.

use crate::blueprints::BoxBlueprint;
use crate::boxes::AnyBox;
use crate::cache::{
    BareCacheBlueprint, BareCacheBox, CacheBlueprint, CacheBox, CacheJudge, CacheSession,
};
use crate::command::Command;
use crate::contract::Contract;
use crate::failure::Failure;
use crate::log::{LogBlueprint, LogBox, LogJudge, LogSession, VolumeBlueprint, VolumeBox};
use crate::subject::{Blueprint, Fault, Judge, Room, Subject};
use tantalum_device::{Operation, PowerCycle};
use tantalum_oracle::Host;
use tantalum_rt::{Nanos, Rt};

/// A blueprint of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyBlueprint {
    /// Of a block device.
    Box(Box<BoxBlueprint>),
    /// Of a flash log.
    Log(Box<LogBlueprint>),
    /// Of a log volume.
    Volume(Box<VolumeBlueprint>),
    /// Of a cache volume.
    Cache(Box<CacheBlueprint>),
    /// Of a cache as its program uses it.
    BareCache(Box<BareCacheBlueprint>),
}

impl From<BoxBlueprint> for AnyBlueprint {
    fn from(one: BoxBlueprint) -> AnyBlueprint {
        AnyBlueprint::Box(Box::new(one))
    }
}

/// A subject of any kind. Cheap to clone.
#[derive(Clone)]
pub enum AnySubject {
    /// A block device.
    Box(AnyBox),
    /// A flash log.
    Log(LogBox),
    /// A log volume.
    Volume(VolumeBox),
    /// A cache volume.
    Cache(CacheBox),
    /// A cache as its program uses it.
    BareCache(BareCacheBox),
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
    /// Of a cache volume.
    Cache(Contract<CacheBox>),
    /// Of a cache as its program uses it.
    BareCache(CacheJudge),
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
    /// To a cache volume.
    Cache(Host<<CacheBox as PowerCycle>::Device>),
    /// To a cache as its program uses it.
    BareCache(CacheSession),
}

/// The same call for each kind.
macro_rules! kinds {
    ($on:expr, $of:ident, $it:ident => $call:expr) => {
        match $on {
            $of::Box($it) => $call,
            $of::Log($it) => $call,
            $of::Volume($it) => $call,
            $of::Cache($it) => $call,
            $of::BareCache($it) => $call,
        }
    };
}

impl Blueprint for AnyBlueprint {
    type Subject = AnySubject;

    fn name(&self) -> String {
        kinds!(self, AnyBlueprint, b => b.name())
    }

    fn build(&self, rt: &Rt) -> Result<AnySubject, String> {
        Ok(match self {
            AnyBlueprint::Box(b) => AnySubject::Box(b.build(rt)?),
            AnyBlueprint::Log(b) => AnySubject::Log(b.build(rt)?),
            AnyBlueprint::Volume(b) => AnySubject::Volume(b.build(rt)?),
            AnyBlueprint::Cache(b) => AnySubject::Cache(b.build(rt)?),
            AnyBlueprint::BareCache(b) => AnySubject::BareCache(b.build(rt)?),
        })
    }

    fn room(&self) -> Result<Room, String> {
        kinds!(self, AnyBlueprint, b => b.room())
    }

    fn step(&self) -> Nanos {
        kinds!(self, AnyBlueprint, b => b.step())
    }

    fn to_rust(&self) -> String {
        kinds!(self, AnyBlueprint, b => b.to_rust())
    }
}

impl Subject for AnySubject {
    type Judge = AnyJudge;

    fn judge(&self) -> AnyJudge {
        match self {
            AnySubject::Box(s) => AnyJudge::Box(s.judge()),
            AnySubject::Log(s) => AnyJudge::Log(s.judge()),
            AnySubject::Volume(s) => AnyJudge::Volume(s.judge()),
            AnySubject::Cache(s) => AnyJudge::Cache(s.judge()),
            AnySubject::BareCache(s) => AnyJudge::BareCache(s.judge()),
        }
    }

    fn cut(&self) {
        kinds!(self, AnySubject, s => Subject::cut(s));
    }

    async fn off(&self) {
        kinds!(self, AnySubject, s => Subject::off(s).await);
    }

    async fn start(&self) -> Result<(), String> {
        kinds!(self, AnySubject, s => s.start().await)
    }

    async fn settle(&self) -> Result<(), String> {
        kinds!(self, AnySubject, s => s.settle().await)
    }

    fn cut_copy(&self, rt: &Rt) -> Option<AnySubject> {
        Some(match self {
            AnySubject::Box(s) => AnySubject::Box(s.cut_copy(rt)?),
            AnySubject::Log(s) => AnySubject::Log(s.cut_copy(rt)?),
            AnySubject::Volume(s) => AnySubject::Volume(s.cut_copy(rt)?),
            AnySubject::Cache(s) => AnySubject::Cache(s.cut_copy(rt)?),
            AnySubject::BareCache(s) => AnySubject::BareCache(s.cut_copy(rt)?),
        })
    }

    fn audit(&self) -> Result<(), String> {
        kinds!(self, AnySubject, s => s.audit())
    }

    fn record_operations(&self) {
        kinds!(self, AnySubject, s => s.record_operations());
    }

    fn take_operations(&self) -> Vec<Operation> {
        kinds!(self, AnySubject, s => s.take_operations())
    }

    fn fail(&self, fault: Fault, after: u64) {
        kinds!(self, AnySubject, s => s.fail(fault, after));
    }

    fn fail_nothing(&self) {
        kinds!(self, AnySubject, s => s.fail_nothing());
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
            AnyJudge::Cache(j) => AnyJudge::Cache(j.fork()),
            AnyJudge::BareCache(j) => AnyJudge::BareCache(j.fork()),
        }
    }

    fn session(&self, subject: &AnySubject) -> AnySession {
        match (self, subject) {
            (AnyJudge::Box(j), AnySubject::Box(s)) => AnySession::Box(j.session(s)),
            (AnyJudge::Log(j), AnySubject::Log(s)) => AnySession::Log(j.session(s)),
            (AnyJudge::Volume(j), AnySubject::Volume(s)) => AnySession::Volume(j.session(s)),
            (AnyJudge::Cache(j), AnySubject::Cache(s)) => AnySession::Cache(j.session(s)),
            (AnyJudge::BareCache(j), AnySubject::BareCache(s)) => {
                AnySession::BareCache(j.session(s))
            }
            _ => unreachable!("{OTHER}"),
        }
    }

    async fn send(&self, session: &AnySession, command: Command) -> Result<(), Failure> {
        match (self, session) {
            (AnyJudge::Box(j), AnySession::Box(s)) => j.send(s, command).await,
            (AnyJudge::Log(j), AnySession::Log(s)) => j.send(s, command).await,
            (AnyJudge::Volume(j), AnySession::Volume(s)) => j.send(s, command).await,
            (AnyJudge::Cache(j), AnySession::Cache(s)) => j.send(s, command).await,
            (AnyJudge::BareCache(j), AnySession::BareCache(s)) => j.send(s, command).await,
            _ => unreachable!("{OTHER}"),
        }
    }

    async fn check(&self, subject: &AnySubject) -> Result<(), Failure> {
        match (self, subject) {
            (AnyJudge::Box(j), AnySubject::Box(s)) => j.check(s).await,
            (AnyJudge::Log(j), AnySubject::Log(s)) => j.check(s).await,
            (AnyJudge::Volume(j), AnySubject::Volume(s)) => j.check(s).await,
            (AnyJudge::Cache(j), AnySubject::Cache(s)) => j.check(s).await,
            (AnyJudge::BareCache(j), AnySubject::BareCache(s)) => j.check(s).await,
            _ => unreachable!("{OTHER}"),
        }
    }

    async fn read_all(&self, subject: &AnySubject) -> Result<(), Failure> {
        match (self, subject) {
            (AnyJudge::Box(j), AnySubject::Box(s)) => j.read_all(s).await,
            (AnyJudge::Log(j), AnySubject::Log(s)) => j.read_all(s).await,
            (AnyJudge::Volume(j), AnySubject::Volume(s)) => j.read_all(s).await,
            (AnyJudge::Cache(j), AnySubject::Cache(s)) => j.read_all(s).await,
            (AnyJudge::BareCache(j), AnySubject::BareCache(s)) => j.read_all(s).await,
            _ => unreachable!("{OTHER}"),
        }
    }
}
