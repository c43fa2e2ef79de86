//! The memory that a client needs, and the accounts from which it is taken.
//!
//! 1. **Three accounts.** Received data, answers, and blocks that are written in part are charged
//!    to three separate accounts. So memory for received data waits for the device alone, never for
//!    a client that does not take its answers.
//! 2. **Enough.** Each share is enough for its purpose, whatever other clients hold: a buffer to
//!    receive into while another one is in use; a piece of a read; the blocks of one atomic unit.
//! 3. **Set aside.** The shares of the most clients are set aside when the server starts. So is a
//!    fixed cost of each client, which includes TLS if the server has it.

use super::secure::SECURE_BYTES;
use super::wire::REQUEST_BYTES;
use super::{ExportError, Limits};
use crate::budget::{Account, Budget};
use std::rc::Rc;
use tantalum_rt::Rt;

/// Room in a buffer for requests beside a payload.
const SLACK: u64 = 4096;
/// The least and the most payload of one command for which a buffer has room, unless an atomic unit
/// is longer.
const PIECES: std::ops::RangeInclusive<u64> = 64 << 10..=256 << 10;
/// How many buffers of one connection fit its share.
const BUFFERS: u64 = 4;
/// The most bytes of a small reply.
const REPLY_BYTES: u64 = 1024;
/// The most bytes of buffers for small reads and replies that a connection keeps (see `outbox.rs`,
/// `scratch.rs`).
const KEPT_BYTES: u64 = 384 << 10;

/// How a server divides its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The most payload of a write that is one command, and of a read that is one reply when memory
    /// is short. A multiple of every atomic unit.
    pub piece: u64,
    /// Bytes of a buffer into which requests are received.
    pub buffer: u64,
    /// Bytes of blocks that one command puts together in memory.
    pub bounce: u64,
    /// Small replies, buffers that are kept for reuse, and TLS.
    fixed: u64,
}

impl Plan {
    /// A plan for devices whose atomic units and block sizes divide `unit`, with blocks of at most
    /// `block` bytes.
    ///
    /// # Errors
    /// [`ExportError::Memory`] if this many clients do not fit.
    pub fn new(limits: &Limits, unit: u64, block: u64, tls: bool) -> Result<Plan, ExportError> {
        let secure = if tls { SECURE_BYTES } else { 0 };
        let fixed = KEPT_BYTES + u64::from(limits.requests) * REPLY_BYTES + secure;
        let of = |piece: u64| {
            let piece = piece.next_multiple_of(unit);
            Plan { piece, buffer: piece + SLACK, bounce: unit.max(2 * block), fixed }
        };
        let clients = u64::from(limits.clients);
        let all = |plan: &Plan| plan.share().saturating_mul(clients);
        let mut piece = *PIECES.end();
        // A quarter of the memory is left for all clients to share.
        while piece > *PIECES.start() && all(&of(piece)) > limits.memory / 4 * 3 {
            piece /= 2;
        }
        let plan = of(piece);
        match all(&plan) <= limits.memory {
            true => Ok(plan),
            false => Err(ExportError::Memory { memory: limits.memory, least: all(&plan), clients }),
        }
    }

    /// The share for received data.
    fn intake(&self) -> u64 {
        BUFFERS * self.buffer
    }

    /// The share for answers.
    fn answers(&self) -> u64 {
        2 * (self.piece + SLACK) + self.bounce
    }

    /// All that is set aside for a client.
    pub fn share(&self) -> u64 {
        self.intake() + self.answers() + self.bounce + self.fixed
    }

    /// The budget of a server.
    pub fn budget(&self, rt: &Rt, limits: &Limits) -> Rc<Budget> {
        Budget::new(rt, limits.memory, self.share() * u64::from(limits.clients))
    }

    /// The accounts of a client; `None` if there are too many.
    pub fn open(&self, budget: &Rc<Budget>) -> Option<Accounts> {
        Some(Accounts {
            plan: *self,
            intake: budget.open(self.intake())?,
            answers: budget.open(self.answers())?,
            bounce: budget.open(self.bounce)?,
            fixed: budget.open(self.fixed)?,
        })
    }

    /// How much of a write is its next command. `left` bytes are to come from `at` on. `base` is
    /// the first byte of the first block that the write touches.
    ///
    /// The command takes all of it, if that is within one atomic unit, or fits a buffer in whole
    /// blocks. Otherwise the write is split at multiples of the atomic unit from `base` on, where
    /// the device may tear it anyway. A command that is not of whole blocks is within one unit.
    pub fn next_command(&self, unit: u64, block: u64, base: u64, at: u64, left: u64) -> u64 {
        let end = at + left;
        if end - base <= unit && at - base < block {
            return left;
        }
        if !at.is_multiple_of(block) {
            return left.min(base + unit - at);
        }
        if left <= self.piece && end.is_multiple_of(block) {
            return left;
        }
        match left.min(self.piece) / unit * unit {
            0 => left,
            whole => whole,
        }
    }
}

// A buffer has room for a header and a piece.
const _: () = assert!(REQUEST_BYTES as u64 <= SLACK);

/// The accounts of one client.
#[derive(Clone)]
pub(crate) struct Accounts {
    pub plan: Plan,
    pub intake: Rc<Account>,
    pub answers: Rc<Account>,
    pub bounce: Rc<Account>,
    fixed: Rc<Account>,
}

impl Accounts {
    /// Gives the shares back for another client. Nothing may be under way.
    pub fn close(&self) {
        for account in [&self.intake, &self.answers, &self.bounce, &self.fixed] {
            account.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plan(memory: u64, clients: u32, unit: u64) -> Result<Plan, ExportError> {
        Plan::new(&Limits { memory, clients, ..Limits::default() }, unit, 512, false)
    }

    /// 3: the cost of TLS is set aside with the rest.
    #[test]
    fn tls_is_set_aside() {
        let limits = |memory| Limits { memory, clients: 64, ..Limits::default() };
        let small = plan(80 << 20, 64, 4096).expect("enough").share() * 64;
        assert!(Plan::new(&limits(small), 4096, 512, false).is_ok());
        assert!(Plan::new(&limits(small), 4096, 512, true).is_err());
        assert!(Plan::new(&limits(small + 64 * SECURE_BYTES), 4096, 512, true).is_ok());
        // With the default budget TLS does not make commands shorter.
        let usual = Plan::new(&Limits::default(), 128 << 10, 4096, true).expect("the default");
        assert_eq!(usual.piece, 256 << 10);
    }

    #[test]
    fn a_plan_fits_its_budget_or_is_refused() {
        let usual = plan(256 << 20, 64, 128 << 10).expect("the default");
        assert_eq!((usual.piece, usual.buffer), (256 << 10, 260 << 10));
        assert!(usual.share() * 64 <= 200 << 20);
        let small = plan(80 << 20, 64, 4096).expect("enough");
        assert_eq!(small.piece, 64 << 10);
        assert!(small.share() * 64 <= 80 << 20);
        assert!(plan(32 << 20, 64, 4096).is_err());
        let long = plan(1 << 30, 2, 3 << 20).expect("enough");
        assert_eq!(long.piece % (3 << 20), 0);
    }

    proptest! {
        /// Commands follow each other, fit a buffer, and are split where the device may tear them.
        /// Those that are not of whole blocks are within a unit.
        #[test]
        fn a_write_is_cut_where_it_may_be(
            at in 0..1_000_000u64, left in 1..3_000_000u64, units in 1..40u64, block in 1..3u64,
        ) {
            let block = 512 << (3 * block);
            let unit = units * block;
            let plan = plan(1 << 30, 4, unit).expect("enough");
            let base = at / block * block;
            let (mut at, mut left, first) = (at, left, at);
            let one = at + left - base <= unit;
            while left > 0 {
                let next = plan.next_command(unit, block, base, at, left);
                prop_assert!(next > 0 && next <= left && next <= plan.piece);
                prop_assert!(!one || next == left);
                let whole = at.is_multiple_of(block) && (at + next).is_multiple_of(block);
                prop_assert!(whole || (at + next).div_ceil(block) * block - at / block * block <= unit);
                prop_assert!(at == first || (at - base).is_multiple_of(unit));
                (at, left) = (at + next, left - next);
            }
        }
    }
}
