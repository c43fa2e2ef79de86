//! Power domains: groups of tasks that die together.

use crate::exec::Rt;
use crate::join::Join;
use crate::slab::Key;
use std::borrow::Cow;
use std::future::Future;

/// A group of tasks that is dropped as one when its power goes.
///
/// The handle is a number and a reference to the runtime: holding it keeps no
/// task and no memory of the domain alive. After [`Domain::kill`] the number is
/// never used again.
///
/// ```
/// use tantalum_rt::{Cancelled, Nanos, Runtime};
///
/// let mut runtime = Runtime::virtual_time(1);
/// let rt = runtime.handle();
/// let ended = runtime.block_on(async move {
///     let domain = rt.domain();
///     let clock = rt.clone();
///     let task = domain.spawn("flusher", async move { clock.sleep(Nanos::from_secs(1)).await });
///     rt.sleep(Nanos::from_millis(3)).await;
///     domain.kill(); // the power is cut: the task is dropped while it sleeps
///     task.await
/// });
/// assert_eq!(ended.unwrap(), Err(Cancelled));
/// ```
#[derive(Clone)]
pub struct Domain {
    pub(crate) rt: Rt,
    pub(crate) key: Key,
}

impl Domain {
    /// Spawns a foreground task: the run is not over before it ends. In a domain
    /// that is dead the future is dropped at once and the [`Join`] reports it.
    pub fn spawn<T: 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        future: impl Future<Output = T> + 'static,
    ) -> Join<T> {
        self.rt.spawn_in(self.key, name, true, future)
    }

    /// Spawns a background task, which may wait for ever (a flusher, a collector).
    pub fn spawn_background<T: 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        future: impl Future<Output = T> + 'static,
    ) -> Join<T> {
        self.rt.spawn_in(self.key, name, false, future)
    }

    /// Drops all tasks of the domain, in the order in which they were spawned, and
    /// ends the domain. A task that kills its own domain is dropped as soon as its
    /// present poll returns.
    pub fn kill(&self) {
        self.rt.kill(self.key);
    }

    /// Whether the domain has not been killed.
    pub fn is_alive(&self) -> bool {
        self.rt.domain_alive(self.key)
    }
}
