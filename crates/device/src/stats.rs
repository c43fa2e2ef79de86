//! A wrapper that counts commands and bytes, keeps latencies, by kind, and measures how long the
//! device is busy.

use crate::{
    AtomicError, Block, BlockDevice, Blocks, CommandKind, Data, DataMut, Durability, Extent,
    IoError, PowerCycle, forward,
};
use hdrhistogram::Histogram;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_rt::{Nanos, Rt};

/// The longest latency that is recorded as it is: one day.
const LONGEST: u64 = 86_400_000_000_000;

/// A histogram of latencies: bounded memory, three significant digits, up to a
/// day. What is longer counts as a day.
///
/// ```
/// use tantalum_device::Latencies;
/// use tantalum_rt::Nanos;
///
/// let mut latencies = Latencies::default();
/// (1..=1000).for_each(|ns| latencies.record(Nanos(ns)));
/// assert_eq!((latencies.p50(), latencies.p99()), (Nanos(500), Nanos(990)));
/// assert_eq!(latencies.within(&[Nanos(100), Nanos(1000)]), [100, 1000]);
///
/// let mut twice = latencies.clone();
/// twice.merge(&latencies);
/// assert_eq!((twice.count(), twice.p50()), (2000, Nanos(500)));
/// ```
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let mut histogram = Histogram::new(3).expect("three significant digits are valid");
        histogram.auto(true);
        Latencies { histogram }
    }
}

impl Latencies {
    /// Counts one.
    pub fn record(&mut self, latency: Nanos) {
        let value = latency.0.min(LONGEST);
        // Cannot fail: the histogram grows up to `LONGEST`.
        let _ = self.histogram.record(value);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        // Cannot fail: this histogram grows as needed.
        let _ = self.histogram.add(&other.histogram);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The `q`-quantile of the latencies, with `q` from 0 to 1; 0 if there are none.
    pub fn quantile(&self, q: f64) -> Nanos {
        Nanos(self.histogram.value_at_quantile(q).min(self.histogram.max()))
    }

    /// The median.
    pub fn p50(&self) -> Nanos {
        self.quantile(0.5)
    }

    /// The 99th percentile.
    pub fn p99(&self) -> Nanos {
        self.quantile(0.99)
    }

    /// The mean, within the histogram's precision.
    pub fn mean(&self) -> Nanos {
        Nanos(self.histogram.mean() as u64)
    }

    /// All of them together, within the histogram's precision.
    pub fn sum(&self) -> Nanos {
        Nanos((self.histogram.mean() * self.count() as f64) as u64)
    }

    /// How many stayed within each of `bounds`, which ascend, within the histogram's precision.
    pub fn within(&self, bounds: &[Nanos]) -> Vec<u64> {
        let mut counts = vec![0; bounds.len()];
        for value in self.histogram.iter_recorded() {
            let place = bounds.partition_point(|b| b.0 < value.value_iterated_to());
            if let Some(count) = counts.get_mut(place) {
                *count += value.count_at_value();
            }
        }
        let mut sum = 0;
        counts.iter_mut().for_each(|count| {
            sum += *count;
            *count = sum;
        });
        counts
    }

    /// The longest, within the histogram's precision.
    pub fn max(&self) -> Nanos {
        Nanos(self.histogram.max())
    }
}

/// What was counted of one kind of command.
#[derive(Clone, Debug, Default)]
pub struct KindStats {
    /// Commands that succeeded.
    pub commands: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Bytes that the successful ones moved (or discarded).
    pub bytes: u64,
    /// Latencies of the successful ones.
    pub latency: Latencies,
}

/// What was counted of all kinds.
///
/// See [`Stats`] for an example.
#[derive(Clone, Debug, Default)]
pub struct DeviceStats {
    kinds: [KindStats; 6],
}

impl DeviceStats {
    /// What was counted of one kind.
    pub fn of(&self, kind: CommandKind) -> &KindStats {
        &self.kinds[kind.index()]
    }

    /// Bytes written by plain writes, forced ones, and groups.
    pub fn bytes_written(&self) -> u64 {
        let kinds = [CommandKind::Write, CommandKind::Fua, CommandKind::Group];
        kinds.iter().map(|k| self.of(*k).bytes).sum()
    }

    /// These and the bytes that were read.
    pub fn bytes_moved(&self) -> u64 {
        self.bytes_written() + self.of(CommandKind::Read).bytes
    }
}

/// A device, or a box, whose commands are counted. A clone shares the counts.
///
/// ```
/// use tantalum_device::{
///     Block, BlockDevice, Caps, CommandKind, Data, Durability, Payload, PowerCycle, RamDevice,
///     RamOptions, Stats,
/// };
/// use tantalum_rt::Runtime;
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let ram = RamDevice::new(&rt, RamOptions::new(Caps::power_safe(16, Payload::Stamps)));
/// let device = Stats::new(&rt, ram.device());
/// let counted = device.clone();
/// runtime
///     .block_on(async move {
///         device.write(Block(0), Data::Stamps(&[1, 2]), Durability::Normal).await?;
///         device.flush().await
///     })
///     .unwrap()?;
/// let writes = counted.snapshot();
/// assert_eq!(writes.of(CommandKind::Write).bytes, 2 * 4096);
/// assert_eq!(writes.of(CommandKind::Flush).commands, 1);
/// # Ok::<(), tantalum_device::IoError>(())
/// ```
#[derive(Clone)]
pub struct Stats<D> {
    inner: D,
    rt: Rt,
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    counts: RefCell<DeviceStats>,
    under_way: Cell<u64>,
    /// When the first of the commands under way began.
    busy_since: Cell<Nanos>,
    /// Busy time up to the last moment without a command.
    busy_before: Cell<Nanos>,
    /// Commands left until `then` is called; 0: it is not.
    left: Cell<u64>,
    then: RefCell<Option<Box<dyn FnOnce()>>>,
}

impl Shared {
    /// A command has succeeded.
    fn one_less(&self) {
        let left = self.left.get();
        if left == 0 {
            return;
        }
        self.left.set(left - 1);
        if left == 1
            && let Some(then) = self.then.take()
        {
            then();
        }
    }
}

/// A command under way, which may be given up.
struct UnderWay<'a> {
    began: Nanos,
    rt: &'a Rt,
    shared: &'a Shared,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let s = self.shared;
        s.under_way.set(s.under_way.get() - 1);
        if s.under_way.get() == 0 {
            let busy = self.rt.now().saturating_sub(s.busy_since.get());
            s.busy_before.set(s.busy_before.get() + busy);
        }
    }
}

impl<D> Stats<D> {
    /// Nothing is counted yet.
    pub fn new(rt: &Rt, inner: D) -> Stats<D> {
        Stats { inner, rt: rt.clone(), shared: Rc::default() }
    }

    /// What was counted so far.
    pub fn snapshot(&self) -> DeviceStats {
        self.shared.counts.borrow().clone()
    }

    /// Begins to count anew.
    pub fn reset(&self) {
        *self.shared.counts.borrow_mut() = DeviceStats::default();
    }

    /// Commands that were begun and have not ended.
    pub fn under_way(&self) -> u64 {
        self.shared.under_way.get()
    }

    /// How long at least one command was under way, from the beginning on. A command that is given
    /// up ends then.
    pub fn busy(&self) -> Nanos {
        let s = &self.shared;
        let now = match s.under_way.get() {
            0 => Nanos::ZERO,
            _ => self.rt.now().saturating_sub(s.busy_since.get()),
        };
        s.busy_before.get() + now
    }

    /// Calls `then` when `n` more commands (at least one) have succeeded, before the sender of the
    /// last one continues. It replaces an earlier `then`.
    pub fn after(&self, n: u64, then: impl FnOnce() + 'static) {
        *self.shared.then.borrow_mut() = Some(Box::new(then));
        self.shared.left.set(n.max(1));
    }

    /// Drops the callback of [`Stats::after`].
    pub fn after_all(&self) {
        self.shared.left.set(0);
        *self.shared.then.borrow_mut() = None;
    }

    /// The device below.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// A command begins.
    #[inline]
    fn begin(&self) -> UnderWay<'_> {
        let (began, shared) = (self.rt.now(), &*self.shared);
        if shared.under_way.get() == 0 {
            shared.busy_since.set(began);
        }
        shared.under_way.set(shared.under_way.get() + 1);
        UnderWay { began, rt: &self.rt, shared }
    }

    /// It has ended so.
    #[inline]
    fn end<E>(
        &self,
        command: UnderWay<'_>,
        kind: CommandKind,
        bytes: u64,
        result: Result<(), E>,
    ) -> Result<(), E> {
        let took = self.rt.now().saturating_sub(command.began);
        drop(command);
        let mut counts = self.shared.counts.borrow_mut();
        let k = &mut counts.kinds[kind.index()];
        if result.is_ok() {
            k.commands += 1;
            k.bytes += bytes;
            k.latency.record(took);
            drop(counts);
            self.shared.one_less();
        } else {
            k.failed += 1;
        }
        result
    }
}

impl<D: BlockDevice> Stats<D> {
    fn bytes(&self, blocks: Option<u64>) -> u64 {
        blocks.unwrap_or(0).saturating_mul(u64::from(self.caps().block_size))
    }
}

impl<D: BlockDevice> BlockDevice for Stats<D> {
    forward!(inner: caps, is_alive, arm_queue, blocks_its_thread, allocation, wants_exits, left);

    async fn read(&self, at: Block, buf: DataMut<'_>) -> Result<(), IoError> {
        let bytes = self.bytes(buf.blocks(self.caps().block_size));
        let command = self.begin();
        let result = self.inner.read(at, buf).await;
        self.end(command, CommandKind::Read, bytes, result)
    }

    async fn write(&self, at: Block, data: Data<'_>, want: Durability) -> Result<(), IoError> {
        let bytes = self.bytes(data.blocks(self.caps().block_size));
        let command = self.begin();
        let result = self.inner.write(at, data, want).await;
        self.end(command, CommandKind::of_write(want), bytes, result)
    }

    async fn write_atomic(&self, group: &[Extent<'_>]) -> Result<(), AtomicError> {
        let size = self.caps().block_size;
        let bytes = group.iter().map(|e| self.bytes(e.data.blocks(size))).sum();
        let command = self.begin();
        let result = self.inner.write_atomic(group).await;
        self.end(command, CommandKind::Group, bytes, result)
    }

    async fn flush(&self) -> Result<(), IoError> {
        let command = self.begin();
        let result = self.inner.flush().await;
        self.end(command, CommandKind::Flush, 0, result)
    }

    async fn discard(&self, range: Blocks) -> Result<(), IoError> {
        let bytes = self.bytes(Some(range.count));
        let command = self.begin();
        let result = self.inner.discard(range).await;
        self.end(command, CommandKind::Discard, bytes, result)
    }
}

impl<B: PowerCycle> PowerCycle for Stats<B> {
    type Device = Stats<B::Device>;

    forward!(inner: cut, off, power_on);

    fn device(&self) -> Stats<B::Device> {
        let (rt, shared) = (self.rt.clone(), self.shared.clone());
        Stats { inner: self.inner.device(), rt, shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Caps, Payload, RamDevice, RamOptions};
    use tantalum_rt::{Runtime, first};

    /// How many milliseconds a device is busy in `test`; its commands take 1 ms.
    fn busy_in<F>(test: impl FnOnce(Rt, Stats<RamDevice>) -> F) -> u64
    where
        F: Future<Output = ()> + 'static,
    {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let mut options = RamOptions::new(Caps::power_safe(8, Payload::Stamps));
        options.command = Nanos::from_millis(1);
        let device = Stats::new(&rt, RamDevice::new(&rt, options));
        runtime.block_on(test(rt, device.clone())).unwrap();
        device.busy().0 / 1_000_000
    }

    async fn write(device: &Stats<RamDevice>, at: u64) {
        device.device().write(Block(at), Data::Stamps(&[1]), Durability::Normal).await.unwrap();
    }

    #[test]
    fn time_without_a_command_does_not_count() {
        let idle = |rt: Rt, device: Stats<RamDevice>| async move {
            write(&device, 0).await;
            rt.sleep(Nanos::from_millis(5)).await;
            write(&device, 1).await;
        };
        assert_eq!(busy_in(idle), 2);
    }

    #[test]
    fn commands_at_the_same_time_count_once() {
        let both = |rt: Rt, device: Stats<RamDevice>| async move {
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
        let given_up = |rt: Rt, device: Stats<RamDevice>| async move {
            let half = Nanos::from_millis(1).0 / 2;
            first(rt.sleep(Nanos(half)), write(&device, 0)).await;
            assert_eq!(device.busy(), Nanos(half));
            rt.sleep(Nanos::from_millis(7)).await;
            assert_eq!(device.busy(), Nanos(half));
            write(&device, 1).await;
            assert_eq!(device.busy(), Nanos(half + 1_000_000));
        };
        assert_eq!(busy_in(given_up), 1);
    }
}
