//! The power supply after a cut: what the capacitors have left, and what draws on it.
//!
//! 1. Every program and erase that a die is at is charged, for as long as it is at it, also
//!    those that were under way at the cut.
//!    That we look late, as on the wall clock of a busy machine, costs nothing: a die that is
//!    done draws no more.
//! 2. When the charge is gone the power is gone at that instant, whatever is under way.
//!
//! Charged is what the energy model counts (Lee et al., SpartanSSD: power of a chip times
//! time of its operation); controller, memory and transfers are not in it.

use crate::PowerDesign;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_nand::{NandArray, OpKind, Turn};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{Nanos, Rt, first};

/// What became of the protected memory at a power cut, and what it took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PowerLoss {
    /// Joules that there were.
    pub budget_j: f64,
    /// Joules that were drawn.
    pub spent_j: f64,
    /// Joules that were missing: to finish what was under way or waited for its die when the
    /// charge was gone. 0 if it sufficed.
    pub missing_j: f64,
    /// From the cut until the drive was off.
    pub took: Nanos,
    /// Whether the emergency dump was complete, or none was needed.
    pub complete: bool,
}

/// All power losses of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PowerLosses {
    /// How many there were.
    pub count: u64,
    /// Of these, with a dump that is not complete.
    pub incomplete: u64,
    /// Joules that there were each time.
    pub budget_j: f64,
    /// The most joules that were drawn in one.
    pub most_spent_j: f64,
    /// The most joules that were missing in one.
    pub most_missing_j: f64,
    /// The longest.
    pub longest: Nanos,
}

impl PowerLosses {
    /// One more.
    pub(crate) fn add(&mut self, loss: &PowerLoss) {
        self.count += 1;
        self.incomplete += u64::from(!loss.complete);
        self.budget_j = loss.budget_j;
        self.most_spent_j = self.most_spent_j.max(loss.spent_j);
        self.most_missing_j = self.most_missing_j.max(loss.missing_j);
        self.longest = self.longest.max(loss.took);
    }
}

/// Capacitors, and the flash array that lives on them.
pub(crate) struct Supply {
    rt: Rt,
    nand: Rc<NandArray>,
    power: PowerDesign,
    budget: f64,
    left: Cell<f64>,
    /// What is drawn since then, watts; until when that is so, and what follows.
    watts: Cell<f64>,
    since: Cell<Nanos>,
    until: Cell<Nanos>,
    turns: RefCell<Vec<Turn>>,
    cut: Nanos,
    issued: WaitQueue,
}

impl Supply {
    /// Capacitors with `budget` joules, from now on alone.
    pub fn new(rt: &Rt, nand: &Rc<NandArray>, power: PowerDesign, budget: f64) -> Supply {
        Supply {
            rt: rt.clone(),
            nand: nand.clone(),
            power,
            budget,
            left: Cell::new(budget),
            watts: Cell::new(0.0),
            since: Cell::new(rt.now()),
            until: Cell::new(Nanos::MAX),
            turns: RefCell::default(),
            cut: rt.now(),
            issued: WaitQueue::new(rt, "more to draw on the capacitors"),
        }
    }

    /// Operations were issued.
    pub fn draw(&self) {
        self.issued.notify_all();
    }

    /// Waits until the charge is gone; for ever, if it never is.
    pub async fn run_dry(&self) {
        loop {
            self.charge();
            let now = self.rt.now();
            if self.left.get() <= 0.0 {
                return;
            }
            let doing = self.nand.activity();
            let milliwatts = f64::from(doing.programs) * self.power.program_mw
                + f64::from(doing.erases) * self.power.erase_mw;
            self.watts.set(milliwatts / 1e3);
            self.until.set(doing.until);
            self.nand.turns(&mut self.turns.borrow_mut());
            let empty = match self.watts.get() {
                0.0 => Nanos::MAX,
                watts => now.saturating_add(Nanos((self.left.get() / watts * 1e9).ceil() as u64)),
            };
            let until = doing.until.min(empty);
            match until {
                Nanos::MAX => self.issued.wait().await,
                until => {
                    let then = self.rt.sleep_until_for(until, "the capacitors");
                    first(then, self.issued.wait()).await;
                }
            }
        }
    }

    /// Takes what was drawn since the last look.
    fn charge(&self) {
        let now = self.rt.now();
        let since = self.since.replace(now);
        let until = self.until.get().clamp(since, now);
        let mut drawn = self.watts.get() * (until - since).0 as f64 / 1e9;
        // Only if it is later than was asked for.
        if until < now {
            for turn in self.turns.borrow().iter() {
                let time = turn.end.min(now).saturating_sub(turn.start.max(until));
                drawn += self.milliwatts(turn.kind) / 1e3 * time.0 as f64 / 1e9;
            }
        }
        self.left.set((self.left.get() - drawn).max(0.0));
    }

    /// Of a die that is at it.
    fn milliwatts(&self, kind: OpKind) -> f64 {
        match kind {
            OpKind::Read => 0.0,
            OpKind::Program => self.power.program_mw,
            OpKind::Erase => self.power.erase_mw,
        }
    }

    /// What it came to; the array has its power still.
    pub fn account(&self, complete: bool) -> PowerLoss {
        self.charge();
        let left = self.nand.outstanding();
        let joules = |mw: f64, time: Nanos| mw / 1e3 * time.0 as f64 / 1e9;
        let undone =
            joules(self.power.program_mw, left.programs) + joules(self.power.erase_mw, left.erases);
        PowerLoss {
            budget_j: self.budget,
            spent_j: self.budget - self.left.get(),
            missing_j: if complete { 0.0 } else { undone },
            took: self.rt.now() - self.cut,
            complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Design, Drive};
    use tantalum_device::{Block, BlockDevice, Data, Durability, Payload, PowerCycle};
    use tantalum_rt::{Clock, Idle, Nanos, Runtime, VirtualClock};

    /// A clock that wakes late, as that of a busy machine does.
    #[derive(Default)]
    struct Late {
        clock: VirtualClock,
        by: Nanos,
    }

    impl Clock for Late {
        fn now(&self) -> Nanos {
            self.clock.now()
        }

        fn idle(&mut self, deadline: Option<Nanos>) -> Idle {
            self.clock.idle(deadline.map(|t| t + self.by))
        }
    }

    /// Joules drawn after a cut with a full buffer, on a clock that is so late.
    fn drawn(by: Nanos) -> f64 {
        let clock = Late { by, ..Late::default() };
        let mut runtime = Runtime::with_clock(1, Box::new(clock));
        let rt = runtime.handle();
        let loss = runtime.block_on(async move {
            let design = Design::preset("durassd").unwrap();
            let drive = Drive::new(&rt, &design, Payload::Stamps).unwrap();
            drive.start().await.unwrap();
            let device = drive.device();
            for block in 0..2000u64 {
                let stamp = [block];
                device
                    .write(Block(block * 37), Data::Stamps(&stamp), Durability::Normal)
                    .await
                    .unwrap();
            }
            drive.cut();
            drive.off().await;
            drive.power_losses()
        });
        let loss = loss.unwrap();
        assert_eq!((loss.count, loss.incomplete), (1, 0), "late by {by}: {loss:?}");
        loss.most_spent_j
    }

    #[test]
    fn what_is_drawn_does_not_hang_on_when_we_look() {
        let exact = drawn(Nanos::ZERO);
        assert!(exact > 0.0);
        for by in [Nanos::from_micros(100), Nanos::from_millis(5), Nanos::from_secs(1)] {
            let late = drawn(by);
            assert!(
                late > exact / 2.0 && late < 2.0 * exact,
                "late by {by}: {late} J instead of {exact} J"
            );
        }
    }
}
