//! The context that a guest's code, SQLite, and the virtual file system share while the guest runs:
//! waiting, and the CPU time that the guest owes.

use crate::error::{Fail, Gone};
use crate::host::HostFile;
use crate::lent::Lent;
use crate::mount::Common;
use corosensei::Yielder;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tantalum_rt::{Nanos, Stream};

/// CPU time that a guest may owe.
const DEBT: Nanos = Nanos::from_micros(100);

/// Writes shorter than this may be held back.
const SMALL: usize = 512;

/// Written bytes that are not handed on yet.
#[derive(Default)]
struct Held {
    file: Option<Rc<dyn HostFile>>,
    offset: u64,
    bytes: Vec<u8>,
}

pub(crate) struct Ctx {
    pub common: Rc<Common>,
    /// The way out of the coroutine. Set while its function runs.
    pub yielder: Cell<*const Yielder<(), ()>>,
    /// The context of the present poll. Lent while the guest is being resumed.
    pub poll: Lent,
    pub dead: Cell<bool>,
    pub stream: RefCell<Stream>,
    debt: Cell<Nanos>,
    held: RefCell<Held>,
}

thread_local! {
    /// The guest that runs on this thread at this moment.
    static CURRENT: Cell<*const Ctx> = const { Cell::new(std::ptr::null()) };
}

/// Runs `f` with the guest that called SQLite, if there is one.
pub(crate) fn with_current<T>(f: impl FnOnce(Option<&Ctx>) -> T) -> T {
    let ctx = CURRENT.get();
    // SAFETY: `Ctx::enter` sets the pointer for exactly as long as the guest, which owns the
    // context, is being resumed on this thread. A call of SQLite from this guest runs on its stack,
    // so within that time. `f` may suspend the guest, but then it continues only in a later resume
    // of the same guest.
    f(unsafe { ctx.as_ref() })
}

/// Makes a guest current; restores the previous one when it is dropped.
pub(crate) struct Entered {
    before: *const Ctx,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

impl Ctx {
    pub fn new(common: Rc<Common>, name: &str) -> Ctx {
        // Not by the name alone: SQLite distinguishes its records from those of an earlier power
        // cycle by random numbers (in journals and logs). They must not repeat when a client of the
        // same name continues after a crash.
        let (now, number) = (common.rt.now().0, common.next_id());
        let stream = RefCell::new(common.rt.stream(&format!("sqlite {name} {now} {number}")));
        Ctx {
            common,
            yielder: Cell::new(std::ptr::null()),
            poll: Lent::default(),
            dead: Cell::new(false),
            stream,
            debt: Cell::new(Nanos::ZERO),
            held: RefCell::default(),
        }
    }

    pub fn enter(&self) -> Entered {
        Entered { before: CURRENT.replace(self) }
    }

    /// Whether the guest can wait for anything.
    pub fn is_alive(&self) -> bool {
        // While a guest panics, its connections close, but it must not be suspended.
        !self.dead.get() && !std::thread::panicking()
    }

    /// Parks the guest until the future is ready. Fails inside of another future that the guest
    /// waits for: parking there would leave the outer future with the context of a poll that has
    /// ended. (Rust code cannot do that, see [`crate::Sqlite::wait`], but a future may call
    /// SQLite's C functions.)
    pub fn wait<F: Future>(&self, future: F) -> Result<F::Output, Gone> {
        if !self.is_alive() {
            return Err(Gone);
        }
        let mut future = pin!(future);
        loop {
            match self.poll.with(|cx| future.as_mut().poll(cx)) {
                Some(Poll::Ready(value)) => return Ok(value),
                Some(Poll::Pending) => {}
                None => return Err(Gone),
            }
            // SAFETY: the yielder lives as long as the coroutine's function, which calls this:
            // connections cannot leave that function.
            unsafe { (*self.yielder.get()).suspend(()) };
            if self.dead.get() {
                return Err(Gone);
            }
        }
    }

    /// Adds CPU time to what the guest owes.
    pub fn charge(&self, cost: Nanos) {
        self.debt.set(self.debt.get() + cost);
    }

    /// Lets the owed time pass.
    pub fn pay(&self) -> Result<(), Gone> {
        match self.debt.replace(Nanos::ZERO) {
            Nanos::ZERO if self.is_alive() => Ok(()),
            debt => self.wait(self.common.rt.sleep(debt)),
        }
    }

    /// Lets the owed time pass if it exceeds [`DEBT`].
    pub fn pay_if_much(&self) -> Result<(), Gone> {
        if self.debt.get() >= DEBT { self.pay() } else { Ok(()) }
    }

    /// Hands on the held bytes. Every call of SQLite except a write does this first, so no other
    /// call sees a difference.
    pub fn drain(&self) -> Result<(), Fail> {
        if self.held.borrow().bytes.is_empty() {
            return Ok(());
        }
        let Held { file, offset, bytes } = self.held.take();
        let done = match file {
            Some(file) => file.write(self, offset, &bytes),
            None => Ok(()),
        };
        self.keep_buffer(bytes);
        done
    }

    /// Writes. A short write that begins where the last one ended is held back, and handed on with
    /// the next write: SQLite writes the head of a frame, or the number and checksum around a page,
    /// in separate calls. `last_end` is the end of the last write to this file.
    ///
    /// An error of a held write is returned by the next call, where SQLite expects one. The last
    /// write of a commit is never held back: it does not begin where another one ended (a journal's
    /// header), or it is long (a page in the log).
    pub fn write(
        &self,
        file: &Rc<dyn HostFile>,
        last_end: u64,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Fail> {
        let follows = {
            let held = self.held.borrow();
            !held.bytes.is_empty()
                && held.offset + held.bytes.len() as u64 == offset
                && held.file.as_ref().is_some_and(|f| Rc::ptr_eq(f, file))
        };
        if !follows {
            self.drain()?;
        }
        let short = data.len() < SMALL && (follows || offset == last_end) && self.is_alive();
        if !follows && !short {
            return file.write(self, offset, data);
        }
        let length = {
            let mut held = self.held.borrow_mut();
            if !follows {
                (held.file, held.offset) = (Some(file.clone()), offset);
            }
            held.bytes.extend_from_slice(data);
            held.bytes.len()
        };
        if short && length < SMALL { Ok(()) } else { self.drain() }
    }

    fn keep_buffer(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.held.borrow_mut().bytes = bytes;
    }
}
