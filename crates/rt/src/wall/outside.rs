//! What a runtime on the wall clock shares with the world outside: the operations under way, the
//! back end that carries them out, and timers of real time.

use super::driver::{Backend, Driver};
use super::poll::Poll;
use super::uring::Uring;
use super::work::{Kind, Operations, Outcome, Span, Work};
use crate::exec::{Rt, TaskId};
use crate::inbox::Inbox;
use crate::slab::Key;
use crate::sys::{RealTime, bell};
use crate::timer::Timers;
use crate::{Nanos, wall::WallOptions};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::cell::RefCell;
use std::io;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Outside {
    time: RealTime,
    backend: Backend,
    /// Why io_uring is not used, if it was tried.
    denied: Option<io::Error>,
    nonblocking: bool,
    /// Reads how often the bell rang.
    rung: Rc<OwnedFd>,
    state: RefCell<State>,
}

struct State {
    ops: Operations,
    /// `None` once the runtime has ended.
    driver: Option<Box<dyn Driver>>,
    timers: Timers,
}

impl Outside {
    /// With the inbox of the runtime, which rings its bell.
    pub fn new(options: &WallOptions) -> io::Result<(Rc<Outside>, Arc<Inbox>)> {
        let mut denied = None;
        let driver: Box<dyn Driver> = match options.io {
            Backend::Poll => Box::new(Poll::default()),
            Backend::Uring => Box::new(Uring::new().map_err(explain)?),
            Backend::Auto => match Uring::new() {
                Ok(uring) => Box::new(uring),
                Err(e) => {
                    denied = Some(explain(e));
                    Box::new(Poll::default())
                }
            },
        };
        if driver.backend() == Backend::Poll {
            // The kernel lets waits end up to 50 µs late by default (timer slack).
            rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        }
        let nonblocking = driver.wants_nonblocking();
        let (rung, bell) = bell(nonblocking)?;
        let inbox = Inbox::new(Some(bell));
        let outside = Outside {
            time: RealTime::start(),
            backend: driver.backend(),
            denied,
            nonblocking,
            rung: Rc::new(rung),
            state: RefCell::new(State {
                ops: Operations::new(),
                driver: Some(driver),
                timers: Timers::new(),
            }),
        };
        Ok((Rc::new(outside), inbox))
    }

    pub fn backend(&self) -> Backend {
        self.backend
    }

    pub fn denied(&self) -> Option<&io::Error> {
        self.denied.as_ref()
    }

    /// Real time since the runtime began.
    pub fn real_now(&self) -> Nanos {
        self.time.elapsed()
    }

    /// Makes a descriptor such as the back end wants it.
    pub fn prepare(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(fd, self.nonblocking)?)
    }

    /// Begins an operation for the running task.
    pub(super) fn begin(&self, rt: &Rt, work: Work, task: TaskId) -> Key {
        let mut state = self.state.borrow_mut();
        let State { ops, driver, .. } = &mut *state;
        let key = ops.insert(work, task);
        match driver {
            Some(driver) => driver.begin(key, ops),
            None => ops.complete(key, Err(Errno::CANCELED)),
        }
        wake(rt, ops);
        key
    }

    pub(super) fn poll(&self, key: Key, task: impl FnOnce() -> TaskId) -> Option<(Outcome, Span)> {
        self.state.borrow_mut().ops.poll(key, task)
    }

    pub fn abandon(&self, key: Key) {
        let mut state = self.state.borrow_mut();
        let State { ops, driver, .. } = &mut *state;
        if ops.abandon(key)
            && let Some(driver) = driver
        {
            driver.cancel(key, ops);
        }
    }

    /// Whether anything is under way that somebody waits for.
    pub fn is_busy(&self) -> bool {
        self.state.borrow().ops.wanted() > 0
    }

    pub fn has_unsent(&self) -> bool {
        self.state.borrow().driver.as_ref().is_some_and(|d| d.has_unsent())
    }

    /// Takes completions: those that lie ready, or, `asking` the kernel, all. Whether a task
    /// was woken.
    pub fn take(&self, rt: &Rt, asking: bool) -> bool {
        let mut state = self.state.borrow_mut();
        let State { ops, driver, .. } = &mut *state;
        if let Some(driver) = driver {
            if asking { driver.look(ops) } else { driver.take(ops) }
        }
        wake(rt, ops)
    }

    /// Tells the kernel of what was begun, and waits for completions, the bell, or until
    /// `limit` is over. Whether a task was woken.
    pub fn wait(&self, rt: &Rt, limit: Option<Duration>) -> bool {
        let mut state = self.state.borrow_mut();
        let State { ops, driver, .. } = &mut *state;
        let Some(driver) = driver else { return false };
        if limit != Some(Duration::ZERO)
            && let Some(key) = ops.listen(|| self.hear())
        {
            driver.begin(key, ops);
        }
        driver.wait(ops, limit).expect("the kernel refuses to wait for operations it took");
        wake(rt, ops)
    }

    fn hear(&self) -> Work {
        let span = Span { bytes: vec![0; 8], from: 0, to: 8 };
        Work::new(Kind::Read, &self.rung, span)
    }

    pub fn set_timer(&self, at: Nanos, task: TaskId) -> Key {
        self.state.borrow_mut().timers.set(at, task)
    }

    pub fn timer_is_set(&self, key: Key) -> bool {
        self.state.borrow().timers.is_set(key)
    }

    pub fn cancel_timer(&self, key: Key) {
        self.state.borrow_mut().timers.cancel(key);
    }

    /// Slots for operations and timers: what was needed at the fullest.
    pub fn footprint(&self) -> usize {
        let state = self.state.borrow();
        state.ops.footprint() + state.timers.footprint()
    }

    /// When the next timer of real time is due.
    pub fn next_timer(&self) -> Option<Nanos> {
        self.state.borrow_mut().timers.next()
    }

    /// Wakes those whose timers of real time are due at `now`. Whether there were any.
    pub fn fire(&self, rt: &Rt, now: Nanos) -> bool {
        let timers = &mut self.state.borrow_mut().timers;
        let due = std::iter::from_fn(|| timers.fire(now));
        due.map(|task| rt.wake(task)).count() > 0
    }

    /// Cancels all that is under way, and waits for its end.
    pub fn close(&self) {
        let mut state = self.state.borrow_mut();
        let State { ops, driver, .. } = &mut *state;
        let Some(mut driver) = driver.take() else { return };
        for key in ops.keys() {
            if ops.abandon(key) {
                driver.cancel(key, ops);
            }
        }
        while !ops.is_empty() {
            ops.hand_over(drop);
            driver.wait(ops, None).expect("the kernel refuses to wait for operations it took");
        }
    }
}

/// Why there is no io_uring, and what helps.
fn explain(e: io::Error) -> io::Error {
    let (kind, said) = (e.kind(), e.to_string());
    let what = match Errno::from_io_error(&e) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "io_uring is denied to this process: allow it (sysctl kernel.io_uring_disabled=0, and \
             in a container a seccomp profile with the io_uring calls), or use the poll back end"
        }
        Some(Errno::NOSYS) => {
            "there is no io_uring here: the kernel was built without it, or a seccomp profile \
             hides it; allow it, or use the poll back end"
        }
        Some(Errno::NOMEM) => {
            "io_uring has no memory: raise the limit of locked memory (ulimit -l), or use the \
             poll back end"
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            "io_uring needs a file descriptor and there is none: raise the limit (ulimit -n)"
        }
        _ => "io_uring cannot be used: use the poll back end",
    };
    io::Error::new(kind, format!("{what} ({said})"))
}

fn wake(rt: &Rt, ops: &mut Operations) -> bool {
    ops.hand_over(|task| rt.wake(task))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Runtime;
    use tantalum_testing::{Need, left_out_part};

    /// One on each back end; where io_uring is denied the calling test says so.
    fn runtimes() -> impl Iterator<Item = Runtime> {
        let on = |io| Runtime::wall_time(1, WallOptions { io, ..WallOptions::default() });
        let how = "use Linux 5.11 or newer, where io_uring is allowed (many containers deny it)";
        let uring = on(Backend::Uring);
        let lacks = left_out_part("io_uring", &[Need::tried("io_uring", &uring, how)]);
        let poll = on(Backend::Poll).expect("every kernel has it");
        [poll].into_iter().chain(uring.ok().filter(|_| !lacks))
    }

    /// A refusal names io_uring, the kernel's word, and a remedy.
    #[test]
    fn who_is_denied_io_uring_is_told_why_and_what_helps() {
        for (errno, word) in [
            (Errno::PERM, "io_uring_disabled"),
            (Errno::ACCESS, "seccomp"),
            (Errno::NOSYS, "no io_uring here"),
            (Errno::NOMEM, "ulimit -l"),
            (Errno::MFILE, "ulimit -n"),
            (Errno::INVAL, "poll back end"),
        ] {
            let kernel: io::Error = errno.into();
            let told = explain(errno.into());
            let text = told.to_string();
            assert_eq!(told.kind(), kernel.kind());
            assert!(text.contains("io_uring") && text.contains(word), "{text}");
            assert!(text.contains(&kernel.to_string()), "{text}");
        }
    }

    #[test]
    fn a_bell_that_rang_late_ends_the_next_wait_and_is_heard_again_in_the_one_after() {
        for runtime in runtimes() {
            let rt = runtime.handle();
            let outside = rt.outside().unwrap();
            for _ in 0..3 {
                rt.inbox().ring_late();
                // The run would never end if it heard only the first ring.
                assert!(!outside.wait(&rt, None));
            }
        }
    }
}
