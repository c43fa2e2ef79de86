//! Tasks that wait until something is so.

use tantalum_rt::Rt;
use tantalum_rt::sync::WaitQueue;

/// Tasks that wait for a condition.
pub(crate) struct Waiters(WaitQueue);

impl Waiters {
    pub fn new(rt: &Rt, what: &'static str) -> Waiters {
        Waiters(WaitQueue::new(rt, what))
    }

    /// Waits while `not_yet` says so; it is asked at once and after each notification.
    pub async fn wait_while(&self, mut not_yet: impl FnMut() -> bool) {
        self.0.until(|| !not_yet()).await;
    }

    /// Waits for a notification.
    pub async fn wait(&self) {
        self.0.wait().await;
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
