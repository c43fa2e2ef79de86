//! The tasks of an open log: one for each lane, one for time, one for states.

use crate::core::Core;
use crate::wait::Waiters;
use std::rc::Rc;
use tantalum_device::BlockDevice;
use tantalum_rt::first;

/// Starts them in the log's domain, for so many lanes.
pub(crate) fn spawn<D: BlockDevice + Clone + 'static>(core: &Rc<Core<D>>, lanes: usize) {
    (0..lanes).for_each(|lane| add_lane(core, lane));
    core.domain.spawn_background("log: timer", run_timer(core.clone()));
    core.domain.spawn_background("log: keeper", run_keeper(core.clone()));
}

/// Starts the task of a lane; lanes are added in order.
pub(crate) fn add_lane<D: BlockDevice + Clone + 'static>(core: &Rc<Core<D>>, lane: usize) {
    let work = Rc::new(Waiters::new(&core.rt, "work for a device of the log"));
    core.lanes.borrow_mut().push(work.clone());
    let mut works = core.works();
    if works.jobs.len() <= lane {
        works.jobs.resize_with(lane + 1, || None);
    }
    drop(works);
    core.domain.spawn_background(format!("log: lane {lane}"), run_lane(core.clone(), lane, work));
}

/// Carries out the orders of one lane.
async fn run_lane<D: BlockDevice + Clone + 'static>(
    core: Rc<Core<D>>,
    lane: usize,
    work: Rc<Waiters>,
) {
    loop {
        work.wait_while(|| core.works().jobs[lane].is_none()).await;
        let job = core.works().jobs[lane].take();
        let Some((order, bytes)) = job else { continue };
        let Some(member) = core.member(order.device) else { continue };
        let began = core.rt.now();
        let ok = member.write(order.place.unit, &bytes).await.is_ok();
        let now = core.rt.now();
        core.works().done(now, &order, bytes.len(), now.saturating_sub(began), ok);
        core.pump();
        if core.is_failed() {
            // Whoever closes the log waits for this end.
            core.changed.notify_all();
        }
    }
}

/// Looks at the plan whenever a write may have become slow.
async fn run_timer<D: BlockDevice + Clone + 'static>(core: Rc<Core<D>>) {
    loop {
        match core.wake_at.get() {
            None => core.timer.wait().await,
            Some(at) => {
                let sleep = core.rt.sleep_until_for(at, "a write of the log to become slow");
                first(core.timer.wait(), sleep).await;
                if core.rt.now() >= at {
                    core.pump();
                }
            }
        }
    }
}

/// Does what the plan asks for beside writes: new epochs, and devices that come back.
async fn run_keeper<D: BlockDevice + Clone + 'static>(core: Rc<Core<D>>) {
    loop {
        core.chores.wait_while(|| core.plan().chore().is_none() && !core.is_failed()).await;
        if core.is_failed() {
            return;
        }
        core.do_chore().await;
        core.pump();
    }
}
