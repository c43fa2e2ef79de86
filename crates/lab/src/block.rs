//! A row of a block job: the job runs on the bare device, the power is cut under it, and
//! after each restart every block is compared with what the device promised.
//!
//! 1. What a job did counts from the end of the warm-up to the cut: its own commands, not
//!    what the file system of its host adds.

use crate::report::{Clocked, RowFindings};
use crate::row::{RowError, RowPlan, Subject, draw, in_runtime};
use crate::shadow::Witness;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{CommandKind, IoError};
use tantalum_rt::{Nanos, Rt, Stream};
use tantalum_workload::jobs::{self, Job, JobError};

/// Runs a row of `job` on what `subject` makes, in a runtime of its own. `cut` is called
/// after each cut and check. The findings are those up to the error, if there is one.
pub fn run<S: Subject>(
    seed: u64,
    plan: RowPlan,
    job: Job,
    subject: impl FnOnce(&Rt) -> Result<S, RowError>,
    cut: impl Fn() + 'static,
) -> (RowFindings, Result<(), RowError>) {
    let clock: Rc<RefCell<Clocked>> = Rc::default();
    let shared = clock.clone();
    let (mut findings, result) = in_runtime(seed, subject, |rt, subject, findings| {
        let dice = rt.stream("power cuts");
        Run { dice, rt, subject, plan, job, findings, clock: shared }.main(cut)
    });
    findings.latency = clock.borrow().times();
    findings.latency_quantiles = clock.borrow().quantiles();
    (findings, result)
}

struct Run<S> {
    rt: Rt,
    subject: S,
    plan: RowPlan,
    job: Job,
    dice: Stream,
    findings: Rc<RefCell<RowFindings>>,
    clock: Rc<RefCell<Clocked>>,
}

impl<S: Subject> Run<S> {
    async fn main(mut self, cut: impl Fn()) -> Result<(), RowError> {
        let drive = |error| RowError::Drive { doing: "starting for the first time", error };
        self.subject.power_on().await.map_err(drive)?;
        let witness = Witness::new(tantalum_device::BlockDevice::caps(&self.subject.device()));
        let mut recovery = Clocked::default();
        for number in 1..=self.plan.cuts {
            let cut_at = self.under_load(&witness, number).await?;
            self.subject.off().await;
            self.rt.sleep(draw(&mut self.dice, self.plan.outage)).await;
            let start = self.rt.now();
            let drive = |error| RowError::Drive { doing: "recovering", error };
            self.subject.power_on().await.map_err(drive)?;
            recovery.add(self.rt.now().saturating_sub(start));
            let compared = witness.check(&self.subject.device()).await.map_err(drive)?;
            let mut f = self.findings.borrow_mut();
            f.drive_recovery = recovery.times();
            f.recovery = recovery.times();
            f.commits_lost += compared.lost;
            f.cuts_with_loss += u32::from(compared.lost > 0);
            f.blocks_compared += compared.blocks;
            f.violations += compared.violations;
            for words in compared.words {
                f.problem(format!("cut {number} at {cut_at}: {words}"));
            }
            drop(f);
            cut();
        }
        Ok(())
    }

    /// Runs the job until the cut; when that was.
    async fn under_load(&mut self, witness: &Witness, number: u32) -> Result<Nanos, RowError> {
        let device = witness.watch(self.subject.device());
        let before = witness.acknowledged();
        let measured = Rc::new(Cell::new(None));
        let (rt, job, on) = (self.rt.clone(), self.job.clone(), measured.clone());
        let (findings, clock) = (self.findings.clone(), self.clock.clone());
        // A job that is over before the cut begins anew.
        let seed = self.rt.seed() ^ u64::from(number);
        let load = self.rt.spawn("a block job", async move {
            loop {
                let (findings, clock) = (findings.clone(), clock.clone());
                let (now, on) = (rt.clone(), on.clone());
                let done = move |kind, took| {
                    let Some(after) = on.get() else { return };
                    if kind != CommandKind::Flush {
                        clock.borrow_mut().add(took);
                        let f = &mut *findings.borrow_mut();
                        f.transactions += 1;
                        f.series.get_or_insert_default().add(now.now().saturating_sub(after));
                    }
                };
                match jobs::run_observed(&rt, &device, &job, seed, done).await {
                    Ok(_) => {}
                    Err(JobError::Io { error: IoError::PowerLost, .. }) => return Ok(()),
                    Err(e) => return Err(e),
                }
            }
        });
        self.rt.sleep(self.plan.warm_up).await;
        // (Load goes on where the last cut ended it.)
        let (start, loaded) = (self.rt.now(), self.findings.borrow().load_ns);
        measured.set(Some(Nanos(start.0.saturating_sub(loaded))));
        let traffic = self.subject.traffic();
        self.rt.sleep(draw(&mut self.dice, self.plan.run_time)).await;
        let after = self.subject.traffic();
        measured.set(None);
        self.subject.cut();
        witness.cut();
        let cut_at = self.rt.now();
        let ended = load.await.map_err(|_| RowError::Dropped)?;
        ended.map_err(|e| RowError::Job(e.to_string()))?;
        let mut f = self.findings.borrow_mut();
        f.cuts += 1;
        f.load_ns += cut_at.saturating_sub(start).0;
        f.count_traffic(traffic, after);
        f.commits_acknowledged += witness.acknowledged() - before;
        Ok(cut_at)
    }
}
