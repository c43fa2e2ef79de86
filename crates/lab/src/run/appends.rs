//! Rows of requesters that append to a log: the power is cut under them, the log is opened again,
//! and what it holds is compared with what was acknowledged.
//!
//! 1. The devices of the log are those of the row's design, of an array each member by itself, not
//!    striped; then those beside them.
//! 2. What was acknowledged and is not there, and what is out of order, breaks a promise.
//! 3. The recovery of a row is the opening of its log, which reads all of it. The start of the
//!    devices comes before that, and is the recovery of the drive.
//! 4. A striped log (the baseline) has no recovery: nothing of it is judged, and it begins anew.

use crate::report::RowFindings;
use crate::report::figures::Counts;
use crate::run::clocks::{Clocked, Clocks};
use crate::run::row::{RowBox, RowError, RowPlan, Traffic, draw, in_runtime};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tantalum_device::{BlockDevice, PowerCycle};
use tantalum_drive::Drive;
use tantalum_explore::{AnyBox, AnyLink};
use tantalum_log::{Log, LogDevice};
use tantalum_rt::{Nanos, Rt, Stream};
use tantalum_workload::appends::{AppendJob, Requesters, StripedLog, Target};

/// How often the harness looks whether the requesters still run.
const LOOK: Nanos = Nanos::from_millis(100);

/// What a log lies on.
#[derive(Clone)]
pub struct Boxes {
    /// Its devices: each one device, or several as members of an array.
    pub array: Vec<AnyBox>,
    /// Its archive.
    pub archive: Option<AnyBox>,
}

impl Boxes {
    fn each(&self) -> impl Iterator<Item = &AnyBox> {
        self.array.iter().chain(&self.archive)
    }

    /// The SSDs among its devices.
    fn drives(&self) -> Vec<Drive> {
        self.array.iter().flat_map(AnyBox::drives).cloned().collect()
    }

    /// The devices of the array.
    fn devices(&self) -> Vec<AnyLink> {
        let of = |each: &AnyBox| -> Vec<AnyLink> {
            match each {
                AnyBox::Ssds(a) => a.members().iter().map(|m| AnyLink::Ssd(m.device())).collect(),
                AnyBox::Disks(a) => a.members().iter().map(|m| AnyLink::Disk(m.device())).collect(),
                AnyBox::Rams(a) => a.members().iter().map(|m| AnyLink::Ram(m.device())).collect(),
                one => vec![one.device()],
            }
        };
        self.array.iter().flat_map(of).collect()
    }

    /// Those of the array with names, and the archive.
    fn named(&self) -> (Vec<LogDevice<AnyLink>>, Option<LogDevice<AnyLink>>) {
        let named = |(i, device)| LogDevice::new(format!("device {i}"), device);
        let archive = self.archive.as_ref().map(|a| LogDevice::new("the archive", a.device()));
        (self.devices().into_iter().enumerate().map(named).collect(), archive)
    }

    /// Bytes of a block of the log: the largest of a device.
    fn unit(&self) -> u32 {
        self.each().map(|b| b.device().caps().block_size).max().unwrap_or(512)
    }

    fn traffic(&self) -> Traffic {
        let host_bytes = self.each().map(|b| b.traffic().host_bytes).sum();
        let flash_bytes = self.array.iter().map(|b| b.traffic().flash_bytes).sum();
        Traffic { host_bytes, flash_bytes, counts: Counts::of(&self.drives()), ..<_>::default() }
    }

    fn cut(&self) {
        self.each().for_each(PowerCycle::cut);
    }

    async fn off(&self) {
        for each in self.each() {
            each.off().await;
        }
    }

    async fn power_on(&self) -> Result<(), RowError> {
        for each in self.each() {
            let drive = |error| RowError::Drive { doing: "starting", error };
            each.power_on().await.map_err(drive)?;
        }
        Ok(())
    }
}

/// Runs a row of `job` on what `made` makes, in a runtime of its own. `cut` is called after each
/// cut and check. The findings are those up to the error, if there is one.
pub fn run(
    seed: u64,
    plan: RowPlan,
    job: AppendJob,
    made: impl FnOnce(&Rt) -> Result<Boxes, RowError>,
    cut: impl Fn() + 'static,
) -> (RowFindings, Result<(), RowError>) {
    let clocks: Rc<RefCell<Clocks>> = Rc::default();
    let shared = clocks.clone();
    let (mut findings, result) = in_runtime(seed, made, |rt, boxes, findings| {
        let dice = rt.stream("power cuts");
        let requesters = Requesters::new(&rt, job.clone());
        let seconds = Rc::default();
        let run = Run { rt, boxes, plan, job, requesters, dice, findings, clocks: shared, seconds };
        run.main(cut)
    });
    clocks.borrow().tell(&mut findings);
    (findings, result)
}

struct Run {
    rt: Rt,
    boxes: Boxes,
    plan: RowPlan,
    job: AppendJob,
    requesters: Requesters,
    dice: Stream,
    findings: Rc<RefCell<RowFindings>>,
    clocks: Rc<RefCell<Clocks>>,
    /// Requests that ended in each second of load.
    seconds: Rc<RefCell<Vec<u64>>>,
}

fn told(error: impl std::fmt::Display) -> RowError {
    RowError::Job(error.to_string())
}

impl Run {
    async fn main(mut self, cut: impl Fn()) -> Result<(), RowError> {
        let result = self.cycles(cut).await;
        self.findings.borrow_mut().look_at(&self.boxes.drives());
        result
    }

    fn is_log(&self) -> bool {
        self.job.stripe_bytes == 0
    }

    async fn cycles(&mut self, cut: impl Fn()) -> Result<(), RowError> {
        self.boxes.power_on().await?;
        if self.is_log() {
            let (array, archive) = self.boxes.named();
            let options = self.job.create_options();
            Log::create(&self.rt, &array, archive.as_ref(), &options).await.map_err(told)?;
        }
        let mut log = self.open().await?;
        if let Some(log) = &log {
            self.requesters.fill(log).await.map_err(told)?;
        }
        let (mut starts, mut openings) = (Clocked::default(), Clocked::default());
        while self.plan.goes_on(&self.findings.borrow()) {
            self.under_load(log.take()).await?;
            self.boxes.off().await;
            self.rt.sleep(draw(&mut self.dice, self.plan.outage)).await;
            let start = self.rt.now();
            self.boxes.power_on().await?;
            let on = self.rt.now();
            starts.add(on.saturating_sub(start));
            log = self.open().await?;
            if log.is_some() {
                openings.add(self.rt.now().saturating_sub(on));
            }
            self.judge(log.as_ref()).await?;
            let mut f = self.findings.borrow_mut();
            (f.drive_recovery, f.recovery) = (starts.times(), openings.times());
            drop(f);
            cut();
        }
        Ok(())
    }

    /// The log, unless it is the baseline.
    async fn open(&self) -> Result<Option<Log<AnyLink>>, RowError> {
        if !self.is_log() {
            return Ok(None);
        }
        let (mut devices, archive) = self.boxes.named();
        devices.extend(archive);
        let options = self.job.open_options(self.boxes.unit());
        Log::open(&self.rt, devices, options).await.map(Some).map_err(told)
    }

    /// Runs the requesters until the cut.
    async fn under_load(&mut self, log: Option<Log<AnyLink>>) -> Result<(), RowError> {
        let before = self.requesters.acknowledged();
        let target = Rc::new(match log.clone() {
            Some(log) => Target::Log(log),
            None => {
                let (devices, stripe) = (self.boxes.devices(), self.job.stripe_bytes);
                Target::Striped(StripedLog::new(&self.rt, devices, stripe))
            }
        });
        let (domain, measured) = (self.rt.domain(), Rc::new(Cell::new(None)));
        let done = self.observer(&measured);
        self.requesters.start(&domain, &target, self.boxes.unit(), done);
        self.sleep(self.plan.warm_up).await?;
        let (start, loaded) = (self.rt.now(), self.findings.borrow().load_ns);
        measured.set(Some(Nanos(start.0.saturating_sub(loaded))));
        let (traffic, hedges) = (self.boxes.traffic(), log.as_ref().map(|l| l.stats().hedges));
        let run_time = draw(&mut self.dice, self.plan.run_time);
        let ran = self.sleep(run_time).await;
        let after = self.boxes.traffic();
        measured.set(None);
        let hedges = log.as_ref().map_or(0, |l| l.stats().hedges) - hedges.unwrap_or(0);
        self.findings.borrow_mut().look_before_cut(&self.boxes.drives());
        self.boxes.cut();
        domain.kill();
        let mut f = self.findings.borrow_mut();
        f.load_ns += self.rt.now().saturating_sub(start).0;
        f.count_traffic(traffic, after);
        f.commits_acknowledged += self.requesters.acknowledged() - before;
        f.cuts += 1;
        self.measure(&mut f, hedges);
        ran
    }

    /// What is counted for each request.
    fn measure(&self, f: &mut RowFindings, hedges: u64) {
        let requests = f.transactions.max(1) as f64;
        f.measures.insert("device_bytes_per_request", f.host_bytes as f64 / requests);
        let all = f.measures.remove("hedges").unwrap_or(0.0) + hedges as f64;
        f.measures.extend([("hedges", all), ("hedges_per_request", all / requests)]);
        let whole = f.load_ns / 1_000_000_000;
        let seconds = self.seconds.borrow();
        let of = |i: u64| seconds.get(i as usize).copied().unwrap_or(0);
        if let Some(least) = (0..whole).map(of).min() {
            f.measures.insert("slowest_second", least as f64);
        }
    }

    /// Sleeps, unless a requester fails.
    async fn sleep(&self, span: Nanos) -> Result<(), RowError> {
        let end = self.rt.now() + span;
        while self.rt.now() < end {
            let rest = end.saturating_sub(self.rt.now());
            self.rt.sleep(rest.min(LOOK)).await;
            if let Some(error) = self.requesters.failure() {
                return Err(told(error));
            }
        }
        Ok(())
    }

    /// Counts the requests that end during the measurement.
    fn observer(&self, measured: &Rc<Cell<Option<Nanos>>>) -> impl Fn(Nanos) + Clone + 'static {
        let (rt, measured) = (self.rt.clone(), measured.clone());
        let (findings, clocks) = (self.findings.clone(), self.clocks.clone());
        let (seconds, bytes) = (self.seconds.clone(), self.job.request_bytes);
        move |took| {
            let Some(from) = measured.get() else { return };
            let after = rt.now().saturating_sub(from);
            clocks.borrow_mut().add("append", took);
            let f = &mut *findings.borrow_mut();
            f.transactions += 1;
            f.user_bytes += bytes;
            f.series.get_or_insert_default().add(after);
            let mut seconds = seconds.borrow_mut();
            let second = (after.0 / 1_000_000_000) as usize;
            if seconds.len() <= second {
                seconds.resize(second + 1, 0);
            }
            seconds[second] += 1;
        }
    }

    async fn judge(&self, log: Option<&Log<AnyLink>>) -> Result<(), RowError> {
        self.requesters.forget_failure();
        let Some(log) = log else { return Ok(()) };
        let judged = self.requesters.judge(log).await.map_err(told)?;
        let mut f = self.findings.borrow_mut();
        f.commits_lost += judged.lost;
        f.cuts_with_loss += u32::from(judged.lost > 0);
        f.violations += judged.lost + judged.wrong;
        if judged.lost + judged.wrong > 0 {
            let (cut, lost, wrong) = (f.cuts, judged.lost, judged.wrong);
            f.problem(format!(
                "cut {cut}: of the acknowledged records {lost} gone, {wrong} out of order"
            ));
        }
        Ok(())
    }
}
