//! Measures how long a device is busy: how long at least one command is under way.
//!
//! 1. The time counts from the start of a command until no command is under way. A command that is
//!    given up ends then.
//! 2. A measured run is the run without measuring: nothing here takes virtual time.

use crate::run::row::{RowBox, Traffic};
use std::cell::Cell;
use std::rc::Rc;
use tantalum_device::{
    Allocation, AtomicError, Block, BlockDevice, Blocks, Caps, Data, DataMut, Durability, Extent,
    IoError, PowerCycle,
};
use tantalum_drive::Drive;
use tantalum_rt::{Nanos, Rt};

/// A device, or a box, whose busy time is measured. A clone shares the measurement.
#[derive(Clone)]
pub struct Busy<D> {
    inner: D,
    rt: Rt,
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    under_way: Cell<u64>,
    /// When the first of the commands under way began.
    since: Cell<Nanos>,
    /// Busy time up to the last moment without a command.
    before: Cell<Nanos>,
}

/// A command under way.
struct UnderWay<'a, D>(&'a Busy<D>);

impl<D> Drop for UnderWay<'_, D> {
    fn drop(&mut self) {
        let s = &self.0.shared;
        s.under_way.set(s.under_way.get() - 1);
        if s.under_way.get() == 0 {
            let busy = self.0.rt.now().saturating_sub(s.since.get());
            s.before.set(Nanos(s.before.get().0 + busy.0));
        }
    }
}

impl<D> Busy<D> {
    /// Wraps a device that was not busy yet.
    pub fn new(rt: &Rt, inner: D) -> Busy<D> {
        Busy { inner, rt: rt.clone(), shared: Rc::default() }
    }

    /// How long it was busy so far.
    pub fn time(&self) -> Nanos {
        let s = &self.shared;
        let now = match s.under_way.get() {
            0 => 0,
            _ => self.rt.now().saturating_sub(s.since.get()).0,
        };
        Nanos(s.before.get().0 + now)
    }

    fn begin(&self) -> UnderWay<'_, D> {
        let s = &self.shared;
        if s.under_way.get() == 0 {
            s.since.set(self.rt.now());
        }
        s.under_way.set(s.under_way.get() + 1);
        UnderWay(self)
    }
}

impl<D: BlockDevice> BlockDevice for Busy<D> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn is_alive(&self) -> bool {
        self.inner.is_alive()
    }

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let _command = self.begin();
        self.inner.read(at, buf).await
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let _command = self.begin();
        self.inner.write(at, data, want).await
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        let _command = self.begin();
        self.inner.write_atomic(group).await
    }

    async fn flush(&self) -> Result<(), IoError> {
        let _command = self.begin();
        self.inner.flush().await
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let _command = self.begin();
        self.inner.discard(range).await
    }

    async fn allocation(&self, range: Blocks) -> Result<Allocation, IoError> {
        self.inner.allocation(range).await
    }
}

impl<B: PowerCycle> PowerCycle for Busy<B> {
    type Device = Busy<B::Device>;

    fn device(&self) -> Busy<B::Device> {
        let (rt, shared) = (self.rt.clone(), self.shared.clone());
        Busy { inner: self.inner.device(), rt, shared }
    }

    fn cut(&self) {
        self.inner.cut();
    }

    async fn off(&self) {
        self.inner.off().await;
    }

    async fn power_on(&self) -> Result<(), IoError> {
        self.inner.power_on().await
    }
}

impl<S: RowBox> RowBox for Busy<S> {
    fn traffic(&self) -> Traffic {
        Traffic { busy: self.time(), ..self.inner.traffic() }
    }

    fn drives(&self) -> &[Drive] {
        self.inner.drives()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_device::{Payload, RamDevice, RamOptions};
    use tantalum_rt::{Runtime, first};

    /// How many milliseconds a device is busy in `test`; its commands take 1 ms.
    fn busy_in<F>(test: impl FnOnce(Rt, Busy<RamDevice>) -> F) -> u64
    where
        F: Future<Output = ()> + 'static,
    {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let mut options = RamOptions::new(Caps::power_safe(8, Payload::Stamps));
        options.command = Nanos::from_millis(1);
        let device = Busy::new(&rt, RamDevice::new(&rt, options));
        runtime.block_on(test(rt, device.clone())).unwrap();
        device.time().0 / 1_000_000
    }

    async fn write(device: &Busy<RamDevice>, at: u64) {
        device.device().write(Block(at), Data::Stamps(&[1]), Durability::Normal).await.unwrap();
    }

    #[test]
    fn time_without_a_command_does_not_count() {
        let idle = |rt: Rt, device: Busy<RamDevice>| async move {
            write(&device, 0).await;
            rt.sleep(Nanos::from_millis(5)).await;
            write(&device, 1).await;
        };
        assert_eq!(busy_in(idle), 2);
    }

    #[test]
    fn commands_at_the_same_time_count_once() {
        let both = |rt: Rt, device: Busy<RamDevice>| async move {
            let domain = rt.domain();
            let other = device.clone();
            let task = domain.spawn("the other", async move { write(&other, 0).await });
            write(&device, 1).await;
            task.await.unwrap();
        };
        assert_eq!(busy_in(both), 1);
    }

    #[test]
    fn a_command_that_is_given_up_ends_then() {
        let given_up = |rt: Rt, device: Busy<RamDevice>| async move {
            let half = Nanos::from_millis(1).0 / 2;
            first(rt.sleep(Nanos(half)), write(&device, 0)).await;
            assert_eq!(device.time(), Nanos(half));
            rt.sleep(Nanos::from_millis(7)).await;
            assert_eq!(device.time(), Nanos(half));
            write(&device, 1).await;
            assert_eq!(device.time(), Nanos(half + 1_000_000));
        };
        assert_eq!(busy_in(given_up), 1);
    }
}
