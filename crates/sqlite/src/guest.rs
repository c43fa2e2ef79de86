//! A synchronous program as an asynchronous task: a coroutine with a stack of its
//! own, resumed by the polls of a future.

use crate::Connection;
use crate::context::Ctx;
use crate::error::{Gone, SqliteError};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tantalum_rt::{Nanos, Rt};

/// Stacks kept for the next guest, on each thread.
const STACKS: usize = 16;

thread_local! {
    static FREE: RefCell<Vec<(usize, DefaultStack)>> = const { RefCell::new(Vec::new()) };
}

/// A synchronous program; see [`Mount::guest`](crate::Mount::guest). It runs while the future is
/// polled, and is parked while it waits for the device or the clock.
///
/// Dropping it before its end (as a power domain does at a cut) cuts the program off and runs it to
/// its end: every wait fails at once, so SQLite fails with an I/O error and closes its files. A
/// program must therefore end when it gets errors; one that retries for ever must check
/// [`Sqlite::is_alive`]. A write in flight at that moment counts as abandoned half way, so the file
/// layer takes no more writes.
pub struct Guest<T> {
    // Dropped in this order: the coroutine uses the context.
    coroutine: Option<Coroutine<(), (), T>>,
    ctx: Rc<Ctx>,
    stack: usize,
}

impl<T: 'static> Guest<T> {
    pub(crate) fn new(ctx: Ctx, main: impl FnOnce(&Sqlite) -> T + 'static) -> Guest<T> {
        let ctx = Rc::new(ctx);
        let size = ctx.common.options.stack;
        let inside = ctx.clone();
        let body = move |yielder: &Yielder<(), ()>, ()| {
            inside.yielder.set(yielder);
            let sqlite = Sqlite { ctx: inside };
            main(&sqlite)
        };
        let coroutine = match take_stack(size) {
            Some(stack) => Coroutine::with_stack(stack, body),
            None => Coroutine::new(body),
        };
        Guest { coroutine: Some(coroutine), ctx, stack: size }
    }
}

impl<T> Guest<T> {
    /// Runs the guest until it waits or ends. Without a context it cannot wait.
    fn resume(&mut self, cx: Option<&mut Context<'_>>) -> Option<T> {
        let mut coroutine = self.coroutine.take().expect("a guest is polled after its end");
        let entered = self.ctx.enter();
        let result = self.ctx.poll.lend(cx, || coroutine.resume(()));
        drop(entered);
        match result {
            CoroutineResult::Yield(()) => {
                self.coroutine = Some(coroutine);
                None
            }
            CoroutineResult::Return(value) => {
                give_stack(self.stack, coroutine.into_stack());
                Some(value)
            }
        }
    }
}

impl<T> Unpin for Guest<T> {}

impl<T> Future for Guest<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.resume(Some(cx)) {
            Some(value) => Poll::Ready(value),
            None => Poll::Pending,
        }
    }
}

impl<T> Drop for Guest<T> {
    /// Runs the coroutine to its end; it is never unwound through SQLite.
    fn drop(&mut self) {
        self.ctx.dead.set(true);
        let begun = self.coroutine.as_ref().is_some_and(Coroutine::started);
        while begun && self.coroutine.is_some() {
            // Without a context it cannot be suspended: one call runs it to its end.
            drop(self.resume(None));
        }
    }
}

/// A stack of at least `size` bytes; none if the system has no memory for one.
fn take_stack(size: usize) -> Option<DefaultStack> {
    FREE.with_borrow_mut(|free| {
        let at = free.iter().position(|(s, _)| *s == size);
        at.map(|at| free.swap_remove(at).1)
    })
    .or_else(|| DefaultStack::new(size).ok())
}

fn give_stack(size: usize, stack: DefaultStack) {
    FREE.with_borrow_mut(|free| {
        if free.len() < STACKS {
            free.push((size, stack));
        }
    });
}

/// A guest's access to SQLite, to the clock, and to asynchronous code.
pub struct Sqlite {
    ctx: Rc<Ctx>,
}

impl Sqlite {
    /// Opens or creates a database.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(&self, name: &str) -> Result<Connection<'_>, SqliteError> {
        Connection::open(&self.ctx, name)
    }

    /// The runtime of the guest.
    pub fn rt(&self) -> &Rt {
        &self.ctx.common.rt
    }

    /// The time now.
    pub fn now(&self) -> Nanos {
        self.rt().now()
    }

    /// Sleeps.
    ///
    /// # Errors
    /// [`Gone`], if the guest was cut off.
    pub fn sleep(&self, span: Nanos) -> Result<(), Gone> {
        self.wait(self.rt().sleep(span))
    }

    /// Waits until the future is ready. If the guest is cut off, the future is dropped.
    ///
    /// A guest waits for one future at a time: this future cannot hold the guest's [`Sqlite`] or
    /// [`Connection`], so it cannot make the guest wait.
    ///
    /// ```compile_fail,E0521
    /// # use tantalum_sqlite::Sqlite;
    /// # use tantalum_rt::Nanos;
    /// fn nested(sql: &Sqlite) {
    ///     sql.wait(async { sql.sleep(Nanos(1)) });
    /// }
    /// ```
    /// ```
    /// # use tantalum_sqlite::{Gone, Sqlite};
    /// # use tantalum_rt::Nanos;
    /// fn one_after_the_other(sql: &Sqlite) -> Result<(), Gone> {
    ///     let rt = sql.rt().clone();
    ///     sql.wait(async move { rt.sleep(Nanos(1)).await })?;
    ///     sql.sleep(Nanos(1))
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Gone`], if the guest was cut off.
    pub fn wait<F: Future + 'static>(&self, future: F) -> Result<F::Output, Gone> {
        self.ctx.wait(future)
    }

    /// False after the guest was cut off: it can only end.
    pub fn is_alive(&self) -> bool {
        self.ctx.is_alive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mount, Options};
    use std::future::{poll_fn, ready};
    use tantalum_device::{Ack, Caps, Payload, RamDevice, RamOptions};
    use tantalum_files::{Files, FormatOptions, MountOptions};
    use tantalum_rt::Runtime;

    fn alone<T: 'static>(main: impl FnOnce(&Sqlite) -> T + 'static) -> T {
        let mut runtime = Runtime::virtual_time(1);
        let rt = runtime.handle();
        let run = async move {
            let caps = Caps {
                block_size: 4096,
                blocks: 4096,
                ack: Ack::PowerSafe,
                flush: true,
                ordered: true,
                atomic_unit: 4096,
                thin: false,
                atomic_group: None,
                payload: Payload::Bytes,
            };
            let device = RamDevice::new(&rt, RamOptions::new(caps));
            Files::format(&rt, &device, &FormatOptions::default()).await.unwrap();
            let files = Files::mount(&rt, device, &MountOptions::default()).await.unwrap();
            Mount::new(&rt, files, Options::default()).guest("alone", main).await
        };
        runtime.block_on(run).unwrap()
    }

    #[test]
    fn what_a_guest_waits_for_cannot_make_it_wait() {
        alone(|sql| {
            let span = Nanos::from_micros(5);
            let mut turns = 0;
            // The types of `Sqlite::wait` prevent this. It is what happens if SQLite's C functions
            // are called inside of a future.
            let nested = sql.ctx.wait(poll_fn(|cx| {
                let nested = (sql.ctx.wait(ready(())), sql.ctx.wait(sql.rt().sleep(span)));
                turns += 1;
                if turns < 3 {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(nested)
            }));
            assert_eq!(nested, Ok((Err(Gone), Err(Gone))));
            // The guest itself can still wait.
            let before = sql.now();
            sql.sleep(span).unwrap();
            assert_eq!(sql.now(), before + span);
            let db = sql.open("t.db").unwrap();
            // A waiting call of SQLite inside of a future that the guest waits for is an error.
            let error = sql.ctx.wait(poll_fn(|_| Poll::Ready(db.execute("CREATE TABLE t (v)"))));
            assert!(error.unwrap().unwrap_err().is_io());
            db.execute("CREATE TABLE t (v); INSERT INTO t VALUES (1)").unwrap();
            assert_eq!(db.query_integer("SELECT count(*) FROM t", &[]), Ok(1));
        });
    }
}
