//! The two queues of io_uring that are shared with the kernel.

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, squeue};
use std::io;
use std::time::Duration;

/// The longest wait that the kernel is asked for. Whoever waits for longer asks again.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// A ring of one thread.
pub(crate) struct Ring(IoUring);

impl Ring {
    /// With room for so many `entries`, on a kernel that has all `operations`.
    ///
    /// # Errors
    /// If the kernel has no io_uring, denies it, or lacks something of it.
    pub fn new(entries: u32, operations: &[u8]) -> io::Result<Ring> {
        let ring = IoUring::builder()
            .setup_cqsize(4 * entries)
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(entries)
            .or_else(|_| IoUring::builder().setup_cqsize(4 * entries).build(entries))?;
        let lacks = |what| io::Error::new(io::ErrorKind::Unsupported, what);
        let params = ring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(lacks("io_uring of this kernel is too old: 5.11 or newer is needed"));
        }
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        match operations.iter().all(|&code| probe.is_supported(code)) {
            true => Ok(Ring(ring)),
            false => Err(lacks("io_uring of this kernel lacks an operation")),
        }
    }

    /// Puts an entry into the submission queue; `false` if that is full.
    ///
    /// # Safety
    /// What the entry points to must stay where it is until its completion has been taken.
    pub unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the caller's.
        unsafe { self.0.submission().push(entry) }.is_ok()
    }

    /// Whether the kernel has taken all that was put into the submission queue.
    pub fn is_told(&mut self) -> bool {
        self.0.submission().is_empty()
    }

    /// Whether the kernel has completions that it puts into memory only when it is asked. These are
    /// deferred task work, or completions for which there was no room.
    pub fn is_held_back(&mut self) -> bool {
        let queue = self.0.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Tells the kernel of what is in the submission queue, and waits until `want` completions
    /// lie ready or `limit` is over. What is held back comes first.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enter(&mut self, want: usize, limit: Option<Duration>) -> io::Result<()> {
        let submitter = self.0.submitter();
        match limit {
            Some(limit) => {
                // The kernel adds the time of day, and its sum has no room for centuries.
                let limit = Timespec::from(limit.min(LONGEST_WAIT));
                submitter.submit_with_args(want, &SubmitArgs::new().timespec(&limit))
            }
            // (Both ask for events where the ring's flag says that some are held back, also
            // if none are wanted.)
            None => submitter.submit_and_wait(want),
        }?;
        Ok(())
    }

    /// Takes the completions that lie ready: what was begun, and how it ended.
    pub fn completions(&mut self) -> impl Iterator<Item = (u64, i32)> {
        self.0.completion().map(|entry| (entry.user_data(), entry.result()))
    }
}
