//! The power supply after a cut: what the capacitors have left, and what draws on it.
//!
//! 1. Every program and erase draws power for as long as its die carries it out, also those that
//!    were under way at the cut. A die without work draws none.
//! 2. When the charge is used up the power is gone at that instant, whatever is under way.
//! 3. Both hold to the nanosecond even if the task wakes late, as on the wall clock of a busy
//!    machine. It computes what happened meanwhile. No task acts on the end of an operation before
//!    it is known that there was power for it.
//!
//! The model counts the power of a chip times the time of its operation (Lee et al., SpartanSSD),
//! without controller, memory and transfers.

use crate::PowerDesign;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use tantalum_nand::{NandArray, OpKind, Turn};
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{Nanos, Rt, first};

/// The outcome of a power cut: whether protected memory was saved, and the energy it took.
///
/// See [`Drive::last_power_loss`](crate::Drive::last_power_loss) for an example.
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
///
/// See [`Drive::last_power_loss`](crate::Drive::last_power_loss) for an example of one.
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
    /// Until when it is charged.
    since: Cell<Nanos>,
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
            since: Cell::new(rt.now()),
            turns: RefCell::default(),
            cut: rt.now(),
            issued: WaitQueue::new(rt, "more to draw on the capacitors"),
        }
    }

    /// Operations were issued.
    pub fn draw(&self) {
        self.issued.notify_all();
    }

    /// Waits until the charge is used up while something draws on it; for ever, if that never
    /// happens. Returns the instant, at which the array has to lose its power.
    ///
    /// It must be polled before any task that acts on the end of an operation (invariant 3).
    pub async fn run_dry(&self) -> Nanos {
        loop {
            if let Some(dry) = self.charge() {
                return dry;
            }
            let now = self.rt.now();
            let doing = self.nand.activity();
            let watts = f64::from(doing.programs) * self.watts(OpKind::Program)
                + f64::from(doing.erases) * self.watts(OpKind::Erase);
            let empty = match watts {
                0.0 => Nanos::MAX,
                // Just after: with the last of the charge an operation may end.
                watts => now.saturating_add(Nanos((self.left.get() / watts * 1e9) as u64 + 1)),
            };
            let next = doing.until.min(empty);
            // The timer may not have been heard yet when that time has come.
            let come = poll_fn(|_| match next <= self.rt.now() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            });
            let wake = async {
                match next {
                    Nanos::MAX => self.issued.wait().await,
                    next => {
                        let then = self.rt.sleep_until_for(next, "the capacitors");
                        first(then, self.issued.wait()).await;
                    }
                }
            };
            first(come, wake).await;
        }
    }

    /// Deducts what was drawn since the last call. Returns when the charge was used up, if it was.
    fn charge(&self) -> Option<Nanos> {
        let (now, left) = (self.rt.now(), self.left.get());
        let since = self.since.replace(now);
        let turns = &mut *self.turns.borrow_mut();
        self.nand.turns(since, turns);
        let drawn = |until: Nanos| -> f64 {
            let time = |turn: &Turn| turn.end.min(until).saturating_sub(turn.start.max(since));
            turns.iter().map(|turn| self.joules(turn.kind, time(turn))).sum()
        };
        let rest = left - drawn(now);
        self.left.set(rest.max(0.0));
        if rest >= 0.0 {
            return None;
        }
        let (mut enough, mut dry) = (since, now);
        while dry.0 - enough.0 > 1 {
            let middle = Nanos(enough.0 + (dry.0 - enough.0) / 2);
            match drawn(middle) > left {
                true => dry = middle,
                false => enough = middle,
            }
        }
        Some(dry)
    }

    /// The power that a die draws during it.
    fn watts(&self, kind: OpKind) -> f64 {
        match kind {
            OpKind::Read => 0.0,
            OpKind::Program => self.power.program_mw / 1e3,
            OpKind::Erase => self.power.erase_mw / 1e3,
        }
    }

    fn joules(&self, kind: OpKind, time: Nanos) -> f64 {
        self.watts(kind) * time.0 as f64 / 1e9
    }

    /// The account until `end`, which is now or the instant of [`Supply::run_dry`]. The array still
    /// has power.
    pub fn account(&self, end: Nanos, complete: bool) -> PowerLoss {
        self.charge();
        let left = self.nand.outstanding(end);
        let undone =
            self.joules(OpKind::Program, left.programs) + self.joules(OpKind::Erase, left.erases);
        PowerLoss {
            budget_j: self.budget,
            spent_j: self.budget - self.left.get(),
            missing_j: if complete { 0.0 } else { undone },
            took: end - self.cut,
            complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Design, Drive, PowerLoss};
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

    /// What a cut with a full buffer comes to on a clock that is so late, with so much in the
    /// capacitors.
    fn loss(by: Nanos, joules: Option<f64>) -> PowerLoss {
        let clock = Late { by, ..Late::default() };
        let mut runtime = Runtime::with_clock(1, Box::new(clock));
        let rt = runtime.handle();
        let loss = runtime.block_on(async move {
            let mut design = Design::preset("durassd").unwrap();
            design.power.joules = joules.unwrap_or(design.power.joules);
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
            assert_eq!(drive.power_losses().count, 1);
            drive.last_power_loss()
        });
        loss.unwrap().expect("a drive with capacitors")
    }

    const LATE: [Nanos; 3] = [Nanos::from_micros(100), Nanos::from_millis(5), Nanos::from_secs(1)];

    #[test]
    fn what_is_drawn_does_not_hang_on_when_we_look() {
        let exact = loss(Nanos::ZERO, None);
        assert!(exact.complete && exact.spent_j > 0.0, "{exact:?}");
        for by in LATE {
            let late = loss(by, None);
            let share = late.spent_j / exact.spent_j;
            assert!(
                late.complete && share > 0.5 && share < 2.0,
                "late by {by}: {late:?}, {exact:?}"
            );
        }
    }

    /// Nothing is done without power, however late the end of the charge is noticed.
    #[test]
    fn capacitors_that_are_too_small_are_so_whenever_we_look() {
        // Not for a single program, and for some.
        for joules in [0.000_02, 0.002] {
            let exact = loss(Nanos::ZERO, Some(joules));
            for by in [Nanos::ZERO].into_iter().chain(LATE) {
                let loss = loss(by, Some(joules));
                let told = format!("{joules} J, late by {by}: {loss:?}");
                assert!(!loss.complete && loss.missing_j > 0.0, "{told}");
                assert_eq!(loss.spent_j, joules, "{told}");
                assert!(loss.took <= exact.took + by, "{told}");
            }
        }
    }
}
