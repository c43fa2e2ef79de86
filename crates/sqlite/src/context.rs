//! What a guest's code, SQLite below it, and the virtual file system below that
//! share while the guest runs: how to wait, and what has to be paid in time.

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

/// CPU time that may be owed before it is paid.
const DEBT: Nanos = Nanos::from_micros(100);

/// Writes shorter than this may be held back.
const SMALL: usize = 512;

/// Bytes that were written but are not handed on yet.
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

/// Runs `f` with the guest that SQLite has called out of, if there is one.
pub(crate) fn with_current<T>(f: impl FnOnce(Option<&Ctx>) -> T) -> T {
    let ctx = CURRENT.get();
    // SAFETY: the pointer is set by `Ctx::enter` for exactly as long as the guest,
    // which owns the context, is being resumed on this thread. A call of SQLite
    // out of this guest happens on its stack and so within that time; `f` may
    // suspend it, but then it goes on only in a later resume of the same guest.
    f(unsafe { ctx.as_ref() })
}

/// Makes a guest current, and the one before again when it drops.
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
        // Not by the name alone: SQLite tells what it wrote from what an earlier life left
        // by random numbers (in journals and logs), which must not come again when a
        // client of the same name goes on after a crash.
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
        // While a guest panics its connections close, but it must not be suspended.
        !self.dead.get() && !std::thread::panicking()
    }

    /// Waits for a future, from within the guest: parks it until the future is ready. It is refused
    /// inside of what the guest waits for already: to park the guest there would leave the outer
    /// future with the context of a poll that has ended. (Rust code cannot do that, see
    /// [`crate::Sqlite::wait`], but a future may call SQLite's C functions.)
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
            // SAFETY: the yielder lives as long as the coroutine's function, below
            // which we are: connections cannot leave it.
            unsafe { (*self.yielder.get()).suspend(()) };
            if self.dead.get() {
                return Err(Gone);
            }
        }
    }

    /// The guest has used the CPU.
    pub fn charge(&self, cost: Nanos) {
        self.debt.set(self.debt.get() + cost);
    }

    /// Lets the time pass that the guest owes.
    pub fn pay(&self) -> Result<(), Gone> {
        match self.debt.replace(Nanos::ZERO) {
            Nanos::ZERO if self.is_alive() => Ok(()),
            debt => self.wait(self.common.rt.sleep(debt)),
        }
    }

    /// Lets it pass if it has become much.
    pub fn pay_if_much(&self) -> Result<(), Gone> {
        if self.debt.get() >= DEBT { self.pay() } else { Ok(()) }
    }

    /// Hands on what was held back. Every call of SQLite but a write does this first, so that no
    /// other call sees a difference.
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

    /// Writes. A short write that goes on where the last one ended is held back, to
    /// go out with what follows: SQLite writes the head of a frame, or the number
    /// and checksum around a page, in calls of their own. `last_end` is the end of the
    /// last write to this file.
    ///
    /// An error then comes with the next call. SQLite expects one there: what is
    /// held back is never the last write of a commit, since that one does not go on
    /// where another ended (a journal's header), or is long (a page in the log).
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
