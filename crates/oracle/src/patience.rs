//! Detects a device that hangs. On virtual time nothing else would show that: until the power is
//! cut, a device that hangs looks like a slow one.
//!
//! 1. A device hangs if commands wait, and none has ended for [`PATIENCE`].
//! 2. Watching is counting: it needs no task and no timer, and changes nothing in a run.

use std::cell::Cell;
use std::fmt;
use tantalum_rt::{Nanos, Rt};

/// Longer than any drive takes for a command, a flush of a full buffer included.
pub const PATIENCE: Nanos = Nanos::from_secs(60);

/// Commands that wait for a device.
///
/// ```
/// use std::rc::Rc;
/// use tantalum_oracle::patience::Patience;
/// use tantalum_rt::{Nanos, Runtime};
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let hang = runtime.block_on(async move {
///     let patience = Rc::new(Patience::new(&rt));
///     let (clock, watched) = (rt.clone(), patience.clone());
///     rt.spawn("a command", async move {
///         watched.watch(clock.sleep(Nanos::from_secs(100))).await;
///     });
///     rt.sleep(Nanos::from_secs(59)).await;
///     assert_eq!(patience.hang(), None); // it may be slow
///     rt.sleep(Nanos::from_secs(2)).await;
///     patience.hang()
/// });
/// assert_eq!(hang.unwrap().unwrap().waiting, 1);
/// ```
pub struct Patience {
    rt: Rt,
    waiting: Cell<u64>,
    /// When a command ended last, or came while none waited.
    since: Cell<Nanos>,
}

/// A device that does not answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hang {
    /// Commands that wait.
    pub waiting: u64,
    /// Virtual time since which none has ended.
    pub since: Nanos,
}

impl fmt::Display for Hang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the device does not answer: {} commands wait, and none has ended since {} of virtual time",
            self.waiting, self.since
        )
    }
}

impl Patience {
    /// Nothing waits yet.
    pub fn new(rt: &Rt) -> Patience {
        Patience { rt: rt.clone(), waiting: Cell::new(0), since: Cell::new(rt.now()) }
    }

    /// Carries a command out, and counts it as long as somebody waits for it.
    pub async fn watch<T>(&self, command: impl Future<Output = T>) -> T {
        if self.waiting.get() == 0 {
            self.since.set(self.rt.now());
        }
        self.waiting.set(self.waiting.get() + 1);
        let _waiting = Waiting(self);
        let ended = command.await;
        self.since.set(self.rt.now());
        ended
    }

    /// Whether the device hangs now.
    pub fn hang(&self) -> Option<Hang> {
        let (waiting, since) = (self.waiting.get(), self.since.get());
        let long = self.rt.now().saturating_sub(since) >= PATIENCE;
        (waiting > 0 && long).then_some(Hang { waiting, since })
    }
}

struct Waiting<'a>(&'a Patience);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get() - 1);
    }
}
