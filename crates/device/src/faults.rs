//! A wrapper that makes commands fail.
//!
//! 1. A command fails with [`IoError::Failed`] if its number or the dice say so.
//!    Of a failed write or discard nothing is known: half of them, by the dice, are
//!    carried out all the same. A failed group never is, nor is a failed flush.
//! 2. After a flush or a write with forced unit access failed, injected here or in the
//!    device below, everything that changes the device is refused with
//!    [`IoError::Poisoned`] until [`Faults::reopen`] or a power cycle (contract, 6).

use crate::{
    AtomicError, Block, BlockDevice, Blocks, CommandKind, Data, DataMut, Durability, Extent,
    IoError, PowerCycle, forward,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use tantalum_rt::{Rt, Stream};

const INJECTED: IoError = IoError::Failed("an injected fault");

/// A device, or a box, some of whose commands fail. A clone shares plan and counts.
///
/// ```
/// use tantalum_device::{
///     Block, BlockDevice, Caps, CommandKind, Data, Durability, Faults, IoError, Payload, RamDevice,
///     RamOptions,
/// };
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let ram = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(16, Payload::Stamps)));
/// let device = Faults::new(&rt, ram, "faults");
/// device.fail_nth(CommandKind::Flush, 2);
/// let write = runtime.block_on(async move {
///     device.flush().await.unwrap();
///     device.flush().await.unwrap_err();
///     // After a flush that failed no write is taken.
///     device.write(Block(0), Data::Stamps(&[1]), Durability::Normal).await
/// });
/// assert_eq!(write.unwrap(), Err(IoError::Poisoned));
/// ```
#[derive(Clone)]
pub struct Faults<D> {
    inner: D,
    plan: Rc<Plan>,
}

struct Plan {
    dice: RefCell<Stream>,
    kinds: RefCell<[KindPlan; 6]>,
    poisoned: Cell<bool>,
    injected: Cell<u64>,
}

#[derive(Clone, Default)]
struct KindPlan {
    seen: u64,
    at: BTreeSet<u64>,
    num: u64,
    den: u64,
}

impl<D> Faults<D> {
    /// Nothing fails yet. `stream` names the random stream of the dice.
    pub fn new(rt: &Rt, inner: D, stream: &str) -> Faults<D> {
        let plan = Plan {
            dice: RefCell::new(rt.stream(stream)),
            kinds: RefCell::default(),
            poisoned: Cell::new(false),
            injected: Cell::new(0),
        };
        Faults { inner, plan: Rc::new(plan) }
    }

    /// The `n`-th command of this kind from now on fails; 1 is the next.
    pub fn fail_nth(&self, kind: CommandKind, n: u64) {
        let plan = &mut self.plan.kinds.borrow_mut()[kind.index()];
        let at = plan.seen.saturating_add(n);
        plan.at.insert(at);
    }

    /// Each command of this kind fails with probability `num / den`.
    pub fn fail_often(&self, kind: CommandKind, num: u64, den: u64) {
        let plan = &mut self.plan.kinds.borrow_mut()[kind.index()];
        (plan.num, plan.den) = (num, den);
    }

    /// No further command fails. A poisoned device stays poisoned.
    pub fn clear(&self) {
        for plan in self.plan.kinds.borrow_mut().iter_mut() {
            *plan = KindPlan { seen: plan.seen, ..KindPlan::default() };
        }
    }

    /// Opens the device again after a failed durability step.
    pub fn reopen(&self) {
        self.plan.poisoned.set(false);
    }

    /// Whether the device takes no writes since a durability step failed.
    pub fn is_poisoned(&self) -> bool {
        self.plan.poisoned.get()
    }

    /// How many faults were injected.
    pub fn injected(&self) -> u64 {
        self.plan.injected.get()
    }

    /// The device below.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl Plan {
    /// Counts one command; whether it is to fail.
    fn fails(&self, kind: CommandKind) -> bool {
        let mut kinds = self.kinds.borrow_mut();
        let plan = &mut kinds[kind.index()];
        plan.seen += 1;
        let fails = plan.at.remove(&plan.seen)
            || (plan.num > 0 && self.dice.borrow_mut().chance(plan.num, plan.den));
        self.injected.set(self.injected.get() + u64::from(fails));
        fails
    }

    fn check_open(&self) -> Result<(), IoError> {
        if self.poisoned.get() { Err(IoError::Poisoned) } else { Ok(()) }
    }

    /// Notes how a durability step ended.
    fn durability(&self, result: Result<(), IoError>) -> Result<(), IoError> {
        if matches!(result, Err(IoError::Failed(_) | IoError::Poisoned)) {
            self.poisoned.set(true);
        }
        result
    }

    fn carried_out_anyway(&self) -> bool {
        self.dice.borrow_mut().chance(1, 2)
    }
}

impl<D: BlockDevice> BlockDevice for Faults<D> {
    forward!(inner: caps, is_alive, arm_queue, blocks_its_thread, allocation);

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        if self.plan.fails(CommandKind::Read) {
            return Err(INJECTED);
        }
        self.inner.read(at, buf).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        self.plan.check_open()?;
        let fails = self.plan.fails(CommandKind::of_write(want));
        let result = if !fails {
            self.inner.write(at, data, want).await
        } else if self.plan.carried_out_anyway() {
            self.inner.write(at, data, want).await.and(Err(INJECTED))
        } else {
            Err(INJECTED)
        };
        if want == Durability::Fua { self.plan.durability(result) } else { result }
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        self.plan.check_open()?;
        if self.plan.fails(CommandKind::Group) {
            return Err(INJECTED.into());
        }
        self.inner.write_atomic(group).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.plan.check_open()?;
        if self.plan.fails(CommandKind::Flush) {
            return self.plan.durability(Err(INJECTED));
        }
        let result = self.inner.flush().await;
        self.plan.durability(result)
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        self.plan.check_open()?;
        if !self.plan.fails(CommandKind::Discard) {
            return self.inner.discard(range).await;
        }
        if self.plan.carried_out_anyway() {
            self.inner.discard(range).await?;
        }
        Err(INJECTED)
    }
}

impl<B: PowerCycle> PowerCycle for Faults<B> {
    type Device = Faults<B::Device>;

    forward!(inner: cut, off);

    fn device(&self) -> Faults<B::Device> {
        Faults { inner: self.inner.device(), plan: self.plan.clone() }
    }

    /// Also opens the device again.
    async fn power_on(&self) -> Result<(), IoError> {
        self.inner.power_on().await?;
        self.reopen();
        Ok(())
    }
}
