//! A device some of whose writes take much longer, or do not end until they are let go.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{
    Block, BlockDevice, Data, DataMut, Durability, IoError, PowerCycle, forward,
};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{Nanos, Rt, Stream};

/// Which writes are slow.
pub struct SlowPlan {
    rt: Rt,
    dice: RefCell<Stream>,
    /// One write in so many; 0: none.
    pub one_in: Cell<u64>,
    /// How much longer that takes.
    pub delay: Cell<Nanos>,
    /// Whether writes and flushes wait until they are let go ([`Slow::let_go`]).
    pub stalled: Cell<bool>,
    /// Whether reads wait until they are let go.
    pub mute: Cell<bool>,
    go_on: WaitQueue,
}

/// A device, or a box, that is slow now and then. A clone shares the plan. Writes that wait reach
/// the device only when they are let go; reads wait only if it is mute.
#[derive(Clone)]
pub struct Slow<D> {
    /// The device below.
    pub inner: D,
    /// When it is slow.
    pub plan: Rc<SlowPlan>,
}

impl<D> Slow<D> {
    /// Nothing is slow yet. `name` is that of the random stream of its dice.
    pub fn new(rt: &Rt, inner: D, name: &str) -> Slow<D> {
        let plan = SlowPlan {
            rt: rt.clone(),
            dice: RefCell::new(rt.stream(name)),
            one_in: Cell::new(0),
            delay: Cell::new(Nanos::ZERO),
            stalled: Cell::new(false),
            mute: Cell::new(false),
            go_on: WaitQueue::new(rt, "a stalled device"),
        };
        Slow { inner, plan: Rc::new(plan) }
    }

    /// It answers again, to what it was given meanwhile, too.
    pub fn let_go(&self) {
        self.plan.mute.set(false);
        self.take_writes();
    }

    /// The same of writes and flushes alone.
    pub fn take_writes(&self) {
        self.plan.stalled.set(false);
        self.plan.go_on.notify_all();
    }

    async fn pass(&self) {
        self.plan.go_on.until(|| !self.plan.stalled.get()).await;
        let one_in = self.plan.one_in.get();
        if one_in > 0 && self.plan.dice.borrow_mut().chance(1, one_in) {
            self.plan.rt.sleep(self.plan.delay.get()).await;
        }
    }
}

impl<D: BlockDevice> BlockDevice for Slow<D> {
    forward!(inner: caps, is_alive, blocks_its_thread, write_atomic, discard);

    async fn read(&self, at: Block, data: DataMut<'_>) -> Result<(), IoError> {
        self.plan.go_on.until(|| !self.plan.mute.get()).await;
        self.inner.read(at, data).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        self.pass().await;
        self.inner.write(at, data, want).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.plan.go_on.until(|| !self.plan.stalled.get()).await;
        self.inner.flush().await
    }
}

/// A cut does not wait: what is held back never reaches the device.
impl<B: PowerCycle> PowerCycle for Slow<B> {
    type Device = Slow<B::Device>;

    forward!(inner: cut, off, power_on);

    fn device(&self) -> Slow<B::Device> {
        Slow { inner: self.inner.device(), plan: self.plan.clone() }
    }
}
