//! A row of a block job: the job runs on the bare device, the power is cut under it, and
//! after each restart every block is compared with what the device promised.

use crate::report::{Clocked, RowFindings, Times, quantiles_of};
use crate::row::{RowError, RowPlan, Subject, draw, in_runtime};
use crate::shadow::Witness;
use std::cell::RefCell;
use std::rc::Rc;
use tantalum_device::{CommandKind, IoError, Latencies, Stats};
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
    in_runtime(seed, subject, |rt, subject, findings| {
        let dice = rt.stream("power cuts");
        let latency = Latencies::default();
        Run { dice, rt, subject, plan, job, findings, latency }.main(cut)
    })
}

struct Run<S> {
    rt: Rt,
    subject: S,
    plan: RowPlan,
    job: Job,
    dice: Stream,
    findings: Rc<RefCell<RowFindings>>,
    latency: Latencies,
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
        let device = Stats::new(&self.rt, witness.watch(self.subject.device()));
        let (traffic, start) = (self.subject.traffic(), self.rt.now());
        let before = witness.acknowledged();
        let (rt, on, job) = (self.rt.clone(), device.clone(), self.job.clone());
        // A job that is over before the cut begins anew.
        let seed = self.rt.seed() ^ u64::from(number);
        let load = self.rt.spawn("a block job", async move {
            loop {
                match jobs::run(&rt, &on, &job, seed).await {
                    Ok(_) => {}
                    Err(JobError::Io { error: IoError::PowerLost, .. }) => return Ok(()),
                    Err(e) => return Err(e),
                }
            }
        });
        let span = draw(&mut self.dice, self.plan.run_time);
        self.rt.sleep(span).await;
        let after = self.subject.traffic();
        self.subject.cut();
        witness.cut();
        let cut_at = self.rt.now();
        let ended = load.await.map_err(|_| RowError::Dropped)?;
        ended.map_err(|e| RowError::Job(e.to_string()))?;
        let stats = device.snapshot();
        let mut f = self.findings.borrow_mut();
        f.cuts += 1;
        f.load_ns += cut_at.saturating_sub(start).0;
        f.count_traffic(traffic, after);
        f.commits_acknowledged += witness.acknowledged() - before;
        for kind in CommandKind::ALL {
            if kind != CommandKind::Flush {
                f.transactions += stats.of(kind).commands - stats.of(kind).failed;
                self.latency.merge(&stats.of(kind).latency);
            }
        }
        f.latency = Times::of(&self.latency);
        f.latency_quantiles = quantiles_of(&self.latency);
        Ok(cut_at)
    }
}
