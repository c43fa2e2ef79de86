//! Automatic power cuts.

use super::arguments::Schedule;
use super::power::Pulled;
use super::{Front, Plug};
use crate::counted::counted;
use crate::drive::words;
use crate::out;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::LiveBox;
use tantalum_rt::sync::WaitQueue;
use tantalum_rt::{First, Nanos, Stream, first};

/// Starts the schedule, if there is one.
pub fn begin<B: LiveBox, F: Front>(plug: &Rc<Plug<B, F>>, schedule: &Schedule) {
    if schedule.cut_after_ops.is_some() || schedule.cut_every.is_some() {
        let (plug, schedule) = (plug.clone(), schedule.clone());
        let rt = plug.rt().clone();
        rt.spawn_background("power cuts to come", async move { follow(&plug, &schedule).await });
    }
}

async fn follow<B: LiveBox, F: Front>(plug: &Rc<Plug<B, F>>, schedule: &Schedule) {
    let mut dice = plug.rt().stream("power cuts");
    loop {
        plug.until_on().await;
        let pulls = plug.pulls();
        let span = schedule.cut_every.map(|times| between(&mut dice, times));
        let time = first(carried_out(plug, schedule.cut_after_ops), passed(plug, span));
        let (pulled, reason) = match first(time, plug.until_cut(pulls)).await {
            First::A(First::A((pulled, count))) => {
                (pulled, format!("after {}", counted(count, "command", "commands")))
            }
            First::A(First::B(span)) => (plug.pull(), format!("after {:.3} s", span.as_secs_f64())),
            // Another client has cut the power, and will restore it.
            First::B(()) => continue,
        };
        plug.drive().after_all();
        let report = plug.told(pulled).await;
        out::note(format_args!("cut {reason}: {}", words::cut_in_a_line(&report)));
        let Some(after) = schedule.restore_after else { continue };
        plug.io().sleep(between(&mut dice, after)).await;
        match plug.restore(false).await {
            Ok(report) => out::note(words::restore_in_a_line(&report)),
            Err(e) => out::note(format_args!("not restored: {e}")),
        }
    }
}

/// A time from the first to the second.
fn between(dice: &mut Stream, (low, high): (Nanos, Nanos)) -> Nanos {
    Nanos(dice.range(low.0, high.0 + 1))
}

/// Waits this long in real time; for ever if there is no time.
async fn passed<B: LiveBox, F: Front>(plug: &Plug<B, F>, span: Option<Nanos>) -> Nanos {
    match span {
        None => std::future::pending().await,
        Some(span) => {
            plug.io().sleep(span).await;
            span
        }
    }
}

/// Waits until this many commands were carried out, and cuts the power at that instant.
async fn carried_out<B: LiveBox, F: Front>(
    plug: &Rc<Plug<B, F>>,
    count: Option<u64>,
) -> (Pulled, u64) {
    let Some(count) = count else { return std::future::pending().await };
    let slot = Rc::new((RefCell::new(None), WaitQueue::new(plug.rt(), "commands of clients")));
    let (puller, filled) = (Rc::downgrade(plug), slot.clone());
    plug.drive().after(count, move || {
        if let Some(plug) = puller.upgrade().filter(|plug| !plug.is_stopping()) {
            *filled.0.borrow_mut() = Some(plug.pull());
            filled.1.notify_all();
        }
    });
    slot.1.until(|| slot.0.borrow().is_some()).await;
    match slot.0.take() {
        Some(pulled) => (pulled, count),
        None => std::future::pending().await,
    }
}
