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
use std::ptr::null_mut;
use std::rc::Rc;
use std::task::{Context, Poll};
use tantalum_rt::{Nanos, Rt};

/// Stacks kept for the next guest, on each thread.
const STACKS: usize = 16;

thread_local! {
    static FREE: RefCell<Vec<(usize, DefaultStack)>> = const { RefCell::new(Vec::new()) };
}

/// A synchronous program; see [`Mount::guest`](crate::Mount::guest). It runs while
/// the future is polled, and stands still while it waits for the device or the
/// clock.
///
/// Dropping it before its end (a power domain does, at a cut) cuts the program off
/// and runs it to its end: whatever it waits for fails at once, so SQLite gives
/// up with an I/O error and closes its files. A program must therefore end when it is
/// given errors; one that tries again for ever has to ask [`Sqlite::is_alive`].
/// What was in flight at that moment counts as given up half way, so the file layer below
/// takes no more writes.
pub struct Guest<T> {
    // In this order: the coroutine uses the context.
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
    /// Runs the guest until it waits or ends. Without a context it can not wait.
    fn resume(&mut self, cx: Option<&mut Context<'_>>) -> Option<T> {
        let mut coroutine = self.coroutine.take().expect("a guest is polled after its end");
        self.ctx.poll.set(match cx {
            Some(cx) => (cx as *mut Context<'_>).cast(),
            None => null_mut(),
        });
        let entered = self.ctx.enter();
        let result = coroutine.resume(());
        drop(entered);
        self.ctx.poll.set(null_mut());
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
    /// A coroutine is never unwound through SQLite: it runs to its end.
    fn drop(&mut self) {
        self.ctx.dead.set(true);
        let begun = self.coroutine.as_ref().is_some_and(Coroutine::started);
        while begun && self.coroutine.is_some() {
            // It can not be suspended any more: this is one turn.
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

/// A guest's way to SQLite, to the clock, and to anything asynchronous.
pub struct Sqlite {
    ctx: Rc<Ctx>,
}

impl Sqlite {
    /// Opens a database, or makes it.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(&self, name: &str) -> Result<Connection<'_>, SqliteError> {
        Connection::open(&self.ctx, name)
    }

    /// The runtime that the guest lives on.
    pub fn rt(&self) -> &Rt {
        &self.ctx.common.rt
    }

    /// The time now.
    pub fn now(&self) -> Nanos {
        self.rt().now()
    }

    /// Waits.
    ///
    /// # Errors
    /// [`Gone`], if the guest was cut off.
    pub fn sleep(&self, span: Nanos) -> Result<(), Gone> {
        self.wait(self.rt().sleep(span))
    }

    /// Waits for anything: stands still until the future is ready. After it was cut
    /// off the future is dropped.
    ///
    /// # Errors
    /// [`Gone`], if the guest was cut off.
    pub fn wait<F: Future>(&self, future: F) -> Result<F::Output, Gone> {
        self.ctx.wait(future)
    }

    /// False once the guest was cut off: it can only end.
    pub fn is_alive(&self) -> bool {
        self.ctx.is_alive()
    }
}
