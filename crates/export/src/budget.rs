//! A budget for the memory that a server holds for its clients. Each server has one.
//!
//! 1. **The bound.** All accounts together never hold more than the budget.
//! 2. **Shares.** Each account has a share of its own. A request for no more than the share is
//!    granted as soon as the account itself has given enough back. So no account waits for another
//!    one.
//! 3. **The pool.** Memory that is not set aside for shares is in a pool for all accounts. An
//!    account takes from the pool without waiting, and only if the rest of the pool is then at
//!    least as much as the account has taken from it. The pool makes an account faster, but no
//!    account needs it.
//! 4. **Order.** Within one account, requests are granted in the order in which they came. A
//!    request that gives up waiting has taken nothing.
//! 5. **Exact.** A grant has exactly the requested bytes, and gives them back once, when it drops.
//!    An account is charged to its share first. What it gives back goes to the pool first.
//! 6. **Failed allocations.** An allocation that fails is an error for the caller ([`zeroed`],
//!    [`room`]). It never ends the process.

use std::cell::Cell;
use std::rc::Rc;
use tantalum_rt::Rt;
use tantalum_rt::sync::{Mutex, WaitQueue};

/// How much memory a server holds for its clients, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The most that the server may hold.
    pub limit: u64,
    /// What the server holds now.
    pub used: u64,
    /// The most that the server has held.
    pub most: u64,
    /// Tasks that wait for memory.
    pub waiting: u64,
}

/// See the module.
pub(crate) struct Budget {
    rt: Rt,
    limit: u64,
    /// Bytes for shares of accounts that are not open yet.
    shares: Cell<u64>,
    /// The free part of the pool.
    pool: Cell<u64>,
    used: Cell<u64>,
    most: Cell<u64>,
    waiting: Cell<u64>,
}

impl Budget {
    /// A budget of `limit` bytes, of which `shares` are set aside for the shares of accounts.
    pub fn new(rt: &Rt, limit: u64, shares: u64) -> Rc<Budget> {
        let shares = shares.min(limit);
        Rc::new(Budget {
            rt: rt.clone(),
            limit,
            shares: Cell::new(shares),
            pool: Cell::new(limit - shares),
            used: Cell::new(0),
            most: Cell::new(0),
            waiting: Cell::new(0),
        })
    }

    /// A new account with this share. `None` if less than that is left for shares.
    pub fn open(self: &Rc<Self>, share: u64) -> Option<Rc<Account>> {
        self.shares.set(self.shares.get().checked_sub(share)?);
        Some(Rc::new(Account {
            budget: self.clone(),
            share: Cell::new(share),
            held: Cell::new(0),
            turn: Mutex::new(&self.rt, "memory for a client"),
            freed: WaitQueue::new(&self.rt, "memory for a client"),
        }))
    }

    /// The memory that is held.
    pub fn memory(&self) -> MemoryUse {
        MemoryUse {
            limit: self.limit,
            used: self.used.get(),
            most: self.most.get(),
            waiting: self.waiting.get(),
        }
    }
}

/// A part of a budget with a share of its own.
pub(crate) struct Account {
    budget: Rc<Budget>,
    share: Cell<u64>,
    held: Cell<u64>,
    turn: Mutex,
    freed: WaitQueue,
}

impl Account {
    /// The most bytes that one call of [`Account::take`] may ask for.
    pub fn share(&self) -> u64 {
        self.share.get()
    }

    /// Whether the account holds no more than its share, and no task waits for its memory.
    pub fn is_at_ease(&self) -> bool {
        self.held.get() <= self.share() && !self.turn.is_busy()
    }

    /// How much of `bytes` more would come from the pool.
    fn beyond(&self, bytes: u64) -> u64 {
        let over = |held: u64| held.saturating_sub(self.share());
        over(self.held.get() + bytes) - over(self.held.get())
    }

    fn fits(&self, bytes: u64) -> bool {
        let (beyond, pool) = (self.beyond(bytes), self.budget.pool.get());
        let over = self.held.get().saturating_sub(self.share()) + beyond;
        beyond == 0 || beyond <= pool && over <= pool - beyond
    }

    fn grant(self: &Rc<Self>, bytes: u64) -> Grant {
        let budget = &self.budget;
        budget.pool.set(budget.pool.get() - self.beyond(bytes));
        self.held.set(self.held.get() + bytes);
        budget.used.set(budget.used.get() + bytes);
        budget.most.set(budget.most.get().max(budget.used.get()));
        Grant { account: self.clone(), bytes }
    }

    /// Takes `bytes` if they are free now and no earlier request waits.
    pub fn try_take(self: &Rc<Self>, bytes: u64) -> Option<Grant> {
        (!self.turn.is_busy() && self.fits(bytes)).then(|| self.grant(bytes))
    }

    /// Waits for `bytes`, which must not be more than the share.
    pub async fn take(self: &Rc<Self>, bytes: u64) -> Grant {
        debug_assert!(bytes <= self.share(), "{bytes} bytes of a share of {}", self.share());
        if let Some(grant) = self.try_take(bytes) {
            return grant;
        }
        let _waits = Waits::new(&self.budget.waiting);
        let _turn = self.turn.lock().await;
        self.freed.until(|| self.fits(bytes)).await;
        self.grant(bytes)
    }

    /// Frees the share for another account. The account must hold nothing. Without this call the
    /// share is freed when the last handle of the account drops.
    pub fn close(&self) {
        if self.held.get() == 0 {
            let share = self.share.take();
            self.budget.shares.set(self.budget.shares.get() + share);
        }
    }

    fn give_back(&self, bytes: u64) {
        let budget = &self.budget;
        self.held.set(self.held.get() - bytes);
        budget.pool.set(budget.pool.get() + self.beyond(bytes));
        budget.used.set(budget.used.get() - bytes);
        self.freed.notify_all();
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // Grants keep the account alive, so there is none left.
        debug_assert_eq!(self.held.get(), 0);
        self.close();
    }
}

/// Counts a waiting task.
struct Waits<'a>(&'a Cell<u64>);

impl Waits<'_> {
    fn new(count: &Cell<u64>) -> Waits<'_> {
        count.set(count.get() + 1);
        Waits(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Memory that an account holds. It goes back when this drops.
pub(crate) struct Grant {
    account: Rc<Account>,
    bytes: u64,
}

impl Grant {
    /// The bytes of this grant.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Merges another grant of the same account into this one.
    pub fn join(&mut self, mut other: Grant) {
        debug_assert!(Rc::ptr_eq(&self.account, &other.account));
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.give_back(self.bytes);
        }
    }
}

/// The system has no more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no memory for it")]
pub(crate) struct NoMemory;

/// A vector of this many zeros. Memory fresh from the system is not written to.
pub(crate) fn zeroed(bytes: usize) -> Result<Vec<u8>, NoMemory> {
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let layout = std::alloc::Layout::array::<u8>(bytes).map_err(|_| NoMemory)?;
    // SAFETY: the layout has at least one byte.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return Err(NoMemory);
    }
    // SAFETY: the global allocator has just returned this memory, with the layout of a vector of
    // this many bytes, and all of them are initialised.
    Ok(unsafe { Vec::from_raw_parts(start, bytes, bytes) })
}

/// Extends a vector to this length. Its content stays, and the added bytes are zero.
pub(crate) fn lengthen(bytes: &mut Vec<u8>, length: usize) -> Result<(), NoMemory> {
    if bytes.capacity() == 0 {
        *bytes = zeroed(length)?;
        return Ok(());
    }
    room(bytes, length.saturating_sub(bytes.len()))?;
    bytes.resize(length, 0);
    Ok(())
}

/// Makes room for this many more bytes.
pub(crate) fn room(bytes: &mut Vec<u8>, more: usize) -> Result<(), NoMemory> {
    bytes.try_reserve(more).map_err(|_| NoMemory)
}

#[cfg(test)]
mod tests;
