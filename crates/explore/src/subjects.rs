//! What comes with the project, as subjects: drives, RAM devices, disks, arrays.

use crate::boxes::{AnyBox, each};
use crate::contract::Contract;
use crate::subject::{Fault, Subject};
use tantalum_device::{Disk, IoError, Operation, PowerCycle, RaidBox, RamDevice, joules_in_words};
use tantalum_drive::Drive;
use tantalum_nand::OpKind;
use tantalum_rt::{Rt, join_all};

impl Subject for Drive {
    type Judge = Contract<Drive>;

    fn judge(&self) -> Contract<Drive> {
        Contract::of(self)
    }

    fn cut(&self) {
        PowerCycle::cut(self);
    }

    async fn off(&self) {
        PowerCycle::off(self).await;
    }

    async fn start(&self) -> Result<(), String> {
        let started = Drive::start(self).await;
        started.map_err(|error| match self.last_failure() {
            Some(why) => why.to_string(),
            None => error.to_string(),
        })
    }

    async fn settle(&self) -> Result<(), String> {
        self.settled().await;
        self.last_failure().map_or(Ok(()), |why| Err(why.to_string()))
    }

    fn cut_copy(&self, rt: &Rt) -> Option<Drive> {
        Drive::cut_copy(self, rt)
    }

    fn audit(&self) -> Result<(), String> {
        Drive::audit(self)
    }

    fn shortage(&self) -> Option<String> {
        let losses = self.power_losses();
        (losses.incomplete > 0).then(|| {
            format!(
                "the emergency dump was not complete: the capacitors had {}, and up to {} were missing",
                joules_in_words(losses.budget_j),
                joules_in_words(losses.most_missing_j)
            )
        })
    }

    fn record_operations(&self) {
        self.array().record_ops();
    }

    fn take_operations(&self) -> Vec<Operation> {
        let of = |op: tantalum_nand::OpRecord| Operation {
            issued: op.issued,
            begin: op.start,
            end: op.end,
            changes: op.kind != OpKind::Read,
        };
        self.array().take_ops().into_iter().map(of).collect()
    }

    fn fail(&self, fault: Fault, after: u64) {
        match fault {
            Fault::Program => self.array().fail_program(after),
            Fault::Erase => self.array().fail_erase(after),
        }
    }

    fn fail_nothing(&self) {
        self.array().fail_nothing();
    }
}

fn started(power_on: Result<(), IoError>) -> Result<(), String> {
    power_on.map_err(|error| error.to_string())
}

impl Subject for RamDevice {
    type Judge = Contract<RamDevice>;

    fn judge(&self) -> Contract<RamDevice> {
        Contract::of(self)
    }

    fn cut(&self) {
        PowerCycle::cut(self);
    }

    async fn off(&self) {
        PowerCycle::off(self).await;
    }

    async fn start(&self) -> Result<(), String> {
        started(self.power_on().await)
    }

    fn cut_copy(&self, rt: &Rt) -> Option<RamDevice> {
        Some(RamDevice::cut_copy(self, rt))
    }

    fn record_operations(&self) {
        RamDevice::record_operations(self);
    }

    fn take_operations(&self) -> Vec<Operation> {
        RamDevice::take_operations(self)
    }
}

impl Subject for Disk {
    type Judge = Contract<Disk>;

    fn judge(&self) -> Contract<Disk> {
        Contract::of(self)
    }

    fn cut(&self) {
        PowerCycle::cut(self);
    }

    async fn off(&self) {
        PowerCycle::off(self).await;
    }

    async fn start(&self) -> Result<(), String> {
        started(self.power_on().await)
    }

    fn cut_copy(&self, rt: &Rt) -> Option<Disk> {
        Disk::cut_copy(self, rt).ok()
    }

    fn record_operations(&self) {
        Disk::record_operations(self);
    }

    fn take_operations(&self) -> Vec<Operation> {
        Disk::take_operations(self)
    }
}

/// Several boxes on one plug: all are copied, cut and held to their invariants together.
impl<B: Subject + PowerCycle> Subject for RaidBox<B> {
    type Judge = Contract<RaidBox<B>>;

    fn judge(&self) -> Contract<RaidBox<B>> {
        Contract::of(self)
    }

    fn cut(&self) {
        PowerCycle::cut(self);
    }

    async fn off(&self) {
        PowerCycle::off(self).await;
    }

    async fn start(&self) -> Result<(), String> {
        join_all(self.members().iter().map(Subject::start).collect()).await.into_iter().collect()
    }

    async fn settle(&self) -> Result<(), String> {
        join_all(self.members().iter().map(Subject::settle).collect()).await.into_iter().collect()
    }

    fn cut_copy(&self, rt: &Rt) -> Option<RaidBox<B>> {
        self.try_map(|member| member.cut_copy(rt))
    }

    fn audit(&self) -> Result<(), String> {
        self.members().iter().try_for_each(Subject::audit)
    }

    fn record_operations(&self) {
        self.members().iter().for_each(Subject::record_operations);
    }

    fn take_operations(&self) -> Vec<Operation> {
        self.members().iter().flat_map(Subject::take_operations).collect()
    }

    /// The first member's operation fails.
    fn fail(&self, fault: Fault, after: u64) {
        if let Some(first) = self.members().first() {
            first.fail(fault, after);
        }
    }

    fn fail_nothing(&self) {
        self.members().iter().for_each(Subject::fail_nothing);
    }
}

impl Subject for AnyBox {
    type Judge = Contract<AnyBox>;

    fn judge(&self) -> Contract<AnyBox> {
        Contract::of(self)
    }

    fn cut(&self) {
        PowerCycle::cut(self);
    }

    async fn off(&self) {
        PowerCycle::off(self).await;
    }

    async fn start(&self) -> Result<(), String> {
        each!(self, b => Subject::start(b).await)
    }

    async fn settle(&self) -> Result<(), String> {
        each!(self, b => b.settle().await)
    }

    fn cut_copy(&self, rt: &Rt) -> Option<AnyBox> {
        Some(match self {
            AnyBox::Ssd(b) => AnyBox::Ssd(Subject::cut_copy(b, rt)?),
            AnyBox::Disk(b) => AnyBox::Disk(Subject::cut_copy(b, rt)?),
            AnyBox::Ram(b) => AnyBox::Ram(Subject::cut_copy(b, rt)?),
            AnyBox::Ssds(b) => AnyBox::Ssds(b.cut_copy(rt)?),
            AnyBox::Disks(b) => AnyBox::Disks(b.cut_copy(rt)?),
            AnyBox::Rams(b) => AnyBox::Rams(b.cut_copy(rt)?),
        })
    }

    fn audit(&self) -> Result<(), String> {
        each!(self, b => Subject::audit(b))
    }

    fn shortage(&self) -> Option<String> {
        self.drives().iter().find_map(Subject::shortage)
    }

    fn record_operations(&self) {
        each!(self, b => Subject::record_operations(b));
    }

    fn take_operations(&self) -> Vec<Operation> {
        each!(self, b => Subject::take_operations(b))
    }

    fn fail(&self, fault: Fault, after: u64) {
        each!(self, b => b.fail(fault, after));
    }

    fn fail_nothing(&self) {
        each!(self, b => b.fail_nothing());
    }
}
